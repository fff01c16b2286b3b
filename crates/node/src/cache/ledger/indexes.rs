//! The index files of one segment: what should be there, what is, and what is to be done about it.

use std::collections::BTreeMap;

use pointsman_clock::MonoTime;

use super::entry::Failure;
use crate::cache::{
    index::{IndexName, WantedIndex},
    segment::{ObservedIndex, Wanted},
};

/// What an index takes per row, about, before it is built and that is known: links to some 32 neighbours, and some more
/// on its upper levels.
const BYTES_PER_ROW: u64 = 160;

/// Where an index's file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A file that nobody has looked at.
    Found,
    /// Checked, or built here.
    Ready,
    /// Being built.
    Building,
    /// Not read any more; removed when no query has it in hand.
    Leaving,
    /// Being removed.
    Removing,
}

#[derive(Clone, Copy, Debug)]
struct IndexFile {
    state: State,
    /// On disk, or promised to a build.
    bytes: u64,
}

/// The index files of a segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    wanted: BTreeMap<IndexName, WantedIndex>,
    files: BTreeMap<IndexName, IndexFile>,
    /// Why the last build failed.
    pub(super) failure: Option<Failure>,
}

impl Indexes {
    /// Files that an earlier process left, with their lengths.
    pub(super) fn found(files: BTreeMap<IndexName, u64>) -> Self {
        let file = |(name, bytes)| (name, IndexFile { state: State::Found, bytes });
        Self { files: files.into_iter().map(file).collect(), ..Self::default() }
    }

    /// Takes a wish.
    pub(super) fn want(&mut self, segment: &Wanted) {
        let named = segment.indexes.iter().map(|index| (IndexName::of(segment, index), index.clone()));
        let wanted: BTreeMap<_, _> = named.collect();
        if wanted != self.wanted {
            self.wanted = wanted;
            self.failure = None;
        }
        for name in self.wanted.keys() {
            if let Some(file) = self.files.get_mut(name)
                && file.state == State::Leaving
            {
                file.state = State::Found;
            }
        }
    }

    /// Its segment was verified, and of its index files these were good.
    pub(super) fn checked(&mut self, good: &BTreeMap<IndexName, u64>) {
        let wanted = &self.wanted;
        self.files.retain(|name, file| {
            let was_looked_at =
                matches!(file.state, State::Found | State::Ready) && wanted.contains_key(name);
            !was_looked_at || good.contains_key(name)
        });
        for (name, bytes) in good {
            let file = self.files.entry(*name).or_insert(IndexFile { state: State::Found, bytes: *bytes });
            if file.state == State::Found {
                *file = IndexFile { state: State::Ready, bytes: *bytes };
            }
        }
    }

    /// A file that is ready is not to be used: another one is built in its place.
    pub(super) fn suspect(&mut self, name: IndexName) {
        if let Some(file) = self.files.get_mut(&name)
            && file.state == State::Ready
        {
            file.state = State::Found;
        }
    }

    /// The next index to build, with about what it will take.
    pub(super) fn to_build(&self, now: MonoTime, rows: u64) -> Option<(IndexName, u64)> {
        let due = self.failure.as_ref().is_none_or(|failure| failure.retry_at <= now);
        let missing = |name: &&IndexName| self.files.get(*name).is_none_or(|file| file.state == State::Found);
        let name = self.wanted.keys().find(missing).filter(|_| due)?;
        Some((*name, rows.saturating_mul(BYTES_PER_ROW)))
    }

    /// A build begins.
    pub(super) fn build(&mut self, name: IndexName, bytes: u64) {
        self.files.insert(name, IndexFile { state: State::Building, bytes });
    }

    /// A build went well.
    pub(super) fn built(&mut self, name: IndexName, bytes: u64) {
        self.files.insert(name, IndexFile { state: State::Ready, bytes });
        self.failure = None;
    }

    /// There is no such file.
    pub(super) fn gone(&mut self, name: IndexName) {
        self.files.remove(&name);
    }

    /// There is no file at all.
    pub(super) fn all_gone(&mut self) {
        self.files.clear();
    }

    /// Files that are not wanted are let go, and given to be removed once nobody reads them.
    pub(super) fn removals(&mut self, in_use: impl Fn() -> bool) -> Vec<IndexName> {
        let mut removals = vec![];
        for (name, file) in &mut self.files {
            if self.wanted.contains_key(name) {
                continue;
            }
            match file.state {
                State::Found | State::Ready => file.state = State::Leaving,
                State::Leaving if !in_use() => {
                    file.state = State::Removing;
                    removals.push(*name);
                }
                State::Leaving | State::Building | State::Removing => {}
            }
        }
        removals
    }

    /// Those being built; with `unwanted` only those that the wish does not name.
    pub(super) fn building(&self, unwanted: bool) -> impl Iterator<Item = IndexName> + '_ {
        let files = self.files.iter().filter(|(_, file)| file.state == State::Building);
        files.map(|(name, _)| *name).filter(move |name| !unwanted || !self.wanted.contains_key(name))
    }

    /// Those that queries may read.
    pub(super) fn ready(&self) -> impl Iterator<Item = (IndexName, &WantedIndex, u64)> {
        self.wanted.iter().filter_map(|(name, index)| {
            let file = self.files.get(name).filter(|file| file.state == State::Ready)?;
            Some((*name, index, file.bytes))
        })
    }

    /// Whether everything that is wanted is there.
    pub(super) fn complete(&self) -> bool {
        self.ready().count() == self.wanted.len()
    }

    /// All files.
    pub(super) fn names(&self) -> Vec<IndexName> {
        self.files.keys().copied().collect()
    }

    /// Whether there are no files.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether some file waits for its readers.
    pub(super) fn leaving(&self) -> bool {
        self.files.values().any(|file| file.state == State::Leaving)
    }

    /// Bytes of all files, those promised to builds included.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    /// What is to be shown of them.
    pub(super) fn observed(&self) -> Vec<ObservedIndex> {
        let observed = |(name, index): (&IndexName, &WantedIndex)| {
            let file = self.files.get(name);
            let state = match file.map(|file| file.state) {
                Some(State::Ready) => "ready",
                Some(State::Building) => "building",
                _ => "missing",
            };
            ObservedIndex { index: index.clone(), state, bytes: file.map_or(0, |file| file.bytes) }
        };
        self.wanted.iter().map(observed).collect()
    }
}
