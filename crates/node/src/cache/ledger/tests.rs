//! What the ledger decides, without a file.

use std::time::Duration;

use super::*;

mod indexes;

const LIMITS: Limits = Limits { bytes: 100, concurrency: 2, builds: 1, drop_after: Duration::from_secs(5) };
const RETRY: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_secs(seconds))
}

fn segment(id: u64, bytes: u64) -> Arc<Wanted> {
    Arc::new(Wanted { id, bytes, checksum: format!("sum of {id}"), ..Wanted::default() })
}

/// A file that an earlier process left.
fn file(bytes: u64) -> Found {
    Found { bytes: Some(bytes), ..Found::default() }
}

fn wish(version: u64, segments: &[&Arc<Wanted>]) -> Desired {
    Desired { version, segments: segments.iter().map(|segment| Arc::clone(segment)).collect() }
}

fn next(ledger: &mut Ledger, now: MonoTime) -> Vec<Action> {
    ledger.next(now, true, |_| false, |_| RETRY)
}

/// How an action ends that goes well.
fn well(action: &Action) -> Outcome {
    match action {
        Action::Verify(_) | Action::Fetch(_) => good(),
        Action::Build(..) => Outcome::Built(5),
        Action::RemoveIndex(..) | Action::Remove(..) => Outcome::Gone,
    }
}

/// Verified, and there is no index file.
fn good() -> Outcome {
    Outcome::Good(BTreeMap::new())
}

fn remove(id: u64) -> Action {
    Action::Remove(SegmentId(id), vec![])
}

/// Does everything that is to be done, well, until nothing is.
fn settle(ledger: &mut Ledger, now: MonoTime) -> Vec<Action> {
    let mut all = vec![];
    loop {
        let actions = next(ledger, now);
        if actions.is_empty() && !ledger.leaving() {
            return all;
        }
        for action in &actions {
            ledger.finish(action, well(action), now);
        }
        all.extend(actions);
    }
}

fn failure(ledger: &Ledger, id: u64) -> Option<(ErrorCode, u32)> {
    match &ledger.observation().segments.get(&SegmentId(id))?.status {
        Status::Failed { error, tries } => Some((error.code(), *tries)),
        Status::Fetching | Status::Held => None,
    }
}

fn served(ledger: &Ledger) -> Vec<u64> {
    ledger.served().keys().map(|id| id.0).collect()
}

#[test]
fn the_largest_is_fetched_first_and_never_more_than_allowed_at_once() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let [a, b, c] = [segment(1, 10), segment(2, 30), segment(3, 20)];
    ledger.desire(&wish(1, &[&a, &b, &c]), at(0));
    assert_eq!(next(&mut ledger, at(0)), [Action::Fetch(Arc::clone(&b)), Action::Fetch(c)]);
    assert_eq!(next(&mut ledger, at(0)), []);
    ledger.finish(&Action::Fetch(b), good(), at(1));
    assert_eq!(next(&mut ledger, at(1)), [Action::Fetch(a)]);
    assert_eq!(served(&ledger), [2]);
}

#[test]
fn nothing_is_served_before_it_is_verified() {
    let mut ledger = Ledger::new(LIMITS, [(SegmentId(1), file(10))], at(0));
    assert_eq!(next(&mut ledger, at(100)), [], "nothing is dropped before a wish is known");
    let a = segment(1, 10);
    ledger.desire(&wish(1, &[&a]), at(100));
    assert_eq!(served(&ledger), [0_u64; 0]);
    assert_eq!(next(&mut ledger, at(100)), [Action::Verify(Arc::clone(&a))]);
    ledger.finish(&Action::Verify(Arc::clone(&a)), Outcome::Gone, at(101));
    assert_eq!(next(&mut ledger, at(101)), [Action::Fetch(Arc::clone(&a))]);
    ledger.finish(&Action::Fetch(a), good(), at(102));
    assert_eq!(served(&ledger), [1]);
}

#[test]
fn what_is_not_wanted_is_served_for_a_while_and_removed_after_its_last_reader() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let a = segment(1, 10);
    ledger.desire(&wish(1, &[&a]), at(0));
    settle(&mut ledger, at(0));
    ledger.desire(&wish(2, &[]), at(10));
    assert_eq!(ledger.wake_at(at(10)), Some(at(15)));
    assert_eq!((next(&mut ledger, at(14)), served(&ledger)), (vec![], vec![1]));
    assert_eq!((ledger.next(at(15), true, |_| true, |_| RETRY), served(&ledger)), (vec![], vec![]));
    assert_eq!(ledger.next(at(60), true, |_| true, |_| RETRY), []);
    assert_eq!(next(&mut ledger, at(60)), [remove(1)]);
    ledger.finish(&remove(1), Outcome::Gone, at(60));
    assert_eq!(ledger.observation(), Observation { desired_version: 2, ..Observation::default() });
}

#[test]
fn what_is_wanted_again_in_time_is_not_fetched_again() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let a = segment(1, 10);
    ledger.desire(&wish(1, &[&a]), at(0));
    settle(&mut ledger, at(0));
    ledger.desire(&wish(2, &[]), at(10));
    ledger.next(at(15), true, |_| true, |_| RETRY);
    ledger.desire(&wish(3, &[&a]), at(16));
    assert_eq!((settle(&mut ledger, at(60)), served(&ledger)), (vec![], vec![1]));
}

