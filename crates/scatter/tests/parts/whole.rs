//! Attempts of the whole query: rows that cannot be taken back any more.

use pointsman_ids::{ErrorCode, UnavailableCause};
use pointsman_scatter::{Next, Parts};

use crate::common::{NOW, attempts, broke_off, go_on, node, nodes, one_scan, place, send};

#[test]
fn a_part_whose_rows_went_on_fails_with_the_whole_attempt() {
    let mut parts = one_scan(2);
    let (failing, other) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    parts.passed_on(failing);
    assert_eq!(parts.failed(failing, broke_off(1), NOW), Next::StartOver);
    assert!(!parts.ended(other), "the whole attempt is given up");
    assert_eq!(parts.attempts().failed_nodes(), &nodes(&[1]));
    parts.add_scan([None, None]);
    let again = send(&mut parts, 2, &[0, 1]);
    assert!(parts.ended(again) && parts.is_settled());
}

#[test]
fn a_part_that_ended_and_went_on_can_fail_no_more() {
    let mut parts = one_scan(2);
    let (ended, failing) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    assert!(parts.ended(ended));
    parts.passed_on(ended);
    go_on(parts.failed(failing, broke_off(2), NOW));
}

#[test]
fn once_the_client_has_rows_the_failure_is_the_answer() {
    let mut parts = one_scan(2);
    let (failing, ended) = (send(&mut parts, 1, &[0]), send(&mut parts, 2, &[1]));
    assert!(parts.ended(ended));
    parts.passed_on(failing);
    parts.answer_began();
    let Next::GiveUp(error) = parts.failed(failing, broke_off(1), NOW) else { panic!("went on") };
    assert_eq!(error.code(), ErrorCode::NodeNotAvailable);
    let missing: Vec<_> = parts.unavailable().collect();
    assert_eq!(missing.len(), 2, "there are no rows at all");
    assert!(parts.is_settled());
    assert_eq!(parts.not_made_good().into_keys().collect::<Vec<_>>(), [&node(1)]);
}

#[test]
fn retries_of_parts_and_of_the_whole_count_together() {
    let mut parts = one_scan(2);
    let first = send(&mut parts, 1, &[0]);
    go_on(parts.failed(first, broke_off(1), NOW));
    let second = send(&mut parts, 2, &[0]);
    parts.passed_on(second);
    assert_eq!(parts.failed(second, broke_off(2), NOW), Next::StartOver);
    assert_eq!(parts.attempts().number(), 3);
    parts.add_scan([None, None]);
    let third = send(&mut parts, 3, &[0]);
    assert!(go_on(parts.failed(third, broke_off(3), NOW)).0.is_empty(), "it was asked for three times");
    assert_eq!(parts.unavailable().next(), Some((place(0), UnavailableCause::RetriesUsedUp)));
}

#[test]
fn the_whole_gives_up_after_the_last_attempt() {
    let mut parts = Parts::new(attempts(2));
    for number in 1..=2 {
        parts.add_scan([None]);
        let part = send(&mut parts, number, &[0]);
        parts.passed_on(part);
        match parts.failed(part, broke_off(number), NOW) {
            Next::StartOver => assert_eq!(number, 1),
            Next::GiveUp(error) => {
                assert_eq!(error.to_string(), "gave up after 2 attempts: node 'n2' broke off")
            }
            other => panic!("{other:?}"),
        }
    }
}
