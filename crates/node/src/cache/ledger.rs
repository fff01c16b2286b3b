//! What to do next: pure decisions over the desired state and what lies on disk.

mod builds;
mod entry;
mod indexes;
mod room;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, SegmentId};

use self::{
    entry::{Entry, Failure, Phase},
    indexes::Indexes,
    room::Room,
};
use super::{
    files::Found,
    index::{IndexName, WantedIndex},
    segment::{Desired, Observation, Observed, Status, Wanted},
};

/// Limits of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes that files may take.
    pub(crate) bytes: u64,
    /// Files that are fetched or verified at once.
    pub(crate) concurrency: usize,
    /// Indexes that are built at once.
    pub(crate) builds: usize,
    /// How long what is not wanted is still served.
    pub(crate) drop_after: Duration,
}

/// Something to do, outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Compare the file with length and checksum, and look at its index files; remove what differs.
    Verify(Arc<Wanted>),
    /// Get the file, and look at its index files.
    Fetch(Arc<Wanted>),
    /// Build an index of the file.
    Build(Arc<Wanted>, IndexName),
    /// Remove an index file.
    RemoveIndex(SegmentId, IndexName),
    /// Remove the file and these index files.
    Remove(SegmentId, Vec<IndexName>),
}

/// How an action ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file is there and verified, and so are these of its index files, with their lengths.
    Good(BTreeMap<IndexName, u64>),
    /// The index is there, with the length of its file.
    Built(u64),
    /// There was no such file, or it was wrong and is removed; of a build: it was called off.
    Gone,
    /// It could not be fetched or built. There is no file.
    Failed {
        /// Why.
        error: Error,
        /// How long to wait before the next try.
        retry_after: Duration,
    },
}

/// The cache's book.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    entries: BTreeMap<SegmentId, Entry>,
    /// Version of the last wish.
    version: u64,
    /// Whether a wish was read at all. Before that nothing is dropped.
    told: bool,
}

impl Ledger {
    /// A book of the files that an earlier process left. None of them is served before it is
    /// verified against a wish.
    pub(crate) fn new(
        limits: Limits,
        found: impl IntoIterator<Item = (SegmentId, Found)>,
        now: MonoTime,
    ) -> Self {
        let entry = |found: Found| Entry {
            bytes: found.bytes.unwrap_or(0),
            unwanted_since: Some(now),
            indexes: Indexes::found(found.indexes),
            ..Entry::new(found.bytes.map_or(Phase::Absent, |_| Phase::Doubtful { served: false }))
        };
        let entries = found.into_iter().map(|(id, found)| (id, entry(found))).collect();
        Self { limits, entries, version: 0, told: false }
    }

    /// Reads a wish. `version` is 0 for one that an earlier process stored.
    pub(crate) fn desire(&mut self, desired: &Desired, now: MonoTime) {
        let wanted: BTreeMap<_, _> = desired.segments.iter().map(|segment| (segment.id(), segment)).collect();
        self.version = desired.version;
        for (id, entry) in &mut self.entries {
            if !wanted.contains_key(id) && (entry.unwanted_since.is_none() || !self.told) {
                entry.unwanted_since = Some(now);
                (entry.failure, entry.indexes.failure) = (None, None);
            }
        }
        self.told = true;
        self.entries.retain(|_, entry| !entry.is_nothing());
        for (id, segment) in wanted {
            self.want(id, segment);
        }
    }

    fn want(&mut self, id: SegmentId, segment: &Arc<Wanted>) {
        let entry = self.entries.entry(id).or_insert_with(|| Entry::new(Phase::Absent));
        let same = entry.segment.as_ref().is_some_and(|known| known.same_content(segment));
        if !same {
            (entry.verified_at, entry.complete) = (None, false);
        }
        if entry.segment.as_ref() != Some(segment) {
            entry.indexes.want(segment);
        }
        entry.phase = match entry.phase {
            Phase::Leaving if entry.verified_at.is_some() => Phase::Held,
            Phase::Leaving => Phase::Doubtful { served: false },
            Phase::Held | Phase::Doubtful { .. } if !same => Phase::Doubtful { served: false },
            phase => phase,
        };
        entry.segment = Some(Arc::clone(segment));
        entry.unwanted_since = None;
        entry.settle();
    }

