//! The shard leaders that a broker knows, as its `/debug/shards` page says.

use serde::Deserialize;

use super::route::RefusedError;

/// What the page says of a collection.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Leaders {
    /// The broker has asked for them and was not told to forget them since.
    pub(crate) cached: bool,
    /// Every shard, by name.
    pub(crate) shards: Vec<Shard>,
}

/// A shard.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Shard {
    /// Its name.
    pub(crate) shard: String,
    /// Who leads it.
    pub(crate) leaders: Vec<Leader>,
    /// Nodes that are avoided for it and do not lead it now.
    pub(crate) avoided_besides: Vec<Avoided>,
}

/// A leader, and what speaks against it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Leader {
    /// Its number.
    pub(crate) node_id: u64,
    /// Its name; absent: not known to the routing.
    pub(crate) node: Option<String>,
    /// Resource group of its replica; absent: not known.
    pub(crate) group: Option<String>,
    /// It can answer for the shard.
    pub(crate) serviceable: bool,
    /// `routable`, `excluded` or `disabled`.
    pub(crate) standing: String,
    /// Why the failure detector excluded it.
    pub(crate) excluded_because: Option<String>,
    /// How long it is avoided for the shard, milliseconds; absent: it is not.
    pub(crate) avoided_for_ms: Option<u64>,
    /// Vectors or keys that it works on for this broker.
    pub(crate) executing: i64,
    /// Its score at the balancer, lower is better; absent: none.
    pub(crate) score: Option<i64>,
    /// Health checks fail.
    pub(crate) unavailable: bool,
}

/// A node that is avoided.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Avoided {
    /// Its number.
    pub(crate) node_id: u64,
    /// How long, milliseconds.
    pub(crate) avoided_for_ms: u64,
}

/// What the page says of what it does not know.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refused {
    /// The broker's error.
    pub(crate) error: RefusedError,
}
