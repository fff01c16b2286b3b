//! The rules of the failure detector, one test each.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::time::Duration;

use pointsman_failure_detector::{Action, Detector, Event, Inclusion, Key, Kind, Outcome, Settings};
use pointsman_ids::{Incarnation, NodeKey};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn node(name: &str) -> NodeKey {
    NodeKey { cluster: "east".parse().unwrap(), node: name.parse().unwrap() }
}

fn key(name: &str) -> Key {
    Key::Node(node(name))
}

fn bare(name: &str) -> Key {
    Key::Bare(name.parse().unwrap())
}

fn failed(key: Key) -> Event {
    Event::Failed { key, incarnation: None, evidence: "refused".into() }
}

fn member(name: &str, incarnation: u64, enabled: bool) -> Event {
    Event::Member { node: node(name), incarnation: Incarnation(incarnation), enabled }
}

fn probed(key: Key, outcome: Outcome) -> Event {
    Event::Probed { key, outcome }
}

fn detector() -> Detector {
    Detector::new(Settings::default()).unwrap()
}

/// Times of the probes of a node that never recovers, and the time at which it is forced back.
fn schedule(settings: Settings) -> (Vec<u64>, u64) {
    let mut detector = Detector::new(settings).unwrap();
    detector.handle(failed(key("n1")), Duration::ZERO);
    let mut probes = vec![];
    loop {
        let now = detector.next_wakeup().unwrap();
        match detector.handle(Event::Tick, now).as_slice() {
            [Action::Probe(_)] => probes.push(now.as_secs()),
            [Action::Include(_)] => return (probes, now.as_secs()),
            other => panic!("{other:?}"),
        }
        detector.handle(probed(key("n1"), Outcome::Unhealthy("silent".into())), now);
    }
}

#[test]
fn probes_come_after_growing_waits_and_then_the_node_is_forced_back() {
    let (probes, forced) = schedule(Settings::default());
    assert_eq!(probes, [5, 15, 35, 75, 135, 195, 255, 315, 375, 435]);
    assert_eq!(forced, 495);
    let (probes, forced) = schedule(Settings { max_delay: Duration::ZERO, ..Settings::default() });
    assert_eq!(probes, [5, 15, 35, 75, 155, 315, 635, 1275, 2555, 5115]);
    assert_eq!(forced, 10_235);
}

#[test]
fn no_retries_force_a_node_back_after_the_first_wait() {
    assert_eq!(schedule(Settings { max_retries: 0, ..Settings::default() }), (vec![], 5));
}

#[test]
fn a_negative_number_of_retries_probes_without_end() {
    let mut detector = Detector::new(Settings { max_retries: -1, ..Settings::default() }).unwrap();
    detector.handle(failed(key("n1")), Duration::ZERO);
    for _ in 0..1000 {
        let now = detector.next_wakeup().unwrap();
        assert_eq!(detector.handle(Event::Tick, now), [Action::Probe(key("n1"))]);
        detector.handle(probed(key("n1"), Outcome::Error("panic".into())), now);
    }
}

#[test]
fn a_factor_below_one_shortens_the_wait_to_a_millisecond() {
    let mut detector = Detector::new(Settings { factor: 0.001, ..Settings::default() }).unwrap();
    detector.handle(failed(key("n1")), Duration::ZERO);
    for wait in [Duration::from_millis(5), Duration::from_millis(1), Duration::from_millis(1)] {
        let now = detector.next_wakeup().unwrap();
        detector.handle(Event::Tick, now);
        detector.handle(probed(key("n1"), Outcome::Unhealthy("silent".into())), now);
        assert_eq!(detector.next_wakeup(), Some(now + wait));
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |settings: Settings| Detector::new(settings).unwrap_err().to_string();
    let base = Settings::default;
    assert!(refused(Settings { initial_delay: Duration::ZERO, ..base() }).contains("initial_delay"));
    assert!(refused(Settings { max_delay: Duration::from_micros(5), ..base() }).contains("max_delay"));
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(Settings { factor, ..base() }).contains("factor"));
    }
}

