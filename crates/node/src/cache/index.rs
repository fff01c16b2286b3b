//! Indexes over the vectors of a segment, as the cache knows them.

use std::fmt;

use pointsman_ids::{Error, request::VectorIndex};
use pointsman_proto::common::v1 as pb;
use serde::{Deserialize, Serialize};

use super::segment::Wanted;

/// An index that a segment should have. In words, so that one that is not known here is a failure of its segment alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WantedIndex {
    /// The column.
    pub(crate) column: String,
    /// The metric.
    pub(crate) metric: String,
}

impl WantedIndex {
    /// What to build.
    ///
    /// # Errors
    /// `parameter_invalid` for a metric that is not known here.
    pub(crate) fn index(&self) -> Result<VectorIndex, Error> {
        Ok(VectorIndex { column: self.column.clone(), metric: self.metric.parse()? })
    }
}

impl From<pb::VectorIndex> for WantedIndex {
    fn from(index: pb::VectorIndex) -> Self {
        let (column, number) = (index.column.clone(), index.metric);
        let metric = VectorIndex::try_from(index).map(|index| index.metric.to_string());
        Self { column, metric: metric.unwrap_or_else(|_| number.to_string()) }
    }
}

impl fmt::Display for WantedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the index over '{}' by {}", self.column, self.metric)
    }
}

/// Tells the files of a segment's indexes apart: the same for the same content, column and metric, and for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IndexName([u8; 16]);

impl IndexName {
    /// The name of an index of a segment.
    pub(crate) fn of(segment: &Wanted, index: &WantedIndex) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [&segment.checksum, &index.column, &index.metric] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut name = [0; 16];
        hasher.finalize_xof().fill(&mut name);
        Self(name)
    }

    /// Reads what `Display` writes; `None` for anything else.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let name = Self(u128::from_str_radix(text, 16).ok()?.to_be_bytes());
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(checksum: &str) -> Wanted {
        Wanted { id: 1, checksum: checksum.into(), ..Wanted::default() }
    }

    fn index(column: &str, metric: &str) -> WantedIndex {
        WantedIndex { column: column.into(), metric: metric.into() }
    }

    #[test]
    fn another_content_column_or_metric_has_another_name() {
        let name = IndexName::of(&wanted("a"), &index("v", "l2"));
        assert_eq!(name, IndexName::of(&wanted("a"), &index("v", "l2")));
        for (sum, column, metric) in
            [("b", "v", "l2"), ("a", "w", "l2"), ("a", "v", "cosine"), ("av", "", "l2")]
        {
            assert_ne!(name, IndexName::of(&wanted(sum), &index(column, metric)));
        }
    }

    #[test]
    fn a_name_reads_back_and_nothing_else_does() {
        let name = IndexName::of(&wanted("a"), &index("v", "l2"));
        assert_eq!(IndexName::read(&name.to_string()), Some(name));
        for text in ["", "7", "+0000000000000000000000000000001", &name.to_string()[1..], "x"] {
            assert_eq!(IndexName::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_metric_that_is_not_known_here_fails_when_it_is_built() {
        let known = WantedIndex::from(pb::VectorIndex { column: "v".into(), metric: 3 });
        assert_eq!(known, index("v", "cosine"));
        let unknown = WantedIndex::from(pb::VectorIndex { column: "v".into(), metric: 77 });
        assert!(unknown.index().unwrap_err().message().contains("'77'"));
    }
}
