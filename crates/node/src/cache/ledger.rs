//! What to do next: pure decisions over the desired state and what lies on disk.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, SegmentId};

use super::segment::{Desired, Observation, Observed, Status, Wanted};

/// Limits of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes that files may take.
    pub(crate) bytes: u64,
    /// Files that are fetched or verified at once.
    pub(crate) concurrency: usize,
    /// How long what is not wanted is still served.
    pub(crate) drop_after: Duration,
}

/// Something to do, outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Compare the file with length and checksum; remove it if it differs.
    Verify(Arc<Wanted>),
    /// Get the file.
    Fetch(Arc<Wanted>),
    /// Remove the file.
    Remove(SegmentId),
}

/// How an action ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file is there and verified.
    Good,
    /// There was no such file, or it was wrong and is removed.
    Gone,
    /// It could not be fetched. There is no file.
    Failed {
        /// Why.
        error: Error,
        /// How long to wait before the next try.
        retry_after: Duration,
    },
}

/// Where a segment's file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No file.
    Absent,
    /// A file that must be verified.
    Doubtful { served: bool },
    /// Being verified.
    Verifying { served: bool },
    /// Being fetched.
    Fetching,
    /// Verified, served.
    Held,
    /// Not served any more; removed when no query reads it.
    Leaving,
    /// Being removed.
    Removing,
}

impl Phase {
    fn served(self) -> bool {
        matches!(self, Self::Held | Self::Doubtful { served: true } | Self::Verifying { served: true })
    }

    fn works(self) -> bool {
        matches!(self, Self::Verifying { .. } | Self::Fetching)
    }

    fn goes(self) -> bool {
        matches!(self, Self::Leaving | Self::Removing)
    }
}

#[derive(Clone, Debug)]
struct Failure {
    error: Error,
    tries: u32,
    retry_at: MonoTime,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The wish, or the last one. `None`: a file of an earlier process that no wish has named yet.
    segment: Option<Arc<Wanted>>,
    phase: Phase,
    /// Bytes on disk, or promised to a fetch.
    bytes: u64,
    failure: Option<Failure>,
    /// `Some`: not in the desired state, since then.
    unwanted_since: Option<MonoTime>,
    /// When the file was last found good.
    verified_at: Option<MonoTime>,
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
    /// A book of the files that an earlier process left: numbers and lengths. None of them is served before it is
    /// verified against a wish.
    pub(crate) fn new(
        limits: Limits,
        found: impl IntoIterator<Item = (SegmentId, u64)>,
        now: MonoTime,
    ) -> Self {
        let entry = |bytes| Entry {
            segment: None,
            phase: Phase::Doubtful { served: false },
            bytes,
            failure: None,
            unwanted_since: Some(now),
            verified_at: None,
        };
        let entries = found.into_iter().map(|(id, bytes)| (id, entry(bytes))).collect();
        Self { limits, entries, version: 0, told: false }
    }

    /// Reads a wish. `version` is 0 for one that an earlier process stored.
    pub(crate) fn desire(&mut self, desired: &Desired, now: MonoTime) {
        let wanted: BTreeMap<_, _> = desired.segments.iter().map(|segment| (segment.id(), segment)).collect();
        self.version = desired.version;
        for (id, entry) in &mut self.entries {
            if !wanted.contains_key(id) && (entry.unwanted_since.is_none() || !self.told) {
                entry.unwanted_since = Some(now);
                entry.failure = None;
            }
        }
        self.told = true;
        self.entries.retain(|_, entry| entry.unwanted_since.is_none() || entry.phase != Phase::Absent);
        for (id, segment) in wanted {
            self.want(id, segment);
        }
    }