#[test]
fn what_is_wanted_again_while_it_is_removed_is_fetched_again() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let a = segment(1, 10);
    ledger.desire(&wish(1, &[&a]), at(0));
    settle(&mut ledger, at(0));
    ledger.desire(&wish(2, &[]), at(10));
    next(&mut ledger, at(20));
    assert_eq!(next(&mut ledger, at(20)), [remove(1)]);
    ledger.desire(&wish(3, &[&a]), at(20));
    assert_eq!(next(&mut ledger, at(20)), []);
    ledger.finish(&remove(1), Outcome::Gone, at(21));
    assert_eq!(next(&mut ledger, at(21)), [Action::Fetch(a)]);
}

#[test]
fn other_content_under_the_same_number_is_not_served() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    ledger.desire(&wish(1, &[&segment(1, 10)]), at(0));
    settle(&mut ledger, at(0));
    let other = segment(1, 11);
    ledger.desire(&wish(2, &[&other]), at(1));
    assert_eq!(served(&ledger), [0_u64; 0]);
    assert_eq!(next(&mut ledger, at(1)), [Action::Verify(other)]);
}

#[test]
fn what_is_wanted_never_gives_way_and_what_is_not_does_at_once() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let [a, b, c] = [segment(1, 60), segment(2, 40), segment(3, 30)];
    ledger.desire(&wish(1, &[&a, &b]), at(0));
    settle(&mut ledger, at(0));
    ledger.desire(&wish(2, &[&a, &b, &c]), at(1));
    assert_eq!(next(&mut ledger, at(1)), []);
    assert_eq!(failure(&ledger, 3), Some((ErrorCode::SegmentRequestResourceFailed, 1)));
    assert_eq!(served(&ledger), [1, 2]);
    assert_eq!(ledger.wake_at(at(1)), Some(at(2)));
    next(&mut ledger, at(2));
    assert_eq!(failure(&ledger, 3), Some((ErrorCode::SegmentRequestResourceFailed, 2)));
    // Long before `drop_after` is over.
    ledger.desire(&wish(3, &[&a, &c]), at(3));
    let done = settle(&mut ledger, at(3));
    assert_eq!(done, [remove(2), Action::Fetch(c)]);
    assert_eq!((served(&ledger), ledger.observation().bytes), (vec![1, 3], 90));
}

#[test]
fn a_small_one_is_fetched_while_a_large_one_does_not_fit() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let (large, small) = (segment(1, 101), segment(2, 100));
    ledger.desire(&wish(1, &[&large, &small]), at(0));
    assert_eq!(settle(&mut ledger, at(0)), [Action::Fetch(small)]);
    assert!(failure(&ledger, 1).is_some());
}

#[test]
fn failures_wait_are_counted_and_forgotten_when_it_goes_well() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let a = segment(1, 10);
    ledger.desire(&wish(1, &[&a]), at(0));
    for tries in 1..=3 {
        let now = at(u64::from(tries) * 10);
        assert_eq!(next(&mut ledger, now), [Action::Fetch(Arc::clone(&a))]);
        let error = Error::new(ErrorCode::SegmentNotFound, "none");
        let failed = Outcome::Failed { error, retry_after: Duration::from_secs(10) };
        ledger.finish(&Action::Fetch(Arc::clone(&a)), failed, now);
        assert_eq!(failure(&ledger, 1), Some((ErrorCode::SegmentNotFound, tries)));
        assert_eq!(next(&mut ledger, now + Duration::from_secs(9)), []);
    }
    settle(&mut ledger, at(40));
    assert_eq!((failure(&ledger, 1), ledger.tries(SegmentId(1)), served(&ledger)), (None, 0, vec![1]));
}

#[test]
fn a_damaged_file_is_served_until_that_is_known_and_a_missing_one_is_not() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    let [a, b] = [segment(1, 10), segment(2, 10)];
    ledger.desire(&wish(1, &[&a, &b]), at(0));
    settle(&mut ledger, at(0));
    ledger.suspect(SegmentId(1), true);
    ledger.suspect(SegmentId(2), false);
    assert_eq!(served(&ledger), [1]);
    assert_eq!(next(&mut ledger, at(1)), [Action::Verify(Arc::clone(&a)), Action::Verify(Arc::clone(&b))]);
    assert_eq!(served(&ledger), [1]);
    ledger.finish(&Action::Verify(a), good(), at(2));
    ledger.finish(&Action::Verify(Arc::clone(&b)), Outcome::Gone, at(2));
    assert_eq!(next(&mut ledger, at(2)), [Action::Fetch(b)]);
    assert_eq!((served(&ledger), ledger.oldest_verified()), (vec![1], Some(SegmentId(1))));
}

#[test]
fn nothing_is_fetched_without_an_object_store() {
    let mut ledger = Ledger::new(LIMITS, [], at(0));
    ledger.desire(&wish(1, &[&segment(1, 10)]), at(0));
    assert_eq!(ledger.next(at(0), false, |_| false, |_| RETRY), []);
    assert_eq!(ledger.observation().count("fetching"), 1);
}
