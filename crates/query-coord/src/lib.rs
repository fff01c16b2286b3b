//! What the coordinator decides, as pure functions over read-only stores: groups and places of nodes, placement of
//! segments, shard leads, progress and readiness per resource group, promotion of targets, the content of the feed,
//! which options of a collection make sense.
//!
//! The crate knows no database, no wire and no clock: stores and `now` come in, plans and answers come out. The same
//! state always gives the same answer, because nothing here iterates over a hash map.
//!
//! ```
//! use pointsman_ids::{GroupName, NodeName};
//! use pointsman_query_coord::{Stores, group_for};
//!
//! let stores = Stores::default();
//! let group = group_for(&stores.groups, &NodeName::new("n1")?, None)?;
//! assert_eq!(group.as_str(), GroupName::DEFAULT);
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod coverage;
mod feed;
mod groups;
mod leads;
mod loss;
mod options;
mod placement;
mod progress;
mod records;
mod removal;
mod show;
mod stores;
mod target;

pub use coverage::{holds_all, serves_shard};
pub use feed::{collection_entry, group_entries, node_entries};
pub use groups::{group_for, replica_nodes};
pub use leads::{Leads, plan_leads};
pub use loss::LossGuard;
pub use options::lawful_options;
pub use placement::{Copies, Placement, copies, place, settled};
pub use progress::{collection_percent, finished_replicas, replica_percent};
pub use records::{LoadRecord, LoadStatus, NodeRecord, Replica, ResourceGroup, Target};
pub use removal::may_remove;
pub use show::{CopyFailure, GroupProgress, LoadProgress, show_load};
pub use stores::{
    CatalogSegment, CollectionStore, Failure, Observation, SegmentReport, SessionState, Stores,
};
pub use target::{next_target, promotable};
