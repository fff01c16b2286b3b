//! Statistics of nodes, and what they are worth.

use std::{sync::Arc, thread, time::Duration};

use pointsman_instance_selector::{
    AdaptiveKind, AdaptiveSettings, Ended, InFlight, Measured, NodeStatistics, Standing, decay,
};
use proptest::prelude::*;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn node(settings: AdaptiveSettings) -> Arc<NodeStatistics> {
    Arc::new(NodeStatistics::new(settings, Duration::ZERO))
}

/// Sends a request and ends it.
fn request(node: &Arc<NodeStatistics>, ended: Ended, now: Duration) {
    node.sent(now).ended(ended, now);
}

fn answered(latency: u64) -> Ended {
    Ended::Answered(millis(latency))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn averages_begin_at_one_and_take_two_thirds_of_the_new() {
    let node = node(AdaptiveSettings::default());
    let first = node.sent(Duration::ZERO);
    assert!(close(node.measured().in_flight_average, 1.0));
    let second = node.sent(Duration::ZERO);
    assert!(close(node.measured().in_flight_average, 2.0 * 0.666 + 0.334));
    first.ended(answered(10), millis(10));
    assert!(close(node.measured().latency_ms, 10.0 * 0.666 + 0.334));
    second.ended(answered(20), millis(20));
    assert!(close(node.measured().latency_ms, 20.0 * 0.666 + (10.0 * 0.666 + 0.334) * 0.334));
    assert_eq!((node.measured().in_flight, node.measured().samples), (0, 2));
}

#[test]
fn a_fast_failure_does_not_look_fast() {
    let settings = AdaptiveSettings { alpha: 1.0, ..AdaptiveSettings::default() };
    let node = node(settings);
    request(&node, Ended::Failed { took: millis(1), allowance: millis(10_000) }, Duration::ZERO);
    assert!(close(node.measured().latency_ms, 10_000.0));
    request(&node, Ended::Failed { took: millis(11_000), allowance: millis(10_000) }, Duration::ZERO);
    assert!(close(node.measured().latency_ms, 11_000.0));
}

#[test]
fn errors_of_the_query_and_cancelled_requests_feed_nothing_and_are_counted_out() {
    let node = node(AdaptiveSettings::default());
    request(&node, Ended::NoEvidence, Duration::ZERO);
    drop(node.sent(Duration::ZERO));
    let measured = node.measured();
    assert_eq!((measured.in_flight, measured.samples), (0, 0));
    assert!(close(measured.latency_ms, 1.0));
}

#[test]
fn values_of_the_warm_up_are_ignored_and_requests_still_counted() {
    let settings = AdaptiveSettings { warmup: millis(100), ..AdaptiveSettings::default() };
    let node = node(settings);
    let early = node.sent(millis(99));
    assert_eq!(node.measured().in_flight, 1);
    early.ended(answered(50), millis(99));
    assert_eq!(node.measured().samples, 0);
    request(&node, answered(50), millis(100));
    assert_eq!(node.measured().samples, 1);
}

#[test]
fn an_average_that_rests_for_longer_than_a_window_drifts_to_the_others() {
    let settings = AdaptiveSettings { alpha: 0.5, initial: 0.0, ..AdaptiveSettings::default() };
    let [slow, fast, faster, never] = [(); 4].map(|()| node(settings));
    request(&slow, answered(400), Duration::ZERO);
    for at in [0, 9_000] {
        request(&fast, answered(20), millis(at));
        request(&faster, answered(10), millis(at));
    }
    let before = [&fast, &faster].map(|node| node.measured().latency_ms);
    let nodes = [slow, fast, faster, never];
    decay(&nodes, millis(10_000));
    assert!(close(nodes[0].measured().latency_ms, 200.0), "not yet");
    decay(&nodes, millis(10_001));
    let mean = f64::midpoint(before[0], before[1]);
    assert!(close(nodes[0].measured().latency_ms, f64::midpoint(200.0, mean)));
    assert_eq!(nodes[0].measured().samples, 2, "it counts as a feed");
    assert_eq!([&nodes[1], &nodes[2]].map(|node| node.measured().latency_ms), before);
    assert_eq!(nodes[3].measured().samples, 0, "what was never fed does not decay");
    decay(&nodes, millis(10_002));
    assert_eq!(nodes[0].measured().samples, 2, "it was fed within the window");
}

#[test]
fn a_node_that_is_alone_drifts_to_nothing() {
    let settings = AdaptiveSettings { alpha: 0.5, initial: 0.0, ..AdaptiveSettings::default() };
    let nodes = [node(settings)];
    request(&nodes[0], answered(100), Duration::ZERO);
    decay(&nodes, millis(10_001));
    assert!(close(nodes[0].measured().latency_ms, 25.0));
}

#[test]
fn all_means_are_taken_before_anything_is_fed() {
    let settings = AdaptiveSettings { alpha: 1.0, ..AdaptiveSettings::default() };
    let nodes = [node(settings), node(settings)];
    request(&nodes[0], answered(10), Duration::ZERO);
    request(&nodes[1], answered(90), Duration::ZERO);
    decay(&nodes, millis(10_001));
    assert!(close(nodes[0].measured().latency_ms, 90.0) && close(nodes[1].measured().latency_ms, 10.0));
}

#[test]
fn a_window_of_nothing_means_no_decay() {
    let nodes = [node(AdaptiveSettings { decay_window: Duration::ZERO, ..AdaptiveSettings::default() })];
    request(&nodes[0], answered(10), Duration::ZERO);
    let before = nodes[0].measured();
    decay(&nodes, Duration::from_secs(3600));
    assert_eq!(nodes[0].measured(), before);
}

#[test]
fn scores_are_latency_requests_in_flight_or_both() {
    let measured = Measured { in_flight: 2, in_flight_average: 1.0, latency_ms: 10.0, samples: 9 };
    let score = |kind| AdaptiveSettings { kind, ..AdaptiveSettings::default() }.score(&measured);
    assert!(close(score(AdaptiveKind::Latency), 10.0));
    assert!(close(score(AdaptiveKind::InFlight), 2.0));
    assert!(close(score(AdaptiveKind::Hybrid), 270.0));
    let settings = AdaptiveSettings {
        kind: AdaptiveKind::Hybrid,
        hybrid_exponent: 2.0,
        hybrid_floor: 1.0,
        ..AdaptiveSettings::default()
    };
    assert!(close(settings.score(&measured), 160.0));
}

#[test]
fn a_node_is_measured_but_not_flooded() {
    let settings = AdaptiveSettings { kind: AdaptiveKind::Latency, ..AdaptiveSettings::default() };
    let standing = |in_flight, samples| {
        settings.standing(Some(&Measured { in_flight, in_flight_average: 1.0, latency_ms: 7.0, samples }))
    };
    assert_eq!(settings.standing(None), Standing::Unmeasured);
    assert_eq!(standing(1, 4), Standing::Unmeasured);
    assert_eq!(standing(2, 4), Standing::TrialFull);
    assert_eq!(standing(9, 5), Standing::Measured(7.0));
}

#[test]
fn stated_figures_count_as_measured_and_keep_what_is_left_out() {
    let node = node(AdaptiveSettings::default());
    node.set(Measured::observed(None, None, None));
    let expected = Measured { in_flight: 0, in_flight_average: 0.0, latency_ms: 1.0, samples: u64::MAX };
    assert_eq!(node.measured(), expected);
    node.set(Measured::observed(Some(node.measured()), Some(3), None));
    node.set(Measured::observed(Some(node.measured()), None, Some(20.0)));
    let expected = Measured { in_flight: 3, in_flight_average: 3.0, latency_ms: 20.0, samples: u64::MAX };
    assert_eq!(node.measured(), expected);
    request(&node, answered(5), Duration::ZERO);
    assert_eq!((node.measured().in_flight, node.measured().samples), (3, u64::MAX));
}

#[test]
fn nothing_is_in_flight_after_many_threads_have_ended() {
    let node = node(AdaptiveSettings::default());
    thread::scope(|scope| {
        for thread in 0..4 {
            let node = &node;
            scope.spawn(move || {
                for at in 0..5_000 {
                    let sent = node.sent(millis(at));
                    match (at + thread) % 4 {
                        0 => drop(sent),
                        1 => sent.ended(Ended::NoEvidence, millis(at)),
                        2 => sent.ended(Ended::Failed { took: millis(1), allowance: millis(9) }, millis(at)),
                        _ => sent.ended(answered(3), millis(at)),
                    }
                }
            });
        }
    });
    let measured = node.measured();
    assert_eq!(measured.in_flight, 0);
    assert_eq!(measured.samples, 10_000, "no feed is lost");
    assert!((1.0..=9.0).contains(&measured.latency_ms), "{measured:?}");
}

/// What happens to one of a few nodes.
#[derive(Clone, Debug)]
enum Step {
    Sent(usize),
    /// The request at this place among those under way ends.
    Ended(usize, Ended),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let ended = prop_oneof![
        (0..500u64).prop_map(answered),
        (0..500u64).prop_map(|took| Ended::Failed { took: millis(took), allowance: millis(500) }),
        Just(Ended::NoEvidence),
    ];
    prop_oneof![
        3 => (0..3usize).prop_map(Step::Sent),
        3 => (0..10usize, ended).prop_map(|(at, ended)| Step::Ended(at, ended)),
        1 => Just(Step::Tick),
    ]
}

proptest! {
    #[test]
    fn counts_are_exact_and_averages_stay_within_what_was_fed(
        steps in proptest::collection::vec((step(), 0..9_000u64), 1..200),
    ) {
        let nodes = [(); 3].map(|()| node(AdaptiveSettings::default()));
        let mut under_way: Vec<(usize, InFlight)> = vec![];
        let (mut now, mut most) = (Duration::ZERO, 0);
        for (step, pause) in steps {
            now += millis(pause);
            match step {
                Step::Sent(at) => {
                    under_way.push((at, nodes[at].sent(now)));
                    most = most.max(under_way.len());
                }
                Step::Ended(at, ended) if at < under_way.len() => under_way.remove(at).1.ended(ended, now),
                Step::Ended(..) => {}
                Step::Tick => decay(&nodes, now),
            }
            for (at, node) in nodes.iter().enumerate() {
                let measured = node.measured();
                let expected = under_way.iter().filter(|(to, _)| *to == at).count();
                prop_assert_eq!(measured.in_flight, expected as u64);
                prop_assert!((0.0..=500.0).contains(&measured.latency_ms), "{measured:?}");
                prop_assert!((0.0..=most.max(1) as f64).contains(&measured.in_flight_average), "{measured:?}");
            }
        }
        drop(under_way);
        prop_assert!(nodes.iter().all(|node| node.measured().in_flight == 0));
    }
}