    fn want(&mut self, id: SegmentId, segment: &Arc<Wanted>) {
        let absent = || Entry {
            segment: None,
            phase: Phase::Absent,
            bytes: 0,
            failure: None,
            unwanted_since: None,
            verified_at: None,
        };
        let entry = self.entries.entry(id).or_insert_with(absent);
        let same = entry.segment.as_ref().is_some_and(|known| known.same_content(segment));
        if !same {
            entry.verified_at = None;
        }
        entry.phase = match entry.phase {
            Phase::Leaving if entry.verified_at.is_some() => Phase::Held,
            Phase::Leaving => Phase::Doubtful { served: false },
            Phase::Held | Phase::Doubtful { .. } if !same => Phase::Doubtful { served: false },
            phase => phase,
        };
        entry.segment = Some(Arc::clone(segment));
        entry.unwanted_since = None;
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

    /// The held segment that was verified longest ago.
    pub(crate) fn oldest_verified(&self) -> Option<SegmentId> {
        let held = self.entries.iter().filter(|(_, entry)| entry.phase == Phase::Held);
        held.min_by_key(|(id, entry)| (entry.verified_at, **id)).map(|(id, _)| *id)
    }

    /// Takes the end of an action.
    pub(crate) fn finish(&mut self, done: &Action, outcome: Outcome, now: MonoTime) {
        let (id, worked_on) = match done {
            Action::Verify(segment) | Action::Fetch(segment) => (segment.id(), Some(segment)),
            Action::Remove(id) => (*id, None),
        };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match outcome {
            Outcome::Good => {
                let current = entry.segment.as_ref().zip(worked_on).is_some_and(|(a, b)| a.same_content(b));
                entry.phase = if current { Phase::Held } else { Phase::Doubtful { served: false } };
                entry.failure = None;
                entry.verified_at = current.then_some(now);
            }
            Outcome::Gone => {
                entry.phase = Phase::Absent;
                entry.bytes = 0;
                self.room_again(now);
            }
            Outcome::Failed { error, retry_after } => {
                let tries = entry.failure.as_ref().map_or(0, |failure| failure.tries).saturating_add(1);
                entry.phase = Phase::Absent;
                entry.bytes = 0;
                entry.failure = Some(Failure { error, tries, retry_at: now + retry_after });
            }
        }
        self.entries.retain(|_, entry| entry.unwanted_since.is_none() || entry.phase != Phase::Absent);
    }

    /// How often a segment failed since it was last good.
    pub(crate) fn tries(&self, id: SegmentId) -> u32 {
        self.entries.get(&id).and_then(|entry| entry.failure.as_ref()).map_or(0, |failure| failure.tries)
    }

    /// Room has become free: what failed for lack of it need not wait.
    fn room_again(&mut self, now: MonoTime) {
        for failure in self.entries.values_mut().filter_map(|entry| entry.failure.as_mut()) {
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
        for (id, segment) in self.doubtful() {
            if slots == 0 {
                return actions;
            }
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
            match self.make_room(&segment) {
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
            if over && matches!(entry.phase, Phase::Held | Phase::Doubtful { .. }) {
                entry.phase = Phase::Leaving;
            } else if entry.phase == Phase::Leaving && !in_use(*id) {
                entry.phase = Phase::Removing;
                actions.push(Action::Remove(*id));
            }
        }
        actions
    }

    /// Makes room for a segment out of what is not wanted any more, oldest first. Nothing wanted ever gives way.
    fn make_room(&mut self, segment: &Wanted) -> Room {
        let used = self.bytes();
        let lack = used.saturating_add(segment.bytes).saturating_sub(self.limits.bytes);
        if lack == 0 {
            return Room::Enough;
        }
        let unwanted = |entry: &Entry| self.told && entry.unwanted_since.is_some() && !entry.phase.works();
        let mut unwanted: Vec<_> = self.entries.iter_mut().filter(|(_, entry)| unwanted(entry)).collect();
        let leaving: u64 = unwanted.iter().map(|(_, entry)| entry.bytes).sum();
        if leaving < lack {
            return Room::None(no_room(segment, self.limits.bytes, used - leaving));
        }
        unwanted.sort_by_key(|(id, entry)| (!entry.phase.goes(), entry.unwanted_since, **id));
        let mut freed = 0;
        for (_, entry) in unwanted {
            if freed >= lack {
                break;
            }
            freed += entry.bytes;
            if !entry.phase.goes() {
                entry.phase = Phase::Leaving;
            }
        }
        Room::Soon
    }

    fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| entry.bytes).sum()
    }

    /// The segments that queries may read now.
    pub(crate) fn served(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.entries.iter().filter(|(_, entry)| entry.phase.served()).map(|(id, _)| *id)
    }

    /// What is to be reported now.
    pub(crate) fn observation(&self) -> Observation {
        let observed = |entry: &Entry| {
            let wanted = entry.unwanted_since.is_none();
            let status = match (&entry.failure, entry.phase.served()) {
                (_, true) => Status::Held,
                (Some(failure), false) => {
                    Status::Failed { error: failure.error.clone(), tries: failure.tries }
                }
                (None, false) if wanted => Status::Fetching,
                (None, false) => return None,
            };
            Some(Observed { status, segment: Arc::clone(entry.segment.as_ref()?), wanted })
        };
        let segments = self.entries.iter().filter_map(|(id, entry)| Some((*id, observed(entry)?))).collect();
        Observation { desired_version: self.version, segments, bytes: self.bytes() }
    }

    /// When, after now, [`Ledger::next`] has something new to say without being told anything; `None`: never. A file
    /// that only waits for its readers has no time of its own.
    pub(crate) fn wake_at(&self, now: MonoTime) -> Option<MonoTime> {
        let retries = self.entries.values().filter(|entry| entry.phase == Phase::Absent);
        let retries = retries.filter_map(|entry| Some(entry.failure.as_ref()?.retry_at));
        let idle = |entry: &&Entry| matches!(entry.phase, Phase::Held | Phase::Doubtful { .. });
        let drops = self.entries.values().filter(idle).filter_map(|entry| entry.unwanted_since);
        let drops = drops.filter(|_| self.told).map(|since| since + self.limits.drop_after);
        retries.chain(drops).filter(|at| *at > now).min()
    }

    /// Whether some file waits for its readers.
    pub(crate) fn leaving(&self) -> bool {
        self.entries.values().any(|entry| entry.phase == Phase::Leaving)
    }
}

enum Room {
    /// There is room now.
    Enough,
    /// There will be when files are removed.
    Soon,
    /// There is none.
    None(Error),
}

fn no_room(segment: &Wanted, limit: u64, used: u64) -> Error {
    let have = limit.saturating_sub(used);
    Error::new(
        ErrorCode::SegmentRequestResourceFailed,
        format!(
            "{segment} needs {} bytes, and the cache has {have} left of its {limit}; raise `node.cache_limit`, or add \
             nodes",
            segment.bytes
        ),
    )
}

#[cfg(test)]
mod tests;
