//! What marks nobody by itself: suspicions, and reasons to look.

use std::time::Duration;

use pointsman_failure_detector::{
    Action, Detector, Event, Outcome, Settings,
    SuspicionCause::{self, Fault, Silent},
};

use crate::common::{
    about, answered, detector, failed, key, member, node, probe_of, retry, secs, silent, suspicious, wanted,
};

/// Feeds suspicions at these seconds, and says at which of them the node was excluded.
fn excluded_at(settings: Settings, times: &[u64]) -> Option<u64> {
    let mut detector = Detector::new(settings).unwrap();
    detector.handle(member("n1", 1, true), Duration::ZERO);
    times.iter().copied().find(|at| !detector.handle(suspicious("n1", 1, Silent), secs(*at)).is_empty())
}

#[test]
fn three_suspicions_in_a_row_exclude() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(1)), []);
    assert_eq!(detector.handle(suspicious("n1", 1, Fault), secs(2)), []);
    assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(3)), [Action::Exclude(key("n1"))]);
    let evidence = &detector.record(&node("n1")).unwrap().evidence;
    assert_eq!(evidence, "3 suspicions in a row, the last: silent (no answer within 10s)");
    let counted: Vec<(SuspicionCause, u64)> =
        detector.counters().suspicions.iter().map(|(cause, count)| (*cause, *count)).collect();
    assert_eq!(counted, [(Silent, 2), (Fault, 1)]);
}

#[test]
fn the_limit_is_a_setting_and_nothing_means_never() {
    let limit = |suspicion_limit| Settings { suspicion_limit, ..Settings::default() };
    assert_eq!(excluded_at(limit(1), &[7, 8]), Some(7));
    assert_eq!(excluded_at(limit(0), &[1, 2, 3, 4, 5, 6]), None);
}

#[test]
fn suspicions_older_than_the_window_do_not_count() {
    assert_eq!(excluded_at(Settings::default(), &[0, 100, 300]), Some(300), "the end is included");
    assert_eq!(excluded_at(Settings::default(), &[0, 100, 301]), None);
    assert_eq!(excluded_at(Settings::default(), &[0, 100, 301, 400]), Some(400));
}

#[test]
fn a_complete_answer_ends_the_row_and_includes_nobody() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    for at in 0..20 {
        assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(at)), []);
        assert!(detector.has_suspicions() || at % 2 == 1);
        if at % 2 == 1 {
            detector.handle(answered("n1", 1), secs(at));
            assert!(!detector.has_suspicions());
        }
    }
    detector.handle(about("n1", 1), secs(30));
    assert_eq!(detector.handle(answered("n1", 1), secs(31)), []);
    assert!(detector.is_unhealthy(&node("n1")));
}

#[test]
fn the_answer_of_one_node_ends_no_other_row() {
    let mut detector = detector();
    detector.handle(suspicious("n1", 1, Fault), secs(1));
    detector.handle(answered("n2", 1), secs(2));
    assert!(detector.suspects().any(|(suspect, row)| *suspect == node("n1") && row.times.len() == 1));
}

#[test]
fn news_of_a_process_that_was_followed_by_another_is_dropped_and_counted() {
    let mut detector = detector();
    detector.handle(member("n1", 2, true), secs(0));
    for at in 1..5 {
        assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(at)), []);
    }
    assert_eq!(detector.counters().stale_reports, 4);
    assert_eq!(detector.counters().suspicions.len(), 0);
    detector.handle(suspicious("n1", 2, Silent), secs(5));
    detector.handle(answered("n1", 1), secs(5));
    assert!(detector.has_suspicions(), "an answer of the process before says nothing");
    assert_eq!(detector.counters().stale_reports, 5);
    assert_eq!(detector.handle(wanted("n1", 1), secs(6)), []);
    assert_eq!(detector.counters().stale_reports, 6);
}

#[test]
fn a_row_is_about_one_process() {
    let mut detector = detector();
    detector.handle(suspicious("n1", 1, Silent), secs(1));
    detector.handle(suspicious("n1", 1, Silent), secs(1));
    assert_eq!(
        detector.handle(suspicious("n1", 2, Silent), secs(2)),
        [],
        "the membership lags behind the calls"
    );
    assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(2)), [], "late news of the former");
    assert_eq!(detector.suspects().next().unwrap().1.times.len(), 1);
}

