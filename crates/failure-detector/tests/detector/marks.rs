//! What puts nodes into the unhealthy set, and what is refused.

use std::time::Duration;

use pointsman_failure_detector::{
    Action, Detector, Event, Inclusion, Kind, Settings, SuspicionCause::Silent,
};

use crate::common::{about, bare, detector, failed, key, member, node, secs, suspicious, wanted, west};

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |settings: Settings| Detector::new(settings).unwrap_err().to_string();
    let base = Settings::default;
    assert!(refused(Settings { initial_delay: Duration::ZERO, ..base() }).contains("initial_delay"));
    assert!(refused(Settings { max_delay: Duration::from_micros(5), ..base() }).contains("max_delay"));
    assert!(refused(Settings { probe_timeout: Duration::ZERO, ..base() }).contains("probe_timeout"));
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
fn a_word_of_health_about_a_node_that_is_well_does_nothing() {
    let mut detector = detector();
    assert_eq!(detector.handle(Event::Recovered { key: key("n1") }, secs(0)), []);
    assert_eq!(detector.counters().inclusions.len(), 0);
    detector.handle(failed(key("n1")), secs(1));
    assert_eq!(detector.handle(Event::Recovered { key: bare("n1") }, secs(2)), [], "another key");
    let recovered = detector.handle(Event::Recovered { key: key("n1") }, secs(2));
    assert_eq!(recovered, [Action::Include(key("n1"))]);
    assert_eq!(detector.counters().inclusions[&Inclusion::Reported], 1);
}

#[test]
fn a_node_is_excluded_while_either_of_its_keys_is() {
    let mut detector = detector();
    detector.handle(failed(bare("n1")), secs(0));
    assert!(detector.is_unhealthy(&node("n1")) && detector.is_unhealthy(&west("n1")));
    detector.handle(failed(key("n1")), secs(1));
    detector.handle(Event::Recovered { key: bare("n1") }, secs(2));
    assert!(detector.is_unhealthy(&node("n1")) && !detector.is_unhealthy(&west("n1")));
    detector.handle(Event::Recovered { key: key("n1") }, secs(2));
    assert!(!detector.is_unhealthy(&node("n1")));
}

#[test]
fn nodes_of_one_name_in_two_clusters_share_no_verdict() {
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(0));
    assert!(!detector.is_unhealthy(&west("n1")));
}

#[test]
fn a_report_about_an_older_incarnation_is_dropped_and_counted() {
    let mut detector = detector();
    detector.handle(member("n1", 7, true), secs(0));
    assert_eq!(detector.handle(about("n1", 6), secs(1)), []);
    assert_eq!(detector.counters().stale_reports, 1);
    assert_eq!(detector.handle(about("n1", 7), secs(1)), [Action::Exclude(key("n1"))]);
    assert_eq!(detector.counters().stale_reports, 1);
}

#[test]
fn a_key_that_no_manager_knows_may_be_marked() {
    let mut detector = detector();
    assert_eq!(detector.handle(about("n9", 1), secs(0)), [Action::Exclude(key("n9"))]);
}

#[test]
fn the_kind_none_marks_nobody() {
    let mut detector = Detector::new(Settings { kind: Kind::None, ..Settings::default() }).unwrap();
    detector.handle(member("n1", 1, true), secs(0));
    assert_eq!(detector.handle(failed(key("n1")), secs(1)), []);
    assert_eq!(detector.handle(wanted("n1", 1), secs(1)), []);
    for at in 1..9 {
        assert_eq!(detector.handle(suspicious("n1", 1, Silent), secs(at)), []);
    }
    assert!(!detector.has_suspicions());
    assert_eq!(detector.next_wakeup(), None);
}
