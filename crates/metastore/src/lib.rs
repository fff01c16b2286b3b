//! What must survive a crash of everything: catalog, resource groups, nodes, loads, current targets, and the lease of
//! the active coordinator.
//!
//! One trait per aggregate, and [`Metastore`] for all of them. Two implementations stand behind one URL:
//! `postgres://...` and `sqlite:path`. Every write is one transaction and carries the epoch of the writer's lease;
//! a write with an older epoch than the database knows is refused as [`Error::Fenced`] and changes nothing.

mod error;
mod open;
mod traits;

pub use error::{Error, Result};
pub use open::{OpenOptions, open};
pub use traits::{
    CatalogStore, GroupStore, Lease, LeaseOutcome, LeaseStore, LoadStore, Metastore, NewCollection, NewGroup, NewReplica,
    NodeStore, PushOutcome, SharedMetastore,
};
