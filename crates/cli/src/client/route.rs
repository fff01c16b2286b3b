//! A routing table with its reasons, as a broker's `/debug/route` page says.

use serde::Deserialize;
use serde_json::Value;

/// What the page says.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Routes {
    /// One table per collection that is read.
    pub(crate) scans: Vec<Table>,
}

/// The routing table of one collection.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) collection: String,
    /// How its replicas are chosen.
    pub(crate) selector: String,
    /// What chose among equals.
    pub(crate) request_id: u64,
    /// Clusters that it spans and of which the broker knows nothing.
    pub(crate) not_connected: Vec<String>,
    /// Every segment, in the order of the request.
    pub(crate) segments: Vec<Explained>,
}

/// Why a segment is answered for as it is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Explained {
    /// Its name.
    pub(crate) segment: String,
    /// Whose part of the collection it is.
    pub(crate) cluster: String,
    /// `served`, `fail_open`, `optional`, `unavailable`, or why it was left out.
    pub(crate) outcome: String,
    /// The node that answers; absent: none.
    pub(crate) node: Option<String>,
    /// The rule that chose, or why nobody was chosen.
    pub(crate) rule: String,
    /// All that should hold it or do, by name.
    pub(crate) candidates: Vec<Candidate>,
}

/// A node that might answer for a segment.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Candidate {
    /// Its name.
    pub(crate) node: String,
    /// Number of its resource group; absent: none.
    pub(crate) pool: Option<i32>,
    /// Name of the group of its replica; absent: none.
    pub(crate) group: Option<String>,
    /// Its score in adaptive selection; absent: none.
    pub(crate) score: Option<f64>,
    /// What ruled it out; absent: nothing, it was chosen.
    pub(crate) ruled_out: Option<String>,
}

/// What the page says of what it does not know.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refused {
    /// The broker's error.
    pub(crate) error: RefusedError,
    /// Names that it knows instead.
    #[serde(default)]
    pub(crate) known: Vec<String>,
}

/// An error as the broker's pages show it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RefusedError {
    /// Its number.
    pub(crate) code: u32,
    /// Text for people.
    pub(crate) message: String,
}

impl Explained {
    /// Nobody may answer for it, though somebody should.
    pub(crate) fn is_missing(&self) -> bool {
        self.outcome == "unavailable"
    }
}

/// The page as it came, for people who want all of it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The text.
    pub(crate) json: Value,
    /// What it means.
    pub(crate) routes: Routes,
}
