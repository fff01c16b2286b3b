//! What is asked of the rows of a collection by shard, and the indexes that help.

use std::{fmt, ops::AddAssign, str::FromStr};

use crate::{
    CollectionName, Error, ErrorCode,
    catalog::{Column, Value},
    feed::CollectionEntry,
};

/// How far apart two vectors are. Smaller is nearer, with every metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// The square of the Euclidean distance.
    #[default]
    L2,
    /// The inner product, negated.
    InnerProduct,
    /// One minus the cosine of the angle, 0 to 2; 1 to a vector of length 0.
    Cosine,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::L2, Self::InnerProduct, Self::Cosine];

    /// The word for people and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "inner_product",
            Self::Cosine => "cosine",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Metric {
    type Err = Error;

    /// # Errors
    /// `parameter_invalid` naming those that there are.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|metric| metric.as_str() == text).ok_or_else(|| {
            let text = text.escape_debug();
            Error::new(
                ErrorCode::ParameterInvalid,
                format!("there is no metric '{text}'; there are l2, inner_product and cosine"),
            )
        })
    }
}

/// An index over the vectors of a column, built for each segment where it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorIndex {
    /// The column.
    pub column: String,
    /// The metric that it serves; searches by another one are exact.
    pub metric: Metric,
}

/// What a question is about: a collection as far as its rows are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name of the collection; for messages.
    pub collection: CollectionName,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The column that is its key.
    pub key: Option<String>,
    /// Its indexes.
    pub indexes: Vec<VectorIndex>,
}

impl From<&CollectionEntry> for Table {
    fn from(entry: &CollectionEntry) -> Self {
        Self {
            collection: entry.name.clone(),
            columns: entry.columns.clone(),
            key: entry.key.clone(),
            indexes: entry.vector_indexes.clone(),
        }
    }
}

/// What was looked at for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Segments.
    pub segments: u64,
    /// Those of them that an index answered for.
    pub indexed_segments: u64,
    /// Rows that were read.
    pub rows: u64,
}

impl AddAssign for Looked {
    fn add_assign(&mut self, other: Self) {
        self.segments = self.segments.saturating_add(other.segments);
        self.indexed_segments = self.indexed_segments.saturating_add(other.indexed_segments);
        self.rows = self.rows.saturating_add(other.rows);
    }
}

/// A question to the rows of a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The nearest vectors.
    Search(Search),
    /// Rows by key.
    Get(Get),
    /// Rows by condition.
    Query(Query),
}

impl Question {
    /// Vectors or keys that it brings, the measure of its work for balancers; at least 1.
    pub fn nq(&self) -> usize {
        let nq = match self {
            Self::Search(search) => search.vectors.len(),
            Self::Get(get) => get.keys.len(),
            Self::Query(_) => 1,
        };
        nq.max(1)
    }
}

/// For each vector, the rows whose vectors are nearest to it: by distance, equal ones by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// The column to search; `None`: the only one that holds vectors.
    pub column: Option<String>,
    /// Vectors to compare with.
    pub vectors: Vec<Vec<f32>>,
    /// Rows per vector.
    pub k: u32,
    /// `None`: that of the column's index, or L2 without one.
    pub metric: Option<Metric>,
    /// Condition in SQL that rows have to meet.
    pub filter: Option<String>,
    /// Columns of the answer; none: the key, if the collection has one.
    pub columns: Vec<String>,
    /// Look at every vector, whatever index there is.
    pub exact: bool,
    /// How many rows an index looks at closely per segment and vector; `None`: a default. Never less than `k`.
    pub candidates: Option<u32>,
}

/// Rows by key, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Get {
    /// Keys to look for.
    pub keys: Vec<Value>,
    /// Columns of the answer; none: all.
    pub columns: Vec<String>,
}

/// Rows that meet a condition, by key where the collection has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Condition in SQL; `None`: every row.
    pub filter: Option<String>,
    /// Columns of the answer; none: all.
    pub columns: Vec<String>,
    /// Most rows of the answer.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_read_back() {
        for metric in Metric::ALL {
            assert_eq!(metric.as_str().parse(), Ok(metric));
        }
        let error = "euclid".parse::<Metric>().unwrap_err();
        assert!(error.message().contains("'euclid'") && error.message().contains("cosine"), "{error}");
    }
}