    /// A file is said to be damaged (`served` until that is known) or missing (not served any more). What is being
    /// worked on, and what is not held, stays as it is.
    pub(crate) fn suspect(&mut self, id: SegmentId, served: bool) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.phase == Phase::Held
        {
            entry.phase = Phase::Doubtful { served };
            entry.verified_at = None;
        }
    }

    /// An index cannot be used: it is not any more, and built again.
    pub(crate) fn suspect_index(&mut self, id: SegmentId, name: IndexName) {
        self.entries.get_mut(&id).into_iter().for_each(|entry| entry.indexes.suspect(name));
    }

    /// The held segment that was verified longest ago.
    pub(crate) fn oldest_verified(&self) -> Option<SegmentId> {
        let held = self.entries.iter().filter(|(_, entry)| entry.phase == Phase::Held);
        held.min_by_key(|(id, entry)| (entry.verified_at, **id)).map(|(id, _)| *id)
    }

    /// Takes the end of an action.
    pub(crate) fn finish(&mut self, done: &Action, outcome: Outcome, now: MonoTime) {
        let (id, worked_on, index) = match done {
            Action::Verify(segment) | Action::Fetch(segment) => (segment.id(), Some(segment), None),
            Action::Build(segment, index) => (segment.id(), Some(segment), Some(*index)),
            Action::RemoveIndex(id, index) => (*id, None, Some(*index)),
            Action::Remove(id, _) => (*id, None, None),
        };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match (outcome, index) {
            (Outcome::Good(indexes), _) => {
                let current = entry.segment.as_ref().zip(worked_on).is_some_and(|(a, b)| a.same_content(b));
                entry.phase = if current { Phase::Held } else { Phase::Doubtful { served: false } };
                entry.failure = None;
                entry.verified_at = current.then_some(now);
                if current {
                    entry.indexes.checked(&indexes);
                }
            }
            (Outcome::Built(bytes), Some(index)) => entry.indexes.built(index, bytes),
            (Outcome::Built(_), None) => {}
            (Outcome::Gone, Some(index)) => {
                entry.indexes.gone(index);
                self.room_again(now);
            }
            (Outcome::Gone, None) => {
                entry.absent();
                if let Action::Remove(..) = done {
                    entry.indexes.all_gone();
                }
                self.room_again(now);
            }
            (Outcome::Failed { error, retry_after }, index) => {
                let place = if let Some(index) = index {
                    entry.indexes.gone(index);
                    &mut entry.indexes.failure
                } else {
                    entry.absent();
                    &mut entry.failure
                };
                let tries = place.as_ref().map_or(0, |failure| failure.tries).saturating_add(1);
                *place = Some(Failure { error, tries, retry_at: now + retry_after });
            }
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.settle();
        }
        self.entries.retain(|_, entry| !entry.is_nothing());
    }

    /// How often a segment failed since it was last good.
    pub(crate) fn tries(&self, id: SegmentId) -> u32 {
        self.entries.get(&id).and_then(Entry::failure).map_or(0, |failure| failure.tries)
    }

    /// Room has become free: what failed for lack of it need not wait.
    fn room_again(&mut self, now: MonoTime) {
        let failures =
            self.entries.values_mut().flat_map(|entry| [&mut entry.failure, &mut entry.indexes.failure]);
        for failure in failures.flatten() {
            if failure.error.code() == ErrorCode::SegmentRequestResourceFailed {
                failure.retry_at = failure.retry_at.min(now);
            }
        }
    }

    /// What is to be done now. Each action is handed out once and must be finished. `in_use` says whether a query
    /// reads a file; `fetches` whether fetching is possible at all; `retry_after` how long to wait after so many tries.
    pub(crate) fn next(
        &mut self,
        now: MonoTime,
        fetches: bool,
        in_use: impl Fn(SegmentId) -> bool,
        mut retry_after: impl FnMut(u32) -> Duration,
    ) -> Vec<Action> {
        let mut actions = self.removals(now, &in_use);
        let mut slots = self.limits.concurrency.saturating_sub(self.working());
        for (id, segment) in self.doubtful().into_iter().take(slots) {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.phase = Phase::Verifying { served: entry.phase.served() };
                actions.push(Action::Verify(segment));
                slots -= 1;
            }
        }
        for (id, segment) in if fetches { self.missing(now) } else { vec![] } {
            if slots == 0 {
                break;
            }
            match self.make_room(segment.bytes, &segment) {
                Room::Enough => {
                    if let Some(entry) = self.entries.get_mut(&id) {
                        entry.phase = Phase::Fetching;
                        entry.bytes = segment.bytes;
                        actions.push(Action::Fetch(segment));
                        slots -= 1;
                    }
                }
                Room::Soon => {}
                Room::None(error) => {
                    let retry_after = retry_after(self.tries(id) + 1);
                    let failed = Outcome::Failed { error, retry_after };
                    self.finish(&Action::Fetch(segment), failed, now);
                }
            }
        }
        if fetches {
            self.builds(now, retry_after, &mut actions);
        }
        actions
    }

    fn working(&self) -> usize {
        self.entries.values().filter(|entry| entry.phase.works()).count()
    }

    /// Files of earlier processes, and suspects, that the desired state names.
    fn doubtful(&self) -> Vec<(SegmentId, Arc<Wanted>)> {
        let doubtful =
            |entry: &&Entry| matches!(entry.phase, Phase::Doubtful { .. }) && entry.unwanted_since.is_none();
        let entries = self.entries.iter().filter(|(_, entry)| doubtful(entry));
        entries.filter_map(|(id, entry)| Some((*id, Arc::clone(entry.segment.as_ref()?)))).collect()
    }

    /// What is to be fetched, largest first: the last fetch of a load is then a short one.
    fn missing(&self, now: MonoTime) -> Vec<(SegmentId, Arc<Wanted>)> {
        let due = |entry: &Entry| entry.failure.as_ref().is_none_or(|failure| failure.retry_at <= now);
        let missing = self.entries.iter().filter(|(_, entry)| entry.phase == Phase::Absent && due(entry));
        let mut missing: Vec<_> =
            missing.filter_map(|(id, entry)| Some((*id, Arc::clone(entry.segment.as_ref()?)))).collect();
        missing.sort_by_key(|(id, segment)| (Reverse(segment.bytes), *id));
        missing
    }

    /// Lets go what was unwanted for long enough.
    fn removals(&mut self, now: MonoTime, in_use: &impl Fn(SegmentId) -> bool) -> Vec<Action> {
        let mut actions = vec![];
        for (id, entry) in &mut self.entries {
            let Some(since) = entry.unwanted_since.filter(|_| self.told) else { continue };
            let over = since + self.limits.drop_after <= now;
            if over && entry.idles() {
                entry.phase = Phase::Leaving;
            } else if entry.phase == Phase::Leaving && !entry.works() && !in_use(*id) {
                entry.phase = Phase::Removing;
                actions.push(Action::Remove(*id, entry.indexes.names()));
            }
        }
        for (id, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.unwanted_since.is_none()) {
            let removals = entry.indexes.removals(|| in_use(*id));
            actions.extend(removals.into_iter().map(|name| Action::RemoveIndex(*id, name)));
        }
        actions
    }

    fn bytes(&self) -> u64 {
        self.entries.values().map(Entry::total).sum()
    }

    /// The segments that queries may read now, each with its indexes that are ready.
    pub(crate) fn served(&self) -> BTreeMap<SegmentId, Vec<IndexName>> {
        let served = self.entries.iter().filter(|(_, entry)| entry.served());
        served.map(|(id, entry)| (*id, entry.indexes.ready().map(|(name, ..)| name).collect())).collect()
    }

    /// The indexes of a segment that queries may read now, with the lengths of their files.
    pub(crate) fn ready_indexes(
        &self,
        id: SegmentId,
    ) -> impl Iterator<Item = (IndexName, &WantedIndex, u64)> {
        self.entries.get(&id).into_iter().flat_map(|entry| entry.indexes.ready())
    }

    /// What is to be reported now.
    pub(crate) fn observation(&self) -> Observation {
        let observed = |entry: &Entry| {
            let wanted = entry.unwanted_since.is_none();
            let status = match (entry.failure(), entry.served()) {
                (_, true) => Status::Held,
                (Some(failure), false) => {
                    Status::Failed { error: failure.error.clone(), tries: failure.tries }
                }
                (None, false) if wanted => Status::Fetching,
                (None, false) => return None,
            };
            let (segment, indexes) = (Arc::clone(entry.segment.as_ref()?), entry.indexes.observed());
            Some(Observed { status, segment, wanted, indexes })
        };
        let segments = self.entries.iter().filter_map(|(id, entry)| Some((*id, observed(entry)?))).collect();
        let index_bytes = self.entries.values().map(|entry| entry.indexes.bytes()).sum();
        Observation { desired_version: self.version, segments, bytes: self.bytes(), index_bytes }
    }

    /// When, after now, [`Ledger::next`] has something new to say without being told anything; `None`: never. A file
    /// that only waits for its readers has no time of its own.
    pub(crate) fn wake_at(&self, now: MonoTime) -> Option<MonoTime> {
        let retries = self.entries.values().filter(|entry| entry.phase == Phase::Absent);
        let retries = retries.filter_map(|entry| Some(entry.failure.as_ref()?.retry_at));
        let builds = self.entries.values().filter(|entry| entry.phase == Phase::Held);
        let builds = builds.filter_map(|entry| Some(entry.indexes.failure.as_ref()?.retry_at));
        let drops =
            self.entries.values().filter(|entry| entry.idles()).filter_map(|entry| entry.unwanted_since);
        let drops = drops.filter(|_| self.told).map(|since| since + self.limits.drop_after);
        retries.chain(builds).chain(drops).filter(|at| *at > now).min()
    }

    /// Whether some file waits for its readers.
    pub(crate) fn leaving(&self) -> bool {
        self.entries.values().any(|entry| entry.phase == Phase::Leaving || entry.indexes.leaving())
    }
}

#[cfg(test)]
mod tests;
