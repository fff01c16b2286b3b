//! One segment in the book.

use std::sync::Arc;

use pointsman_clock::MonoTime;
use pointsman_ids::Error;

use super::indexes::Indexes;
use crate::cache::segment::Wanted;

/// Where a segment's file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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
    pub(super) fn served(self) -> bool {
        matches!(self, Self::Held | Self::Doubtful { served: true } | Self::Verifying { served: true })
    }

    pub(super) fn works(self) -> bool {
        matches!(self, Self::Verifying { .. } | Self::Fetching)
    }

    pub(super) fn goes(self) -> bool {
        matches!(self, Self::Leaving | Self::Removing)
    }
}

/// How the last try ended.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) tries: u32,
    pub(super) retry_at: MonoTime,
}

/// One segment.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The wish, or the last one. `None`: a file of an earlier process that no wish has named yet.
    pub(super) segment: Option<Arc<Wanted>>,
    pub(super) phase: Phase,
    /// Bytes on disk, or promised to a fetch.
    pub(super) bytes: u64,
    pub(super) failure: Option<Failure>,
    /// `Some`: not in the desired state, since then.
    pub(super) unwanted_since: Option<MonoTime>,
    /// When the file was last found good.
    pub(super) verified_at: Option<MonoTime>,
    /// Its index files.
    pub(super) indexes: Indexes,
    /// Whether it has had all of its indexes once. From then on it is served also while others are built.
    pub(super) complete: bool,
}

impl Entry {
    pub(super) fn new(phase: Phase) -> Self {
        Self {
            segment: None,
            phase,
            bytes: 0,
            failure: None,
            unwanted_since: None,
            verified_at: None,
            indexes: Indexes::default(),
            complete: false,
        }
    }

    pub(super) fn served(&self) -> bool {
        self.complete && self.phase.served()
    }

    /// Neither is it wanted nor is anything of it on disk.
    pub(super) fn is_nothing(&self) -> bool {
        self.unwanted_since.is_some() && self.phase == Phase::Absent && self.indexes.is_empty()
    }

    /// Whether there is a file that nothing is done with, or only index files.
    pub(super) fn idles(&self) -> bool {
        matches!(self.phase, Phase::Held | Phase::Doubtful { .. })
            || (self.phase == Phase::Absent && !self.indexes.is_empty())
    }

    /// Whether something writes to its files.
    pub(super) fn works(&self) -> bool {
        self.phase.works() || self.indexes.building(false).next().is_some()
    }

    /// Bytes of all of its files.
    pub(super) fn total(&self) -> u64 {
        self.bytes.saturating_add(self.indexes.bytes())
    }

    pub(super) fn absent(&mut self) {
        (self.phase, self.bytes, self.complete) = (Phase::Absent, 0, false);
    }

    /// Looks whether it has everything now.
    pub(super) fn settle(&mut self) {
        self.complete |= self.phase == Phase::Held && self.indexes.complete();
    }

    /// Why it is not as it should be.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref().or(self.indexes.failure.as_ref())
    }
}
