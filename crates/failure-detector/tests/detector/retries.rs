//! When nodes that are excluded are probed, and what comes of it.

use std::time::Duration;

use pointsman_failure_detector::{Action, Detector, Event, Inclusion, Key, Outcome, Settings};

use crate::common::{bare, detector, failed, key, node, retry, run_probe, secs, silent};

/// Times of the probes of a node that never recovers, and the time at which it is forced back.
fn schedule(settings: Settings) -> (Vec<u64>, u64) {
    let mut detector = Detector::new(settings).unwrap();
    detector.handle(failed(key("n1")), Duration::ZERO);
    let mut probes = vec![];
    loop {
        let now = detector.next_wakeup().unwrap();
        match detector.handle(Event::Tick, now).as_slice() {
            [Action::Probe(probe)] => {
                probes.push(now.as_secs());
                detector.handle(Event::Probed { probe: probe.clone(), outcome: silent() }, now);
            }
            [Action::Include(_)] => return (probes, now.as_secs()),
            other => panic!("{other:?}"),
        }
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
fn a_node_that_was_forced_back_and_fails_again_has_a_fresh_record() {
    let mut detector = Detector::new(Settings { max_retries: 1, ..Settings::default() }).unwrap();
    for start in [0, 100] {
        detector.handle(failed(key("n1")), secs(start));
        run_probe(&mut detector, secs(start + 5), silent());
        assert_eq!(detector.handle(Event::Tick, secs(start + 15)), [Action::Include(key("n1"))]);
    }
    assert_eq!(detector.counters().inclusions[&Inclusion::Forced], 2);
    assert_eq!(detector.counters().probes["unhealthy"], 2);
}

#[test]
fn a_negative_number_of_retries_probes_without_end() {
    let mut detector = Detector::new(Settings { max_retries: -1, ..Settings::default() }).unwrap();
    detector.handle(failed(key("n1")), Duration::ZERO);
    for _ in 0..1000 {
        let now = detector.next_wakeup().unwrap();
        assert_eq!(run_probe(&mut detector, now, Outcome::Error("panic".into())), []);
    }
}

/// The waits before the first retries of a node that stays ill.
fn waits(settings: Settings, count: usize) -> Vec<Duration> {
    let mut detector = Detector::new(settings).unwrap();
    detector.handle(failed(key("n1")), Duration::ZERO);
    let mut before = Duration::ZERO;
    let mut wait = || {
        let now = detector.next_wakeup().unwrap();
        run_probe(&mut detector, now, silent());
        let wait = now - before;
        before = now;
        wait
    };
    (0..count).map(|_| wait()).collect()
}

#[test]
fn a_factor_of_one_keeps_the_wait_and_one_below_shortens_it_to_a_millisecond() {
    assert_eq!(waits(Settings { factor: 1.0, ..Settings::default() }, 3), [secs(5); 3]);
    let shortened = waits(Settings { factor: 0.001, ..Settings::default() }, 4);
    assert_eq!(shortened, [5000, 5, 1, 1].map(Duration::from_millis));
}

#[test]
fn waits_are_cut_to_whole_nanoseconds() {
    let initial_delay = Duration::from_nanos(1_000_001);
    let settings = Settings { initial_delay, factor: 1.5, ..Settings::default() };
    assert_eq!(waits(settings, 3), [1_000_001, 1_500_001, 2_250_001].map(Duration::from_nanos));
}

#[test]
fn waits_saturate() {
    let initial_delay = Duration::from_secs(1 << 33);
    let settings =
        Settings { initial_delay, factor: 1e300, max_delay: Duration::ZERO, ..Settings::default() };
    assert_eq!(waits(settings, 2)[1], Duration::from_nanos(u64::MAX));
}

#[test]
fn healthy_and_unknown_bring_a_node_back_and_the_next_failure_begins_anew() {
    for outcome in [Outcome::Healthy, Outcome::Unknown] {
        let mut detector = detector();
        detector.handle(failed(key("n1")), secs(0));
        let probe = retry(&mut detector, secs(5));
        detector.handle(Event::Probed { probe, outcome: silent() }, secs(7));
        assert_eq!(detector.next_wakeup(), Some(secs(17)));
        assert_eq!(run_probe(&mut detector, secs(17), outcome), [Action::Include(key("n1"))]);
        assert_eq!(detector.counters().inclusions[&Inclusion::Probe], 1);
        detector.handle(failed(key("n1")), secs(20));
        assert_eq!(detector.next_wakeup(), Some(secs(25)));
    }
}

#[test]
fn an_answer_from_before_the_probe_is_no_evidence_of_health() {
    let took = Duration::from_millis(30);
    assert_eq!(Outcome::Healthy.aged(took, took), Outcome::Healthy);
    assert!(matches!(Outcome::Healthy.aged(secs(32), took), Outcome::Unhealthy(_)));
    assert!(matches!(Outcome::Unknown.aged(secs(32), took), Outcome::Unhealthy(_)));
    assert_eq!(silent().aged(secs(32), took), silent());
}

#[test]
fn whatever_is_not_healthy_or_unknown_is_a_failed_try() {
    let outcomes = [silent(), Outcome::Error("panic".into()), Outcome::NotEnabled];
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(0));
    for (tries, outcome) in (1..).zip(outcomes) {
        let now = detector.next_wakeup().unwrap();
        assert_eq!(run_probe(&mut detector, now, outcome), []);
        assert_eq!(detector.record(&node("n1")).unwrap().tries, tries);
    }
    let probes: Vec<_> = detector.counters().probes.iter().map(|(word, count)| (*word, *count)).collect();
    assert_eq!(probes, [("error", 1), ("not_enabled", 1), ("unhealthy", 1)]);
}

#[test]
fn operators_see_since_when_why_and_what_comes_next() {
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(1));
    run_probe(&mut detector, secs(6), Outcome::Unhealthy("not serving".into()));
    let (_, record) = detector.unhealthy().next().unwrap();
    assert_eq!((record.since, record.evidence.as_str()), (secs(1), "refused"));
    assert_eq!((record.tries, record.delay, record.next), (1, secs(10), secs(16)));
    assert_eq!(record.last_probe.as_deref(), Some("not serving"));
}

