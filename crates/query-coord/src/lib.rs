//! What the coordinator decides, as pure functions over read-only stores: groups and places of nodes, placement of
//! segments, shard leads, progress and readiness per resource group, promotion of targets, the content of the feed,
//! which options of a collection make sense.
//!
//! The crate knows no database, no wire and no clock: stores and `now` come in, plans and answers come out. The same
//! state always gives the same answer, because nothing here iterates over a hash map.
//!
//! ```
//! use pointsman_query_coord::{ConfigRequest, Stores, create_group};
//!
//! let stores = Stores::default();
//! let wanted = ConfigRequest { requests: Some(2), limits: Some(4), ..ConfigRequest::default() };
//! let (name, config) = create_group(&stores.groups, "east", Some(&wanted), 1024)?.expect("it is new");
//! assert_eq!((name.as_str(), config.requests, config.limits), ("east", 2, 4));
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

pub mod answers;
pub mod balance;
mod changes;
mod coverage;
mod failures;
mod feed;
mod groups;
mod hosted;
mod leads;
mod leaving;
mod loads;
mod loss;
mod options;
mod placement;
mod progress;
mod promotion;
mod pulls;
mod ready;
mod records;
mod removal;
mod show;
mod stores;
mod target;
mod tasks;
mod views;
mod whereabouts;
mod wired;

pub use changes::{Change, Changes, Seen};
pub use failures::Failure;
pub use feed::{collection_change, collection_entry, empty_entry, group_entries, node_entries};
pub use groups::{
    Borrowed, ConfigRequest, GroupChange, GroupConfig, GroupCounts, GroupDescription, GroupMove, GroupWait,
    Groups, Nodes, Recovery, UNLIMITED_NODES, create_group, describe_group, drop_group, group_for, incoming,
    recover, replica_nodes, settle_groups, transfer_nodes, transfer_replicas, update_groups,
};
pub use hosted::{Hosted, Hosts};
pub use leads::{Leads, plan_leads};
pub use leaving::{
    Departure, LastCopies, LastCopy, Leaving, Move, Served, StopLease, departures, last_copies,
};
pub use loads::{
    CollectionFailures, EndedLoad, LoadChange, LoadPlan, LoadRequest, MAX_REPLICAS, NewReplica, Obstacle,
    PartialRelease, ReplicaNumbers, ReplicaRequest, Standstill, check_nodes, newly_visible, plan_load,
    plan_partial_release, plan_replicas, plan_update, present_numbers, recovered, shortfall, standstill,
    timed_out,
};
pub use loss::LossGuard;
pub use options::lawful_options;
pub(crate) use placement::{Glance, Seats, copies_of};
pub use placement::{
    Placement, PlacementRules, Rebalanced, Wish, copies, copies_on, place, rebalance, settled, wish,
};
pub use progress::{CarriedCounts, Round, observe};
pub use promotion::{NextStep, next_step, retains, wished_view};
pub use pulls::Pulls;
pub use ready::{data_ready, finished_replicas, is_serviceable, serves_alone};
pub use records::{NodeRecord, ResourceGroup};
pub use removal::may_remove;
pub use show::{CopyFailure, GroupProgress, LoadPhase, LoadProgress, show_load};
pub use stores::{
    CatalogSegment, CollectionStore, Distribution, DroppedGroup, FailedLoad, FailedLoads, KnownNode,
    KnownNodes, LeaderReport, LeaderView, LoadKind, LoadRecord, LoadStatus, Observation, PartitionLoad,
    Registrations, Replica, Replicas, Scope, SegmentReport, SessionState, Stores, Target, TargetSegment,
    TargetShard, Targets, elected,
};
pub use target::{Pulled, joined_by, new_partitions, pull};
pub use tasks::Tasks;
pub use views::{Lead, LeadWishes, lead_wishes};
pub use whereabouts::{NodeIndex, Row, Slot, Whereabouts};
pub use wired::{Snapshot, Wired};
