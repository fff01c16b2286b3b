//! Indexes of segments in the book.

use super::*;

/// Four rows: 640 bytes are promised to a build.
const ROOM: Limits = Limits { bytes: 2000, ..LIMITS };

fn indexed(id: u64, columns: &[&str]) -> Arc<Wanted> {
    let index = |column: &&str| WantedIndex { column: (*column).to_owned(), metric: "l2".into() };
    let indexes = columns.iter().map(index).collect();
    Arc::new(Wanted { rows: 4, indexes, ..Wanted::clone(&segment(id, 10)) })
}

fn name(segment: &Wanted, at: usize) -> IndexName {
    IndexName::of(segment, &segment.indexes[at])
}

fn build(segment: &Arc<Wanted>, at: usize) -> Action {
    Action::Build(Arc::clone(segment), name(segment, at))
}

/// Names of the indexes with which a segment is served; `None`: it is not.
fn ready(ledger: &Ledger, id: u64) -> Option<Vec<IndexName>> {
    ledger.served().get(&SegmentId(id)).cloned()
}

fn fetched(ledger: &mut Ledger, segment: &Arc<Wanted>) {
    ledger.desire(&wish(1, &[segment]), at(0));
    let fetch = Action::Fetch(Arc::clone(segment));
    assert_eq!(next(ledger, at(0)), std::slice::from_ref(&fetch));
    ledger.finish(&fetch, good(), at(0));
}

#[test]
fn a_segment_is_held_when_all_of_its_indexes_are_built_one_after_the_other() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let a = indexed(1, &["v", "w"]);
    fetched(&mut ledger, &a);
    assert_eq!((ready(&ledger, 1), ledger.observation().count("fetching")), (None, 1));
    let first = next(&mut ledger, at(0));
    assert_eq!((first.len(), ledger.observation().index_bytes), (1, 640), "one is built at once");
    ledger.finish(&first[0], Outcome::Built(30), at(1));
    assert_eq!(ready(&ledger, 1), None);
    let second = next(&mut ledger, at(1));
    assert_ne!(first, second);
    ledger.finish(&second[0], Outcome::Built(20), at(2));
    assert_eq!((ready(&ledger, 1).unwrap().len(), ledger.observation().bytes), (2, 60));
    assert_eq!((next(&mut ledger, at(2)), ledger.observation().count("held")), (vec![], 1));
}

#[test]
fn a_build_that_fails_is_the_segments_failure_and_is_tried_again_without_another_fetch() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let a = indexed(1, &["v"]);
    fetched(&mut ledger, &a);
    for tries in 1..=2 {
        let now = at(u64::from(tries) * 10);
        assert_eq!(next(&mut ledger, now), [build(&a, 0)]);
        let error = Error::new(ErrorCode::ColumnNotFound, "none");
        let failed = Outcome::Failed { error, retry_after: Duration::from_secs(10) };
        ledger.finish(&build(&a, 0), failed, now);
        assert_eq!(failure(&ledger, 1), Some((ErrorCode::ColumnNotFound, tries)));
        assert_eq!(next(&mut ledger, now + Duration::from_secs(9)), []);
        assert_eq!(ledger.wake_at(now), Some(now + Duration::from_secs(10)));
    }
    settle(&mut ledger, at(40));
    assert_eq!((failure(&ledger, 1), ready(&ledger, 1)), (None, Some(vec![name(&a, 0)])));
}

#[test]
fn another_wish_for_indexes_leaves_a_held_segment_in_service() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let (v, w) = (indexed(1, &["v"]), indexed(1, &["w"]));
    fetched(&mut ledger, &v);
    settle(&mut ledger, at(0));
    ledger.desire(&wish(2, &[&w]), at(1));
    assert_eq!(ready(&ledger, 1), Some(vec![]), "searched without an index meanwhile");
    assert_eq!(next(&mut ledger, at(1)), [build(&w, 0)]);
    assert_eq!(ledger.next(at(1), true, |_| true, |_| RETRY), [], "a query still reads the old one");
    assert!(ledger.leaving());
    let removal = Action::RemoveIndex(SegmentId(1), name(&v, 0));
    assert_eq!(next(&mut ledger, at(1)), std::slice::from_ref(&removal));
    ledger.finish(&removal, Outcome::Gone, at(1));
    let error = Error::new(ErrorCode::ColumnNotFound, "none");
    ledger.finish(&build(&w, 0), Outcome::Failed { error, retry_after: RETRY }, at(1));
    assert_eq!((ready(&ledger, 1), failure(&ledger, 1)), (Some(vec![]), None), "it is held all the same");
    settle(&mut ledger, at(5));
    assert_eq!(ready(&ledger, 1), Some(vec![name(&w, 0)]));
    // Without a wish for any there is nothing left but the file.
    ledger.desire(&wish(3, &[&segment(1, 10)]), at(6));
    settle(&mut ledger, at(6));
    assert_eq!((ready(&ledger, 1), ledger.observation().bytes), (Some(vec![]), 10));
}