#[test]
fn a_verdict_about_an_earlier_illness_is_ignored() {
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(0));
    let probe = retry(&mut detector, secs(5));
    detector.handle(Event::Recovered { key: key("n1") }, secs(6));
    detector.handle(failed(key("n1")), secs(6));
    assert_eq!(detector.handle(Event::Probed { probe, outcome: Outcome::Healthy }, secs(7)), []);
    assert!(detector.is_unhealthy(&node("n1")));
    assert_eq!(detector.next_wakeup(), Some(secs(11)));
}

#[test]
fn a_probe_without_a_verdict_is_a_failed_try_and_its_late_verdict_nothing() {
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(0));
    let lost = retry(&mut detector, secs(5));
    let given_up = detector.next_wakeup().unwrap();
    assert!(given_up > secs(7) && given_up < secs(15), "{given_up:?}");
    assert_eq!(detector.handle(Event::Tick, given_up), []);
    assert_eq!(detector.record(&node("n1")).unwrap().tries, 1);
    assert_eq!(detector.counters().probes["error"], 1);
    let next = retry(&mut detector, given_up + secs(10));
    let late = Event::Probed { probe: lost, outcome: Outcome::Healthy };
    assert_eq!(detector.handle(late, given_up + secs(10)), []);
    let verdict = Event::Probed { probe: next, outcome: Outcome::Healthy };
    assert_eq!(detector.handle(verdict, given_up + secs(11)), [Action::Include(key("n1"))]);
}

#[test]
fn probes_that_wait_for_a_place_are_given_their_time() {
    let mut detector = detector();
    for at in 0..48 {
        detector.handle(failed(key(&format!("n{at:02}"))), secs(0));
    }
    assert_eq!(detector.handle(Event::Tick, secs(5)).len(), 48);
    // Three turns of 16 probes of 2 s each: the last verdicts come after 6 s.
    detector.handle(Event::Tick, secs(11));
    let tries: Vec<u64> = detector.unhealthy().map(|(_, record)| record.tries).collect();
    assert!(tries[..32].iter().all(|tries| *tries == 1), "{tries:?}");
    assert!(tries[32..].iter().all(|tries| *tries == 0), "{tries:?}");
}

#[test]
fn retries_due_together_run_in_the_order_of_their_keys() {
    let mut detector = detector();
    for key in [key("n2"), bare("a"), key("n1")] {
        detector.handle(failed(key), secs(0));
    }
    assert_eq!(probed_keys(&mut detector, secs(5)), [bare("a"), key("n1"), key("n2")]);
}

#[test]
fn retries_run_in_time_order_even_when_the_clock_jumps() {
    let mut detector = detector();
    detector.handle(failed(key("n2")), secs(0));
    detector.handle(failed(key("n1")), secs(1));
    assert_eq!(probed_keys(&mut detector, secs(100)), [key("n2"), key("n1")]);
}

fn probed_keys(detector: &mut Detector, now: Duration) -> Vec<Key> {
    let key = |action: Action| match action {
        Action::Probe(probe) => probe.key().clone(),
        other => panic!("{other:?}"),
    };
    detector.handle(Event::Tick, now).into_iter().map(key).collect()
}
