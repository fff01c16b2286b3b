//! What a leader can answer for.

use proptest::prelude::*;

use super::*;

const OWN: u64 = 1;
const PEER: u64 = 2;

fn shard(name: &str) -> pb::LedShard {
    pb::LedShard { collection_id: 7, shard: name.into() }
}

fn view(target_version: u64, segments: &[(u64, u64)]) -> Option<pb::View> {
    Some(pb::View {
        target_version,
        segments: segments.iter().map(|(id, _)| *id).collect(),
        rows: segments.iter().map(|(_, rows)| *rows).collect(),
        ..Default::default()
    })
}

fn lead(view: Option<pb::View>, hosts: &[(u64, u64)], removed: &[u64]) -> pb::DesiredLead {
    pb::DesiredLead {
        led: Some(shard("s0")),
        version: 5,
        view,
        segments: hosts.iter().map(|(id, _)| *id).collect(),
        hosts: hosts.iter().map(|(_, host)| *host).collect(),
        removed: removed.to_vec(),
        ..Default::default()
    }
}

fn told(book: &mut Book, full: bool, lead: pb::DesiredLead) {
    let wish = pb::DesiredLeads { full, leads: vec![lead], ..Default::default() };
    book.desire(&wish, OWN).unwrap();
}

fn hold(book: &mut Book, segments: &[u64]) {
    book.hold(segments.iter().map(|id| SegmentId(*id)).collect());
}

/// (target version, loaded ratio, serviceable, segments in reach)
fn state(book: &mut Book) -> (u64, f64, bool, Vec<u64>) {
    book.news();
    let state = book.said.values().next().unwrap();
    let reach = state.reach.keys().map(|id| id.0).collect();
    (state.target_version(), state.loaded_ratio(), state.is_serviceable(), reach)
}

#[test]
fn a_new_lead_has_no_view_and_cannot_answer() {
    let mut book = Book::default();
    told(&mut book, true, lead(None, &[(1, PEER)], &[]));
    assert_eq!(state(&mut book), (0, 1.0, false, vec![1]));
}

#[test]
fn a_view_without_segments_is_loaded_and_can_answer_once_it_is_synced() {
    let mut book = Book::default();
    told(&mut book, true, lead(view(3, &[]), &[], &[]));
    assert_eq!(state(&mut book), (3, 1.0, true, vec![]));
}

#[test]
fn it_can_answer_when_every_segment_of_its_view_can_be_reached() {
    let mut book = Book::default();
    told(&mut book, true, lead(view(3, &[(1, 10), (2, 30), (3, 0)]), &[(9, PEER)], &[]));
    assert_eq!(state(&mut book), (3, 0.0, false, vec![9]), "none of the listed rows is there");
    told(&mut book, false, lead(None, &[(2, PEER)], &[]));
    assert_eq!(state(&mut book), (3, 0.75, false, vec![2, 9]));
    told(&mut book, false, lead(None, &[(1, PEER)], &[]));
    assert_eq!(state(&mut book), (3, 1.0, false, vec![1, 2, 9]), "the one without rows is part of it");
    told(&mut book, false, lead(None, &[(3, PEER)], &[]));
    assert_eq!(state(&mut book), (3, 1.0, true, vec![1, 2, 3, 9]));
    told(&mut book, false, lead(None, &[], &[1, 9]));
    assert_eq!(state(&mut book), (3, 0.75, false, vec![2, 3]));
}

#[test]
fn of_its_own_segments_the_node_knows_better() {
    let mut book = Book::default();
    told(&mut book, true, lead(view(3, &[(1, 10), (2, 10)]), &[(1, OWN), (2, PEER)], &[]));
    assert_eq!(state(&mut book), (3, 0.5, false, vec![2]));
    hold(&mut book, &[1, 2]);
    assert_eq!(state(&mut book), (3, 1.0, true, vec![1, 2]));
    hold(&mut book, &[]);
    assert_eq!(state(&mut book), (3, 0.5, false, vec![2]), "what a peer holds is the peer's matter");
}

#[test]
fn a_sync_takes_the_place_of_a_view_and_without_one_the_view_stays() {
    let mut book = Book::default();
    told(&mut book, true, lead(view(3, &[(1, 10)]), &[(1, PEER), (2, PEER)], &[]));
    told(&mut book, false, lead(view(4, &[(2, 10)]), &[], &[1]));
    assert_eq!(state(&mut book), (4, 1.0, true, vec![2]));
    // A new session of a coordinator that does not say which view: the node has one.
    told(&mut book, true, lead(None, &[(2, PEER)], &[]));
    assert_eq!(state(&mut book), (4, 1.0, true, vec![2]));
}

