//! Segments that move together.

use pointsman_ids::UnavailableCause;
use pointsman_scatter::{Next, Parts};

use crate::common::{NOW, again, attempts, broke_off, go_on, lacks, place, send};

/// Parts of one scan with these groups.
fn grouped(groups: &[Option<u32>]) -> Parts {
    let mut parts = Parts::new(attempts(2));
    parts.add_scan(groups.iter().copied());
    parts
}

#[test]
fn a_group_moves_as_a_whole_and_what_its_former_nodes_delivered_is_discarded() {
    let mut parts = grouped(&[Some(7), Some(7), None, Some(8)]);
    let (failing, ended) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1, 2]));
    let other = send(&mut parts, 3, &[3]);
    assert!(parts.ended(ended) && parts.ended(other));
    let (routes, discarded) = go_on(parts.failed(failing, broke_off(1), NOW));
    assert_eq!(routes, [again(&[0, 1, 2], &[1])], "segment 2 was in a part that is thrown away");
    assert_eq!(discarded, [ended, failing]);
    assert!(!parts.is_settled());
    let retry = send(&mut parts, 2, &[0, 1, 2]);
    assert!(parts.ended(retry) && parts.is_settled());
}

#[test]
fn parts_that_move_along_take_their_groups_with_them() {
    let mut parts = grouped(&[Some(0), Some(0), Some(1), Some(1), Some(2)]);
    let failing = send(&mut parts, 1, &[0]);
    let bridge = send(&mut parts, 2, &[1, 2]);
    let far = send(&mut parts, 3, &[3]);
    let apart = send(&mut parts, 3, &[4]);
    let (routes, discarded) = go_on(parts.failed(failing, broke_off(1), NOW));
    assert_eq!(routes, [again(&[0, 1, 2, 3], &[1])]);
    assert_eq!(discarded, [bridge, far, failing]);
    assert!(!parts.ended(bridge) && !parts.ended(far) && parts.ended(apart));
}

#[test]
fn a_group_that_lacks_a_segment_on_a_node_leaves_that_node() {
    let mut parts = grouped(&[Some(0), Some(0), Some(1)]);
    let part = send(&mut parts, 1, &[0, 1, 2]);
    let (routes, _) = go_on(parts.failed(part, lacks(&[1]), NOW));
    assert_eq!(routes, [again(&[2], &[]), again(&[0, 1], &[1])]);
}

#[test]
fn a_group_without_tries_stays_where_it_is() {
    let mut parts = grouped(&[Some(0), Some(0)]);
    let first = send(&mut parts, 1, &[0, 1]);
    go_on(parts.failed(first, broke_off(1), NOW));
    let (failing, other) = (send(&mut parts, 2, &[0]), send(&mut parts, 3, &[1]));
    let (routes, discarded) = go_on(parts.failed(failing, broke_off(2), NOW));
    assert_eq!((routes.len(), discarded), (0, vec![failing]));
    assert!(parts.ended(other) && parts.is_settled());
    assert_eq!(parts.unavailable().collect::<Vec<_>>(), [(place(0), UnavailableCause::RetriesUsedUp)]);
}

#[test]
fn rows_that_went_on_cannot_move_along_so_the_query_starts_over() {
    let mut parts = grouped(&[Some(0), Some(0)]);
    let (failing, gone) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    assert!(parts.ended(gone));
    parts.passed_on(gone);
    assert_eq!(parts.failed(failing, broke_off(1), NOW), Next::StartOver);
}

#[test]
fn who_can_move_parts_only_alone_starts_over_when_others_would_have_to() {
    let mut parts = grouped(&[Some(0), Some(0), Some(1), Some(1)]).moving_alone();
    let whole = send(&mut parts, 1, &[2, 3]);
    assert_eq!(go_on(parts.failed(whole, broke_off(1), NOW)).0, [again(&[2, 3], &[1])]);
    let failing = send(&mut parts, 2, &[0]);
    send(&mut parts, 3, &[1]);
    assert_eq!(parts.failed(failing, broke_off(2), NOW), Next::StartOver);
}
