//! Parts that fail while the others go on.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pointsman_ids::{Error, ErrorCode, UnavailableCause};
use pointsman_scatter::{
    Coverage, Failure, Lacking, Next, Parts, Pick, Place, RetryBudget, UnavailableSegment,
};

use crate::common::{NOW, again, attempts, broke_off, go_on, lacks, node, nodes, one_scan, place, send};

fn report(parts: &Parts) -> Coverage {
    let mut coverage = Coverage::default();
    let name = |place: Place| ("t".parse().unwrap(), format!("s{}", place.at).parse().unwrap());
    parts.cover(&mut coverage, name);
    coverage
}

#[test]
fn a_failed_part_is_routed_again_around_its_node_in_the_order_of_the_request() {
    let mut parts = one_scan(4);
    let (failing, other) = (send(&mut parts, 1, &[3, 0]), send(&mut parts, 2, &[1, 2]));
    let (routes, discarded) = go_on(parts.failed(failing, broke_off(1), NOW));
    assert_eq!((routes, discarded), (vec![again(&[0, 3], &[1])], vec![failing]));
    assert!(parts.ended(other), "answers in flight are kept");
    let retry = send(&mut parts, 2, &[0, 3]);
    assert!(parts.ended(retry) && parts.is_settled());
    let found = parts.nodes();
    assert_eq!((found.asked, found.answered, found.failed), (nodes(&[2]), nodes(&[2]), nodes(&[1])));
    assert_eq!(parts.not_made_good().len(), 0);
}

#[test]
fn every_node_that_failed_in_the_query_stays_out() {
    let mut parts = one_scan(2);
    let (first, second) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    assert_eq!(go_on(parts.failed(first, broke_off(1), NOW)).0, [again(&[0], &[1])]);
    send(&mut parts, 3, &[0]);
    assert_eq!(go_on(parts.failed(second, broke_off(2), NOW)).0, [again(&[1], &[1, 2])]);
}

#[test]
fn scans_are_routed_again_one_by_one() {
    let mut parts = Parts::new(attempts(3));
    let scans = [parts.add_scan([None]), parts.add_scan([None, None])];
    let picks = scans.map(|scan| Pick { place: Place { scan, at: 0 }, fail_open: false });
    let part = parts.sent(node(1), picks, NOW).unwrap();
    let (routes, _) = go_on(parts.failed(part, broke_off(1), NOW));
    assert_eq!(routes.iter().map(|route| route.scan).collect::<Vec<_>>(), scans);
}

#[test]
fn a_late_answer_of_a_failed_part_does_not_count() {
    let mut parts = one_scan(1);
    let failed = send(&mut parts, 1, &[0]);
    go_on(parts.failed(failed, broke_off(1), NOW));
    let retry = send(&mut parts, 2, &[0]);
    assert!(!parts.ended(failed));
    assert_eq!(parts.failed(failed, broke_off(1), NOW), Next::Ignored);
    assert!(!parts.is_settled());
    assert!(parts.ended(retry));
    assert!(!parts.ended(retry), "once");
}

#[test]
fn nobody_is_asked_twice_for_the_same() {
    let mut parts = one_scan(2);
    send(&mut parts, 1, &[0]);
    let pick = |at| Pick { place: place(at), fail_open: false };
    let error = parts.sent(node(2), [pick(1), pick(0)], NOW).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceInternal);
    send(&mut parts, 2, &[1]);
    assert!(parts.sent(node(2), [pick(7)], NOW).is_err(), "no scan asks for it");
}

#[test]
fn a_segment_is_asked_for_so_often_and_then_unavailable_with_the_last_cause() {
    let mut parts = one_scan(2);
    let mut asked = send(&mut parts, 1, &[0, 1]);
    for number in 1..3 {
        let (routes, _) = go_on(parts.failed(asked, broke_off(number), NOW));
        assert_eq!(routes[0].segments, [0, 1]);
        asked = send(&mut parts, number + 1, &[0, 1]);
    }
    let (routes, discarded) = go_on(parts.failed(asked, broke_off(3), NOW));
    assert_eq!((routes.len(), discarded.len()), (0, 1));
    assert!(parts.is_settled());
    assert_eq!(parts.last_failure(place(0)).unwrap().message(), "node 'n3' broke off");
    let coverage = report(&parts);
    assert_eq!((coverage.segments_asked(), coverage.segments_unavailable()), (2, 2));
    let expected = UnavailableSegment {
        collection: "t".parse().unwrap(),
        segment: "s0".parse().unwrap(),
        cause: UnavailableCause::RetriesUsedUp,
        nodes: vec![node(1), node(2), node(3)],
    };
    assert_eq!(coverage.unavailable()[0], expected);
    assert_eq!((coverage.nodes_asked, coverage.nodes_answered, coverage.nodes_failed), (1, 0, 3));
    assert_eq!(parts.not_made_good().into_keys().collect::<Vec<_>>(), [&node(3)]);
}

#[test]
fn a_segment_that_nobody_else_holds_is_unavailable_with_the_cause_of_its_failure() {
    let mut parts = one_scan(2);
    let (failing, other) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    go_on(parts.failed(failing, broke_off(1), NOW));
    parts.unroutable(place(0), UnavailableCause::AllExcluded, vec![node(9)]);
    assert!(parts.ended(other) && parts.is_settled());
    assert_eq!(parts.unavailable().collect::<Vec<_>>(), [(place(0), UnavailableCause::RetriesUsedUp)]);
    assert_eq!(report(&parts).unavailable()[0].nodes, [node(1)]);
    assert_eq!(parts.not_made_good().into_keys().collect::<Vec<_>>(), [&node(1)]);
    assert_eq!(parts.nodes().asked, nodes(&[1, 2]));
}

