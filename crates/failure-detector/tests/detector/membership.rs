//! What changes of the members do to the records.

use pointsman_failure_detector::{Action, Event, Inclusion, Outcome};
use pointsman_ids::Incarnation;

use crate::common::{about, bare, detector, failed, key, member, node, run_probe, secs, west};

#[test]
fn a_node_that_becomes_enabled_or_starts_anew_has_a_clean_record() {
    let before = [Some(member("n1", 1, false)), Some(member("n1", 0, true)), None];
    for before in before {
        let mut detector = detector();
        before.map(|before| detector.handle(before, secs(0)));
        detector.handle(failed(key("n1")), secs(1));
        detector.handle(failed(bare("n1")), secs(1));
        let expected = [key("n1"), bare("n1")].map(Action::Include);
        assert_eq!(detector.handle(member("n1", 1, true), secs(2)), expected);
        assert_eq!(detector.counters().inclusions[&Inclusion::ReEnabled], 2);
        detector.handle(failed(key("n1")), secs(3));
        assert_eq!(detector.handle(member("n1", 1, true), secs(4)), [], "it was enabled before");
    }
}

#[test]
fn a_manager_that_comes_up_clears_nobody() {
    let mut detector = detector();
    detector.handle(failed(key("n1")), secs(0));
    let known = Event::KnownMember { node: node("n1"), incarnation: Incarnation(1), enabled: true };
    assert_eq!(detector.handle(known, secs(1)), []);
    assert_eq!(detector.handle(about("n1", 0), secs(1)), []);
    assert_eq!(detector.counters().stale_reports, 1, "the member is known from now on");
    assert_eq!(detector.handle(member("n1", 2, true), secs(2)), [Action::Include(key("n1"))]);
}

#[test]
fn disabling_leaves_the_record_alone() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    detector.handle(failed(key("n1")), secs(1));
    assert_eq!(detector.handle(member("n1", 1, false), secs(2)), []);
    assert_eq!(run_probe(&mut detector, secs(6), Outcome::NotEnabled), []);
    assert_eq!(detector.record(&node("n1")).unwrap().tries, 1);
}

#[test]
fn no_record_outlives_its_node() {
    let mut detector = detector();
    detector.handle(member("n1", 1, true), secs(0));
    let elsewhere = Event::Member { node: west("n1"), incarnation: Incarnation(1), enabled: true };
    detector.handle(elsewhere, secs(0));
    detector.handle(failed(key("n1")), secs(1));
    detector.handle(failed(bare("n1")), secs(1));
    assert_eq!(detector.handle(Event::Removed { node: node("n1") }, secs(2)), [Action::Include(key("n1"))]);
    assert_eq!(detector.handle(Event::Removed { node: west("n1") }, secs(3)), [Action::Include(bare("n1"))]);
    assert_eq!(detector.unhealthy().count(), 0);
    assert_eq!(detector.next_wakeup(), None);
    assert_eq!(detector.counters().inclusions[&Inclusion::Removed], 2);
}
