//! How a broker would route a collection, as its `/debug/routing` page says.

use serde::Deserialize;

/// Routing of one collection.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Routing {
    /// `not_loaded`, `loading` or `serving`.
    pub(crate) load: String,
    /// How far the load is.
    pub(crate) percent: u32,
    /// The segments that the broker knows.
    pub(crate) segments: Vec<RoutedSegment>,
}

/// A segment and the nodes that may be asked for it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RoutedSegment {
    /// Its name.
    pub(crate) segment: String,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Debug, Deserialize)]
struct Candidate {
    /// State of the copy as its node reports it; absent: not at all.
    observed: Option<String>,
    /// Whether queries may go to the node.
    routable: bool,
}

impl RoutedSegment {
    /// Whether some node holds it and may be asked.
    pub(crate) fn can_be_asked(&self) -> bool {
        let serves = |state: &str| matches!(state, "online" | "consuming");
        self.candidates.iter().any(|copy| copy.routable && copy.observed.as_deref().is_some_and(serves))
    }
}