#[test]
fn a_row_ends_with_its_node_with_a_new_start_and_with_a_mark() {
    let ends = [Event::Removed { node: node("n1") }, member("n1", 2, true), about("n1", 1)];
    for end in ends {
        let mut detector = detector();
        detector.handle(member("n1", 1, true), secs(0));
        detector.handle(suspicious("n1", 1, Silent), secs(1));
        detector.handle(end.clone(), secs(2));
        assert!(!detector.has_suspicions(), "{end:?}");
    }
}

#[test]
fn a_node_that_is_excluded_collects_none_and_returns_with_an_empty_row() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    detector.handle(failed(key("n1")), secs(1));
    for at in 1..5 {
        detector.handle(suspicious("n1", 1, Silent), secs(at));
    }
    detector.handle(Event::Recovered { key: key("n1") }, secs(5));
    detector.handle(suspicious("n1", 1, Silent), secs(6));
    assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(7)), []);
    assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(8)), [Action::Exclude(key("n1"))]);
}

#[test]
fn rows_that_do_not_count_any_more_are_not_kept() {
    let mut detector = detector();
    for at in 0..10_000 {
        detector.handle(suspicious(&format!("n{at}"), 1, Silent), secs(at));
    }
    assert!(detector.suspects().count() <= 301);
}

#[test]
fn a_reason_to_look_is_decided_by_one_probe() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    let probe = probe_of(detector.handle(wanted("n1", 1), secs(1)));
    assert_eq!(probe.key(), &key("n1"));
    assert_eq!(detector.handle(wanted("n1", 1), secs(1)), [], "one probe per node at a time");
    assert_eq!(
        detector.handle(Event::Probed { probe, outcome: silent() }, secs(2)),
        [Action::Exclude(key("n1"))]
    );
    assert_eq!(detector.record(&node("n1")).unwrap().evidence, "silent");
    assert_eq!(detector.handle(wanted("n1", 1), secs(6)), [], "retries look after it now");
}

#[test]
fn only_the_answer_unhealthy_marks_after_a_look() {
    let harmless = [Outcome::Healthy, Outcome::Unknown, Outcome::Error("panic".into()), Outcome::NotEnabled];
    for outcome in harmless {
        let mut detector = detector();
        detector.handle(member("n1", 1, true), secs(0));
        let probe = probe_of(detector.handle(wanted("n1", 1), secs(1)));
        assert_eq!(detector.handle(Event::Probed { probe, outcome }, secs(2)), []);
        assert_eq!(detector.next_wakeup(), None);
        probe_of(detector.handle(wanted("n1", 1), secs(3)));
    }
}

#[test]
fn a_look_without_a_verdict_marks_nobody_and_stands_in_nobodys_way() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    probe_of(detector.handle(wanted("n1", 1), secs(1)));
    let given_up = detector.next_wakeup().unwrap();
    assert_eq!(detector.handle(Event::Tick, given_up), []);
    assert_eq!(detector.next_wakeup(), None);
    probe_of(detector.handle(wanted("n1", 1), given_up));
}

#[test]
fn a_node_that_is_disabled_or_no_member_is_not_looked_at() {
    let mut detector = detector();
    detector.handle(member("n1", 1, false), secs(0));
    assert_eq!(detector.handle(wanted("n1", 1), secs(1)), []);
    assert_eq!(detector.handle(wanted("n2", 1), secs(1)), []);
}

#[test]
fn a_node_that_was_disabled_under_a_look_is_not_marked() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    let probe = probe_of(detector.handle(wanted("n1", 1), secs(1)));
    detector.handle(member("n1", 1, false), secs(2));
    assert_eq!(detector.handle(Event::Probed { probe, outcome: silent() }, secs(2)), []);
}

#[test]
fn a_look_at_a_process_that_was_followed_by_another_marks_nobody() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    let probe = probe_of(detector.handle(wanted("n1", 1), secs(1)));
    detector.handle(member("n1", 2, true), secs(2));
    assert_eq!(detector.handle(Event::Probed { probe, outcome: silent() }, secs(3)), []);
    assert_eq!(detector.counters().stale_reports, 1);
}

#[test]
fn a_look_that_is_wanted_while_a_retry_of_an_ended_record_runs_follows_it() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    detector.handle(failed(key("n1")), secs(0));
    let probe = retry(&mut detector, secs(5));
    detector.handle(Event::Recovered { key: key("n1") }, secs(5));
    assert_eq!(detector.handle(wanted("n1", 1), secs(6)), [], "one probe per node at a time");
    let next = probe_of(detector.handle(Event::Probed { probe, outcome: silent() }, secs(7)));
    assert_eq!(
        detector.handle(Event::Probed { probe: next, outcome: silent() }, secs(8)),
        [Action::Exclude(key("n1"))]
    );
}