#[test]
fn a_second_mark_leaves_the_schedule_alone() {
    let mut detector = detector();
    assert_eq!(detector.handle(failed(key("n1")), secs(0)), [Action::Exclude(key("n1"))]);
    assert_eq!(detector.handle(failed(key("n1")), secs(4)), []);
    assert_eq!(detector.next_wakeup(), Some(secs(5)));
    assert_eq!(detector.counters().exclusions, 1);
}

#[test]
fn healthy_and_unknown_bring_a_node_back_and_the_next_failure_begins_anew() {
    for outcome in [Outcome::Healthy, Outcome::Unknown] {
        let mut detector = detector();
        detector.handle(failed(key("n1")), secs(0));
        detector.handle(Event::Tick, secs(5));
        detector.handle(probed(key("n1"), Outcome::Unhealthy("silent".into())), secs(7));
        assert_eq!(detector.next_wakeup(), Some(secs(17)));
        detector.handle(Event::Tick, secs(17));
        assert_eq!(detector.handle(probed(key("n1"), outcome), secs(17)), [Action::Include(key("n1"))]);
        assert_eq!(detector.counters().inclusions[&Inclusion::Probe], 1);
        detector.handle(failed(key("n1")), secs(20));
        assert_eq!(detector.next_wakeup(), Some(secs(25)));
    }
}

#[test]
fn a_verdict_about_an_earlier_illness_is_ignored() {
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(0));
    detector.handle(Event::Tick, secs(5));
    detector.handle(Event::Recovered { key: key("n1") }, secs(6));
    detector.handle(failed(key("n1")), secs(6));
    assert_eq!(detector.handle(probed(key("n1"), Outcome::Healthy), secs(7)), []);
    assert!(detector.is_unhealthy(&node("n1")));
    assert_eq!(detector.next_wakeup(), Some(secs(11)));
}

#[test]
fn a_node_is_excluded_while_either_of_its_keys_is() {
    let mut detector = detector();
    detector.handle(failed(bare("n1")), secs(0));
    assert!(detector.is_unhealthy(&node("n1")));
    detector.handle(failed(key("n1")), secs(1));
    detector.handle(Event::Recovered { key: bare("n1") }, secs(2));
    assert!(detector.is_unhealthy(&node("n1")));
    detector.handle(Event::Recovered { key: key("n1") }, secs(2));
    assert!(!detector.is_unhealthy(&node("n1")));
}

#[test]
fn retries_due_together_run_in_the_order_of_their_keys() {
    let mut detector = detector();
    for key in [key("n2"), bare("a"), key("n1")] {
        detector.handle(failed(key), secs(0));
    }
    let expected = [bare("a"), key("n1"), key("n2")].map(Action::Probe);
    assert_eq!(detector.handle(Event::Tick, secs(5)), expected);
    assert_eq!(detector.next_wakeup(), None, "probes under way are waited for");
}

#[test]
fn a_report_about_an_older_incarnation_is_dropped_and_counted() {
    let mut detector = detector();
    detector.handle(member("n1", 7, true), secs(0));
    let about = |incarnation| Event::Failed {
        key: key("n1"),
        incarnation: Some(Incarnation(incarnation)),
        evidence: "reset".into(),
    };
    assert_eq!(detector.handle(about(6), secs(1)), []);
    assert_eq!(detector.counters().stale_reports, 1);
    assert_eq!(detector.handle(about(7), secs(1)), [Action::Exclude(key("n1"))]);
}