#[test]
fn everything_anew_forgets_what_is_not_named() {
    let mut book = Book::default();
    told(&mut book, true, lead(view(3, &[(1, 10)]), &[(1, PEER), (2, PEER)], &[]));
    told(&mut book, true, lead(None, &[(2, PEER)], &[]));
    assert_eq!(state(&mut book), (3, 0.0, false, vec![2]));
    let other = pb::DesiredLead { led: Some(shard("s1")), ..Default::default() };
    told(&mut book, true, other);
    let shards: Vec<String> = book.news().unwrap().keys().map(|(_, shard)| shard.to_string()).collect();
    assert_eq!(shards, ["s1"]);
    let nothing = pb::DesiredLeads { removed: vec![shard("s1")], ..Default::default() };
    book.desire(&nothing, OWN).unwrap();
    assert!(book.news().unwrap().is_empty());
    assert_eq!(book.news(), None, "said already");
}

#[test]
fn a_wish_that_makes_no_sense_changes_nothing() {
    let mut book = Book::default();
    told(&mut book, true, lead(view(3, &[(1, 10)]), &[(1, PEER)], &[]));
    let before = state(&mut book);
    let mut lacks_host = lead(None, &[(2, PEER)], &[]);
    lacks_host.hosts.clear();
    let mut lacks_rows = lead(view(4, &[(1, 1)]), &[], &[]);
    lacks_rows.view.as_mut().unwrap().rows.clear();
    let no_shard = pb::DesiredLead::default();
    for wrong in [lacks_host, lacks_rows, no_shard] {
        let wish = pb::DesiredLeads { full: true, leads: vec![wrong], ..Default::default() };
        assert_eq!(book.desire(&wish, OWN).unwrap_err().code(), ErrorCode::ParameterInvalid);
    }
    assert_eq!(state(&mut book), before);
}

#[derive(Clone, Debug)]
enum Step {
    Host(u64, u64),
    Unhost(u64),
    Hold(Vec<u64>),
    Sync(Vec<(u64, u64)>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..6_u64, 1..3_u64).prop_map(|(segment, host)| Step::Host(segment, host)),
        (1..6_u64).prop_map(Step::Unhost),
        prop::collection::vec(1..6_u64, 0..5).prop_map(Step::Hold),
        prop::collection::btree_map(1..6_u64, 0..9_u64, 0..5)
            .prop_map(|map| Step::Sync(map.into_iter().collect())),
    ]
}

proptest! {
    /// What is counted along the way is what counting anew gives.
    #[test]
    fn counts_follow_from_what_was_said(steps in prop::collection::vec(step(), 1..40)) {
        let mut book = Book::default();
        told(&mut book, true, lead(None, &[], &[]));
        let (mut hosts, mut held) = (BTreeMap::new(), Vec::new());
        let mut listed: Option<Vec<(u64, u64)>> = None;
        for step in steps {
            match step {
                Step::Host(segment, host) => {
                    hosts.insert(segment, host);
                    told(&mut book, false, lead(None, &[(segment, host)], &[]));
                }
                Step::Unhost(segment) => {
                    hosts.remove(&segment);
                    told(&mut book, false, lead(None, &[], &[segment]));
                }
                Step::Hold(segments) => {
                    hold(&mut book, &segments);
                    held = segments;
                }
                Step::Sync(segments) => {
                    told(&mut book, false, lead(view(9, &segments), &[], &[]));
                    listed = Some(segments);
                }
            }
            let there = |segment: &u64| hosts.get(segment).is_some_and(|host| *host != OWN || held.contains(segment));
            let (_, ratio, serviceable, reach) = state(&mut book);
            let expected: Vec<u64> = hosts.keys().filter(|segment| there(segment)).copied().collect();
            prop_assert_eq!(reach, expected);
            let view = listed.clone().unwrap_or_default();
            let whole = view.iter().all(|(segment, _)| there(segment));
            prop_assert_eq!(serviceable, listed.is_some() && whole);
            let rows = |all: bool| -> u64 { view.iter().filter(|(id, _)| all || there(id)).map(|(_, rows)| rows).sum() };
            let exact = match (whole, rows(false)) { (true, _) => 1.0, (_, 0) => 0.0, (_, part) => part as f64 / rows(true) as f64 };
            prop_assert!((ratio - exact).abs() < 1e-9);
        }
    }
}
