//! Values of the catalog: what collections and segments are, independent of where they are loaded.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
    time::Duration,
};

use crate::{
    ClusterName, CollectionId, CollectionName, Error, ErrorCode, NodeName, PartitionName, SegmentId,
    SegmentName, ShardName, request::VectorIndex,
};

/// One column of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's name as SQL sees it.
    pub name: String,
    /// Arrow's text form of the type, such as `Int64`, `Utf8View` or `Decimal128(15, 2)`.
    pub data_type: String,
    /// Whether rows may have no value.
    pub nullable: bool,
}

/// How the broker chooses among the replicas of a collection's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorKind {
    /// Every segment takes the next of its candidates in turn.
    #[default]
    Balanced,
    /// One index into each segment's candidates per request.
    ReplicaGroup,
    /// As `ReplicaGroup`, and a node with a gap is out for its whole assignment group.
    StrictReplicaGroup,
    /// Whole replica groups per placement partition.
    MultiStageReplicaGroup,
}

impl SelectorKind {
    /// The word in settings and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::ReplicaGroup => "replica_group",
            Self::StrictReplicaGroup => "strict_replica_group",
            Self::MultiStageReplicaGroup => "multi_stage_replica_group",
        }
    }
}

/// How nodes are chosen for the segments of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutingOptions {
    /// How replicas are chosen.
    pub selector: SelectorKind,
    /// Two replicas are never mixed: a node that lacks one segment is out for its whole assignment group. Always so
    /// with `strict_replica_group`; else only with `replica_group`.
    pub consistent_replicas: bool,
    /// All requests take the same replicas while these can answer.
    pub fixed_replica: bool,
    /// The collection never fails open, whatever the broker says.
    pub fail_closed: bool,
    /// Named parts of the collection that a request may ask for instead of the whole.
    pub samplers: Vec<Sampler>,
    /// Placement partition to its replica groups, each a list of nodes; for `multi_stage_replica_group` alone.
    pub replica_groups: BTreeMap<u32, Vec<Vec<NodeName>>>,
}

/// A named part of a collection: the first segments by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Trimmed and lower-cased where it is used.
    pub name: String,
    /// How many segments it keeps.
    pub first_n: u64,
}

/// What the creator of a collection decides about its routing and layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionOptions {
    /// Number of shards; at least 1.
    pub shards: u32,
    /// How nodes are chosen for its segments.
    pub routing: RoutingOptions,
    /// Clusters that it spans; empty: this one alone.
    pub clusters: Vec<ClusterName>,
    /// Deadline of queries on this collection; `None`: the broker's own.
    pub query_timeout: Option<Duration>,
    /// Whether queries also see segments of the next target, as they are loaded. Without, all of them appear together, by
    /// promotion.
    pub serve_before_promotion: bool,
    /// The column whose values name rows: for requests by key, and for the order of rows that are equal otherwise.
    pub key: Option<String>,
    /// Indexes over vectors, at most one per column.
    pub vector_indexes: Vec<VectorIndex>,
}

impl Default for CollectionOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            routing: RoutingOptions::default(),
            clusters: Vec::new(),
            query_timeout: None,
            serve_before_promotion: false,
            key: None,
            vector_indexes: Vec::new(),
        }
    }
}

/// A collection as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Its number.
    pub id: CollectionId,
    /// Its name.
    pub name: CollectionName,
    /// Its columns, in order; never empty.
    pub columns: Vec<Column>,
    /// Choices of its creator.
    pub options: CollectionOptions,
    /// When it was created, nanoseconds since the Unix epoch.
    pub created_at: u64,
}

/// Name of shard `index` (from 0).
pub fn shard_name(index: u32) -> ShardName {
    ShardName::new(&format!("shard-{index}")).unwrap_or_else(|_| unreachable!("digits make a lawful name"))
}

/// A segment before the catalog gave it a number: what a push names.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSegment {
    /// Unique inside the collection.
    pub name: SegmentName,
    /// The partition it belongs to; created with its first segment.
    pub partition: PartitionName,
    /// The shard it belongs to; `None`: by hash of its name.
    pub shard: Option<ShardName>,
    /// Path inside the object store, relative to its root.
    pub object: String,
    /// Number of rows.
    pub rows: u64,
    /// Length of the object in bytes.
    pub bytes: u64,
    /// Checksum of the object.
    pub checksum: Checksum,
    /// Statistics by column; columns without an entry are unknown.
    pub statistics: BTreeMap<String, ColumnStatistics>,
}

/// A segment of the catalog. Immutable.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// Its collection.
    pub collection: CollectionId,
    /// Its shard.
    pub shard: ShardName,
    /// When it was pushed, nanoseconds since the Unix epoch.
    pub created_at: u64,
    /// What the push said. Its `shard` repeats the field above.
    pub content: NewSegment,
}

/// BLAKE3 of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum(pub [u8; 32]);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
        f.write_str("blake3:")?;
        self.0.iter().try_for_each(|byte| {
            f.write_char(digit(byte >> 4))?;
            f.write_char(digit(byte & 15))
        })
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Checksum {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || {
            Error::new(
                ErrorCode::ParameterInvalid,
                format!("'{}' is not a checksum (blake3: and 64 hexadecimal digits)", text.escape_debug()),
            )
        };
        let hex = text.strip_prefix("blake3:").filter(|hex| hex.len() == 64 && hex.is_ascii());
        let hex = hex.ok_or_else(refuse)?;
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| refuse())?;
        }
        Ok(Self(bytes))
    }
}

/// Exact statistics of one column in one segment. `None` means unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStatistics {
    /// Rows without a value.
    pub nulls: Option<u64>,
    /// The smallest value; `None` also when every row is null.
    pub min: Option<Value>,
    /// The largest value; `None` also when every row is null.
    pub max: Option<Value>,
}

/// A bound of a column's values, in the physical form of the column's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A truth value.
    Boolean(bool),
    /// Integers, dates (days), times and timestamps (in the type's unit), decimals (unscaled).
    Integer(i128),
    /// Floating point, never NaN.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_read_back() {
        let sum = Checksum([0xa5; 32]);
        assert_eq!(sum.to_string().parse(), Ok(sum));
        for text in ["", "blake3:", "blake3:zz", "md5:00", &format!("blake3:{}", "é".repeat(32))] {
            assert!(text.parse::<Checksum>().is_err(), "{text}");
        }
    }
}