#[test]
fn a_segment_that_nobody_could_be_asked_for_keeps_the_cause_of_routing() {
    let mut parts = one_scan(1);
    parts.unroutable(place(0), UnavailableCause::AllDisabled, vec![node(4)]);
    assert!(parts.is_settled());
    let coverage = report(&parts);
    assert_eq!(coverage.unavailable()[0].cause, UnavailableCause::AllDisabled);
    assert_eq!(coverage.unavailable()[0].nodes, [node(4)]);
    assert_eq!(coverage.nodes_asked, 0);
}

#[test]
fn what_a_node_lacks_is_routed_without_it_and_the_rest_as_before() {
    let mut parts = one_scan(4);
    let part = send(&mut parts, 1, &[0, 1, 2, 3]);
    let (routes, discarded) = go_on(parts.failed(part, lacks(&[1, 3]), NOW));
    assert_eq!(routes, [again(&[0, 2], &[]), again(&[1, 3], &[1])]);
    assert_eq!(discarded, [part]);
    assert_eq!(parts.nodes().failed, nodes(&[]), "the routing lags, the node is well");
}

#[test]
fn a_list_of_segments_that_is_cut_short_empty_or_foreign_means_all() {
    let error = Error::new(ErrorCode::SegmentNotLoaded, "100 of 10000 listed");
    let cut_short = Failure::NotLoaded { error, lacking: Lacking::All };
    for failure in [cut_short, lacks(&[]), lacks(&[2]), lacks(&[0, 2])] {
        let mut parts = one_scan(3);
        let part = send(&mut parts, 1, &[0, 1]);
        assert_eq!(go_on(parts.failed(part, failure, NOW)).0, [again(&[0, 1], &[1])]);
    }
}

#[test]
fn nothing_is_routed_again_when_the_time_has_passed() {
    let mut parts = one_scan(1);
    let part = send(&mut parts, 1, &[0]);
    let (routes, _) = go_on(parts.failed(part, broke_off(1), Duration::from_secs(10)));
    assert!(routes.is_empty() && parts.is_settled());
}

#[test]
fn what_was_not_answered_in_time_is_unavailable_and_its_nodes_silent() {
    let mut parts = one_scan(3);
    let (ended, silent) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1, 2]));
    assert!(parts.ended(ended));
    let silence = parts.time_is_up();
    assert_eq!((silence.nodes, silence.rows_count), (nodes(&[2]), true));
    assert!(parts.is_settled() && !parts.ended(silent));
    let coverage = report(&parts);
    assert_eq!((coverage.segments_answered(), coverage.segments_unavailable()), (1, 2));
    assert_eq!(coverage.unavailable()[0].cause, UnavailableCause::NodeSilent);
    assert_eq!(coverage.unavailable()[0].nodes, [node(2)]);
    assert_eq!((coverage.nodes_asked, coverage.nodes_answered, coverage.nodes_failed), (2, 1, 1));
}

#[test]
fn rows_of_a_silent_part_that_went_on_are_no_answer() {
    let mut parts = one_scan(1);
    let part = send(&mut parts, 1, &[0]);
    parts.passed_on(part);
    assert!(!parts.time_is_up().rows_count);
}

#[test]
fn fail_open_picks_are_told_in_the_report_when_they_are_in_the_answer() {
    let mut parts = one_scan(2);
    let pick = |at| Pick { place: place(at), fail_open: true };
    let first = parts.sent(node(1), [pick(0)], NOW).unwrap();
    let second = parts.sent(node(2), [pick(1)], NOW).unwrap();
    assert!(parts.ended(first));
    go_on(parts.failed(second, broke_off(2), NOW));
    let retry = send(&mut parts, 3, &[1]);
    assert!(parts.ended(retry));
    let coverage = report(&parts);
    assert_eq!(coverage.segments_fail_open, 1);
    assert_eq!(coverage.fail_open(), [("t".parse().unwrap(), "s0".parse().unwrap())]);
}

#[test]
fn without_budget_a_failed_part_is_unavailable() {
    let budget = Arc::new(RetryBudget::new(0.2));
    assert!(budget.take(10, NOW), "other queries");
    let mut parts = Parts::new(attempts(3).within(Arc::clone(&budget)));
    parts.add_scan([None, None]);
    let (failing, other) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    assert!(go_on(parts.failed(failing, broke_off(1), NOW)).0.is_empty());
    assert!(parts.ended(other) && parts.is_settled());
    assert_eq!(budget.exhausted(), 1);
    budget.sent(98, NOW);
    assert!(budget.take(10, NOW), "the parts of this query were counted as sent");
}

#[test]
fn some_of_a_parts_segments_can_fail_as_a_part_of_their_own() {
    let mut parts = one_scan(4);
    let part = send(&mut parts, 1, &[0, 1, 2]);
    let places = |segments: &[usize]| segments.iter().map(|at| place(*at)).collect::<BTreeSet<_>>();
    assert_eq!(parts.part_of(&node(1), &places(&[0, 1, 2])), Some(part));
    assert_eq!(parts.part_of(&node(2), &places(&[0])), None);
    let piece = parts.part_of(&node(1), &places(&[1, 3])).unwrap();
    assert_ne!(piece, part);
    assert_eq!(go_on(parts.failed(piece, broke_off(1), NOW)).0, [again(&[1], &[1])]);
    assert_eq!(parts.part_of(&node(1), &places(&[1])), None, "it failed");
    send(&mut parts, 2, &[1]);
    send(&mut parts, 2, &[3]);
    parts.all_ended();
    assert!(parts.is_settled());
    assert_eq!(parts.nodes().answered, nodes(&[1, 2]));
}