#[test]
fn what_a_restart_finds_good_is_not_built_again_and_strangers_go() {
    let a = indexed(1, &["v", "w"]);
    let stranger = name(&indexed(1, &["x"]), 0);
    let indexes = BTreeMap::from([(name(&a, 0), 30), (stranger, 7)]);
    let orphan = Found { bytes: None, indexes: BTreeMap::from([(stranger, 7)]) };
    let found = [(SegmentId(1), Found { bytes: Some(10), indexes }), (SegmentId(2), orphan)];
    let mut ledger = Ledger::new(ROOM, found, at(0));
    assert_eq!((next(&mut ledger, at(0)), ledger.observation().bytes), (vec![], 54));
    ledger.desire(&wish(1, &[&a]), at(0));
    let verify = Action::Verify(Arc::clone(&a));
    assert_eq!(next(&mut ledger, at(0)), std::slice::from_ref(&verify));
    let removal = Action::RemoveIndex(SegmentId(1), stranger);
    assert_eq!(next(&mut ledger, at(0)), std::slice::from_ref(&removal));
    ledger.finish(&verify, Outcome::Good(BTreeMap::from([(name(&a, 0), 30)])), at(1));
    assert_eq!(next(&mut ledger, at(1)), [build(&a, 1)], "only what is not there");
    ledger.finish(&build(&a, 1), Outcome::Built(20), at(2));
    ledger.finish(&removal, Outcome::Gone, at(2));
    assert_eq!(ready(&ledger, 1).unwrap().len(), 2);
    // The index of a segment that is not there and not wanted goes like its file would.
    assert_eq!(ledger.wake_at(at(2)), Some(at(5)));
    assert_eq!(settle(&mut ledger, at(5)), [Action::Remove(SegmentId(2), vec![stranger])]);
    assert_eq!(ledger.observation().bytes, 60);
}

#[test]
fn an_index_that_is_found_damaged_is_built_again_in_service() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let a = indexed(1, &["v"]);
    fetched(&mut ledger, &a);
    settle(&mut ledger, at(0));
    ledger.suspect(SegmentId(1), true);
    let verify = Action::Verify(Arc::clone(&a));
    assert_eq!(next(&mut ledger, at(1)), std::slice::from_ref(&verify));
    ledger.finish(&verify, good(), at(1));
    assert_eq!(ready(&ledger, 1), Some(vec![]));
    assert_eq!(next(&mut ledger, at(1)), [build(&a, 0)]);
    ledger.finish(&build(&a, 0), Outcome::Built(5), at(1));
    assert_eq!(ready(&ledger, 1), Some(vec![name(&a, 0)]));
}

#[test]
fn an_index_that_does_not_fit_says_so_and_is_built_when_there_is_room() {
    let mut ledger = Ledger::new(Limits { bytes: 655, ..LIMITS }, [], at(0));
    let (a, b) = (indexed(1, &["v"]), segment(2, 10));
    ledger.desire(&wish(1, &[&a, &b]), at(0));
    for action in next(&mut ledger, at(0)) {
        ledger.finish(&action, good(), at(0));
    }
    assert_eq!(next(&mut ledger, at(0)), []);
    let status = &ledger.observation().segments[&SegmentId(1)].status;
    let Status::Failed { error, .. } = status else { panic!("{status:?}") };
    assert_eq!(error.code(), ErrorCode::SegmentRequestResourceFailed);
    assert!(error.message().contains("an index of segment '/' (1) needs 640 bytes"), "{error}");
    ledger.desire(&wish(2, &[&a]), at(0));
    ledger.next(at(5), true, |_| false, |_| RETRY);
    settle(&mut ledger, at(5));
    assert_eq!(ready(&ledger, 1), Some(vec![name(&a, 0)]));
}

#[test]
fn a_build_that_nobody_wants_any_more_is_called_off_and_its_segment_goes_after_it() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let (v, w) = (indexed(1, &["v"]), indexed(1, &["w"]));
    fetched(&mut ledger, &v);
    next(&mut ledger, at(0));
    assert_eq!(ledger.pointless_builds(), []);
    ledger.desire(&wish(2, &[&w]), at(1));
    assert_eq!(ledger.pointless_builds(), [(SegmentId(1), name(&v, 0))]);
    assert_eq!(next(&mut ledger, at(1)), [], "the other one waits for it");
    ledger.finish(&build(&v, 0), Outcome::Gone, at(1));
    assert_eq!(next(&mut ledger, at(1)), [build(&w, 0)]);
    ledger.desire(&wish(3, &[]), at(2));
    assert_eq!(ledger.pointless_builds(), [(SegmentId(1), name(&w, 0))]);
    assert_eq!(
        (next(&mut ledger, at(9)), next(&mut ledger, at(9))),
        (vec![], vec![]),
        "it is being written to"
    );
    // It ended well just before it was called off.
    ledger.finish(&build(&w, 0), Outcome::Built(5), at(9));
    assert_eq!(settle(&mut ledger, at(9)), [Action::Remove(SegmentId(1), vec![name(&w, 0)])]);
    assert_eq!(ledger.observation().bytes, 0);
}

#[test]
fn other_content_makes_its_indexes_strangers() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let a = indexed(1, &["v"]);
    fetched(&mut ledger, &a);
    settle(&mut ledger, at(0));
    let other = Arc::new(Wanted { checksum: "another".into(), ..Wanted::clone(&a) });
    ledger.desire(&wish(2, &[&other]), at(1));
    assert_eq!(ready(&ledger, 1), None);
    let done = settle(&mut ledger, at(1));
    assert!(done.contains(&Action::RemoveIndex(SegmentId(1), name(&a, 0))), "{done:?}");
    assert_eq!(ready(&ledger, 1), Some(vec![name(&other, 0)]));
}

#[test]
fn no_index_is_built_while_nothing_is_fetched() {
    let mut ledger = Ledger::new(ROOM, [], at(0));
    let a = indexed(1, &["v"]);
    fetched(&mut ledger, &a);
    assert_eq!(ledger.next(at(0), false, |_| false, |_| RETRY), []);
}
