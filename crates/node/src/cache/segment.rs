//! Segments as the cache knows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use pointsman_ids::{Error, SegmentId, catalog::Checksum};
use pointsman_proto::node::v1 as pb;
use serde::{Deserialize, Serialize};

use super::index::WantedIndex;

/// A segment that the node should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Its number.
    pub(crate) id: u64,
    /// Name of its collection, for messages.
    pub(crate) collection: String,
    /// Its name, for messages.
    pub(crate) name: String,
    /// Path of the object, relative to the root of the object store.
    pub(crate) object: String,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// `blake3:` and 64 hexadecimal digits. A text, so that one that does not parse is a failure of its segment alone.
    pub(crate) checksum: String,
    /// Number of rows; 0 in a wish that was stored before there were indexes.
    #[serde(default)]
    pub(crate) rows: u64,
    /// Indexes over its vectors, built before it counts as held.
    #[serde(default)]
    pub(crate) indexes: Vec<WantedIndex>,
}

impl Wanted {
    /// Its number.
    pub(crate) fn id(&self) -> SegmentId {
        SegmentId(self.id)
    }

    /// The checksum that the file must have.
    pub(crate) fn sum(&self) -> Result<Checksum, Error> {
        self.checksum.parse().map_err(|error: Error| error.context(self))
    }

    /// Whether both are about the same bytes.
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.checksum == other.checksum
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment '{}/{}' ({})", self.collection, self.name, self.id)
    }
}

impl From<pb::DesiredSegment> for Wanted {
    fn from(segment: pb::DesiredSegment) -> Self {
        Self {
            id: segment.segment_id,
            collection: segment.collection,
            name: segment.name,
            object: segment.object,
            bytes: segment.bytes,
            checksum: segment.checksum,
            rows: segment.rows,
            indexes: segment.indexes.into_iter().map(Into::into).collect(),
        }
    }
}

/// The node's whole wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// Grows with every change.
    pub(crate) version: u64,
    /// What to hold.
    pub(crate) segments: Vec<Arc<Wanted>>,
}

impl From<pb::DesiredState> for Desired {
    fn from(state: pb::DesiredState) -> Self {
        let segments = state.segments.into_iter().map(|segment| Arc::new(segment.into())).collect();
        Self { version: state.version, segments }
    }
}

impl Desired {
    /// The wish after a message, which is whole or says what changed; `None` if that is a change of another wish.
    pub(crate) fn told(before: Option<&Self>, state: pb::DesiredState) -> Option<Self> {
        let Some(version) = state.before else { return Some(state.into()) };
        let before = before.filter(|before| before.version == version)?;
        let removed: BTreeSet<u64> = state.removed.iter().copied().collect();
        let changed = Self::from(state);
        let named: BTreeSet<u64> = changed.segments.iter().map(|segment| segment.id).collect();
        let stays = |segment: &&Arc<Wanted>| !removed.contains(&segment.id) && !named.contains(&segment.id);
        let segments = before.segments.iter().filter(stays).cloned().chain(changed.segments).collect();
        Some(Self { version: changed.version, segments })
    }
}

/// What is reported of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Being fetched or verified for the first time, or its indexes being built.
    Fetching,
    /// Verified and served.
    Held,
    /// The last try failed; another one follows.
    Failed {
        /// Why.
        error: Error,
        /// How often it was tried.
        tries: u32,
    },
}

impl Status {
    /// The word for people and metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Fetching => "fetching",
            Self::Held => "held",
            Self::Failed { .. } => "failed",
        }
    }
}

/// An index of a segment, with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedIndex {
    /// What it is.
    pub(crate) index: WantedIndex,
    /// `ready`, `building` or `missing`.
    pub(crate) state: &'static str,
    /// Length of its file, as far as it is known.
    pub(crate) bytes: u64,
}

/// A segment with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Its state.
    pub(crate) status: Status,
    /// What it is; the last wish when it is not wanted any more.
    pub(crate) segment: Arc<Wanted>,
    /// Whether the desired state names it.
    pub(crate) wanted: bool,
    /// Its indexes.
    pub(crate) indexes: Vec<ObservedIndex>,
}

/// Everything that the node says of its segments at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Version of the desired state that this answers, as read in this process; 0: none.
    pub(crate) desired_version: u64,
    /// Every segment in any state.
    pub(crate) segments: BTreeMap<SegmentId, Observed>,
    /// Bytes of files, those being fetched or built included.
    pub(crate) bytes: u64,
    /// The part of that which indexes take.
    pub(crate) index_bytes: u64,
}

impl Observation {
    /// Number of segments in the desired state.
    pub(crate) fn wanted(&self) -> usize {
        self.segments.values().filter(|observed| observed.wanted).count()
    }

    /// Number of segments in a state.
    pub(crate) fn count(&self, word: &str) -> usize {
        self.segments.values().filter(|observed| observed.status.as_str() == word).count()
    }
}