#[test]
fn a_node_that_becomes_enabled_or_starts_anew_has_a_clean_record() {
    for comes_back in [member("n1", 2, true), member("n1", 1, true)] {
        let mut detector = detector();
        detector.handle(
            member("n1", 1, matches!(comes_back, Event::Member { incarnation: Incarnation(2), .. })),
            secs(0),
        );
        detector.handle(failed(key("n1")), secs(1));
        detector.handle(failed(bare("n1")), secs(1));
        let expected = [key("n1"), bare("n1")].map(Action::Include);
        assert_eq!(detector.handle(comes_back, secs(2)), expected);
        assert_eq!(detector.counters().inclusions[&Inclusion::ReEnabled], 2);
    }
}

#[test]
fn disabling_leaves_the_record_alone() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    detector.handle(failed(key("n1")), secs(1));
    assert_eq!(detector.handle(member("n1", 1, false), secs(2)), []);
    assert_eq!(detector.handle(Event::Tick, secs(6)), [Action::Probe(key("n1"))]);
    detector.handle(probed(key("n1"), Outcome::NotEnabled), secs(6));
    assert_eq!(detector.record(&node("n1")).unwrap().tries, 1);
}

#[test]
fn no_record_outlives_its_node() {
    let mut detector = detector();
    let west = NodeKey { cluster: "west".parse().unwrap(), ..node("n1") };
    detector.handle(member("n1", 1, true), secs(0));
    detector
        .handle(Event::Member { node: west.clone(), incarnation: Incarnation(1), enabled: true }, secs(0));
    detector.handle(failed(key("n1")), secs(1));
    detector.handle(failed(bare("n1")), secs(1));
    assert_eq!(detector.handle(Event::Removed { node: node("n1") }, secs(2)), [Action::Include(key("n1"))]);
    assert_eq!(detector.handle(Event::Removed { node: west }, secs(3)), [Action::Include(bare("n1"))]);
    assert_eq!(detector.unhealthy().count(), 0);
    assert_eq!(detector.counters().inclusions[&Inclusion::Removed], 2);
}

#[test]
fn a_suspicion_is_decided_by_one_probe() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    let suspected = || Event::Suspected { node: node("n1") };
    assert_eq!(detector.handle(suspected(), secs(1)), [Action::Probe(key("n1"))]);
    assert_eq!(detector.handle(suspected(), secs(1)), [], "one probe per node at a time");
    assert_eq!(detector.handle(probed(key("n1"), Outcome::Unknown), secs(2)), []);
    detector.handle(suspected(), secs(3));
    let silent = Outcome::Unhealthy("silent".into());
    assert_eq!(detector.handle(probed(key("n1"), silent), secs(5)), [Action::Exclude(key("n1"))]);
    assert_eq!(detector.record(&node("n1")).unwrap().evidence, "silent");
    assert_eq!(detector.handle(suspected(), secs(6)), [], "retries look after it now");
}

#[test]
fn a_disabled_node_is_not_probed_on_suspicion() {
    let mut detector = detector();
    detector.handle(member("n1", 1, false), secs(0));
    assert_eq!(detector.handle(Event::Suspected { node: node("n1") }, secs(1)), []);
    assert_eq!(detector.handle(Event::Suspected { node: node("n2") }, secs(1)), []);
}

#[test]
fn a_check_of_a_process_that_was_followed_by_another_marks_nobody() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    detector.handle(Event::Suspected { node: node("n1") }, secs(1));
    detector.handle(member("n1", 2, true), secs(2));
    let silent = Outcome::Unhealthy("silent".into());
    assert_eq!(detector.handle(probed(key("n1"), silent), secs(3)), []);
    assert!(!detector.is_unhealthy(&node("n1")));
}

#[test]
fn the_kind_none_marks_nobody() {
    let mut detector = Detector::new(Settings { kind: Kind::None, ..Settings::default() }).unwrap();
    detector.handle(member("n1", 1, true), secs(0));
    assert_eq!(detector.handle(failed(key("n1")), secs(1)), []);
    assert_eq!(detector.handle(Event::Suspected { node: node("n1") }, secs(1)), []);
    assert_eq!(detector.next_wakeup(), None);
}
