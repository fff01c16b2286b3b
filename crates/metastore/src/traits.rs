//! The metastore by aggregate.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use pointsman_ids::{
    CollectionId, CollectionName, Epoch, GroupName, Incarnation, NodeName, SegmentId,
    catalog::{Collection, CollectionOptions, Column, NewSegment, Segment},
};
use pointsman_query_coord::{
    CollectionFailures, GroupChange, GroupConfig, LoadChange, LoadRecord, NodeRecord, Replica, ResourceGroup,
    Target,
};

use crate::{ChangeStore, Result};

/// Everything that a coordinator stores.
pub trait Metastore:
    LeaseStore + CatalogStore + ChangeStore + GroupStore + NodeStore + LeavingStore + LoadStore + ConfigStore
{
}

impl<T> Metastore for T where
    T: LeaseStore
        + CatalogStore
        + ChangeStore
        + GroupStore
        + NodeStore
        + LeavingStore
        + LoadStore
        + ConfigStore
{
}

/// A shared metastore.
pub type SharedMetastore = Arc<dyn Metastore>;

/// A lease that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Fencing epoch of the holder.
    pub epoch: Epoch,
    /// Who holds it.
    pub holder: String,
}

/// What came of trying to take the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// It is ours until it ends, unless renewed.
    Taken(Lease),
    /// It is ours, from another server than the one that gave it last, or from another timeline of it, as after a
    /// failover: the newest changes may be lost. The epoch is far above the stored one, and so are all numbers that are
    /// given from now on.
    Moved {
        /// The lease.
        lease: Lease,
        /// The server that gave it last.
        before: String,
        /// The one that gave it now.
        now: String,
    },
    /// Somebody else holds it.
    Held {
        /// Who.
        holder: String,
        /// How long it lasts unless renewed, by the database's clock.
        remaining: Duration,
    },
}

/// The lease of the active coordinator: one row with an epoch, taken and renewed in short transactions, by the
/// database's clock.
#[async_trait]
pub trait LeaseStore: Send + Sync + Debug {
    /// Takes the lease when it is free, over, or held by `holder` itself. The epoch becomes one more than the larger
    /// of the stored one and `at_least`, so that it never repeats even where the database forgot.
    async fn take_lease(&self, holder: &str, ttl: Duration, at_least: Epoch) -> Result<LeaseOutcome>;

    /// Renews the lease.
    ///
    /// # Errors
    /// `Fenced` when somebody else has it by now; `AnotherServer` when the database is not the server that gave it.
    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<()>;

    /// Gives the lease back, so that another coordinator need not wait for its end. Not ours any more: nothing.
    async fn give_back_lease(&self, lease: &Lease) -> Result<()>;
}

/// A collection that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCollection {
    /// Its name.
    pub name: CollectionName,
    /// Its columns; at least one.
    pub columns: Vec<Column>,
    /// Choices of its creator.
    pub options: CollectionOptions,
    /// Now, nanoseconds since the Unix epoch.
    pub created_at: u64,
}

/// What a push did.
#[derive(Clone, Debug, PartialEq)]
pub struct PushOutcome {
    /// Segments that are new, in the order of the push.
    pub added: Vec<Segment>,
    /// Segments that were there with the same checksum.
    pub unchanged: u64,
}

/// Collections and segments.
#[async_trait]
pub trait CatalogStore: Send + Sync + Debug {
    /// All collections, by name.
    async fn collections(&self) -> Result<Vec<Collection>>;

    /// All segments of a collection that are not dropped, by name.
    async fn segments(&self, collection: CollectionId) -> Result<Vec<Segment>>;

    /// Segments that were dropped and not purged yet, of all collections, by id.
    async fn dropped_segments(&self) -> Result<Vec<Segment>>;

    /// Creates a collection.
    ///
    /// # Errors
    /// `Refused(parameter_invalid)` when the name is taken.
    async fn create_collection(&self, epoch: Epoch, new: NewCollection) -> Result<Collection>;

    /// Writes a collection's options whole.
    ///
    /// # Errors
    /// `Refused(collection_not_found)`.
    async fn set_options(
        &self,
        epoch: Epoch,
        collection: CollectionId,
        options: &CollectionOptions,
    ) -> Result<()>;

    /// Drops a collection and marks its segments as dropped. Unknown: nothing.
    async fn drop_collection(&self, epoch: Epoch, collection: CollectionId) -> Result<()>;

    /// Adds segments, all or none. Each must name its shard. One that is there with the same checksum is left alone.
    ///
    /// # Errors
    /// `Refused(parameter_invalid)` naming a segment that is there with another checksum, or that stands twice in the
    /// push; `Refused(collection_not_found)`.
    async fn push_segments(
        &self,
        epoch: Epoch,
        collection: CollectionId,
        segments: Vec<NewSegment>,
        created_at: u64,
    ) -> Result<PushOutcome>;

    /// Marks segments of a collection as dropped and adds others, in one transaction. Each that is added must name its
    /// shard. Gives those, in their order.
    ///
    /// # Errors
    /// `Refused(parameter_invalid)` naming a segment that is there already, or that stands twice;
    /// `Refused(segment_not_found)` when one of the old ones is not there; `Refused(collection_not_found)`. Nothing has
    /// changed then.
    async fn replace_segments(
        &self,
        epoch: Epoch,
        collection: CollectionId,
        old: &[SegmentId],
        new: Vec<NewSegment>,
        created_at: u64,
    ) -> Result<Vec<Segment>>;

    /// Marks segments as dropped: they are in no list and their names are free. Unknown ones: nothing.
    async fn drop_segments(&self, epoch: Epoch, segments: &[SegmentId]) -> Result<()>;

    /// Forgets dropped segments, after their objects are gone.
    async fn purge_segments(&self, epoch: Epoch, segments: &[SegmentId]) -> Result<()>;
}

/// A resource group that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Its name.
    pub name: GroupName,
    /// What it wants and takes.
    pub config: GroupConfig,
}

/// Resource groups and their members.
#[async_trait]
pub trait GroupStore: Send + Sync + Debug {
    /// All groups, by name. The default group is always among them.
    async fn groups(&self) -> Result<Vec<ResourceGroup>>;

    /// Creates a group and gives it its number.
    ///
    /// # Errors
    /// `Refused(resource_group_already_exists)`.
    async fn create_group(&self, epoch: Epoch, new: NewGroup) -> Result<ResourceGroup>;

    /// Makes a change of groups, all of it or nothing: configurations first, then members, then the group that goes.
    ///
    /// # Errors
    /// `Refused(resource_group_not_found)`; `Refused(parameter_invalid)` when the group that goes has members left.
    async fn change_groups(&self, epoch: Epoch, change: &GroupChange) -> Result<()>;

    /// Keeps the labels of a registered node, in the place of those that it had. Unknown: nothing.
    async fn set_labels(
        &self,
        epoch: Epoch,
        node: &NodeName,
        labels: &BTreeMap<String, String>,
    ) -> Result<()>;
}

/// Nodes by name.
#[async_trait]
pub trait NodeStore: Send + Sync + Debug {
    /// All nodes that were ever registered and not removed, by name.
    async fn nodes(&self) -> Result<Vec<NodeRecord>>;

    /// Records a node's incarnation and gives it a number; the same one when both are known already. A newcomer's
    /// switch is on. A newer incarnation ends a drain: the node has returned.
    ///
    /// # Errors
    /// `Refused(parameter_invalid)` when a newer incarnation is known.
    async fn register_node(
        &self,
        epoch: Epoch,
        name: &NodeName,
        incarnation: Incarnation,
    ) -> Result<NodeRecord>;

    /// Turns the operator's switch of nodes, all of them or none. One that stands so already: nothing.
    ///
    /// # Errors
    /// `Refused(node_not_found)` naming a node that is not registered.
    async fn set_switch(&self, epoch: Epoch, nodes: &[NodeName], on: bool) -> Result<()>;

    /// Forgets a node: its record, its membership, its drain and its lease to stop. Its number is never used again. Unknown: nothing.
    async fn remove_node(&self, epoch: Epoch, node: &NodeName) -> Result<()>;
}

/// A drain that an operator asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// The node that is to leave.
    pub node: NodeName,
    /// When it was asked for, nanoseconds since the Unix epoch.
    pub since: u64,
}

/// A lease to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopLease {
    /// The node that may stop.
    pub node: NodeName,
    /// The process that it is granted to.
    pub incarnation: Incarnation,
    /// How long it lasts unless it is granted again or given back, by the database's clock.
    pub remaining: Duration,
}

/// Nodes that are to leave: drains that operators asked for, and leases to stop.
#[async_trait]
pub trait LeavingStore: Send + Sync + Debug {
    /// All drains, by node.
    async fn drains(&self) -> Result<Vec<Drain>>;

    /// Starts a drain, or starts it anew.
    async fn start_drain(&self, epoch: Epoch, drain: &Drain) -> Result<()>;

    /// Ends a drain. There is none: nothing.
    async fn end_drain(&self, epoch: Epoch, node: &NodeName) -> Result<()>;

    /// All leases to stop that run, by node.
    async fn stop_leases(&self) -> Result<Vec<StopLease>>;

    /// Grants a lease to stop, in the place of the one that the node has.
    async fn grant_stop_lease(&self, epoch: Epoch, lease: &StopLease) -> Result<()>;

    /// Ends a lease to stop. There is none: nothing.
    async fn end_stop_lease(&self, epoch: Epoch, node: &NodeName) -> Result<()>;
}

/// Registrations, replicas, current targets and failures of loads.
#[async_trait]
pub trait LoadStore: Send + Sync + Debug {
    /// All registrations, by collection.
    async fn loads(&self) -> Result<Vec<LoadRecord>>;

    /// All replicas, by id.
    async fn replicas(&self) -> Result<Vec<Replica>>;

    /// All current targets, by collection.
    async fn current_targets(&self) -> Result<Vec<Target>>;

    /// All failed loads, by collection.
    async fn failed_loads(&self) -> Result<Vec<CollectionFailures>>;

    /// Makes a change in one transaction, and gives the replicas that it created with their numbers, in order.
    ///
    /// Registrations of collections that are gone are refused; what is said of a replica that is gone, or of the target
    /// of a collection without registration, is left out.
    ///
    /// # Errors
    /// `Refused(collection_not_found)`; `Refused(resource_group_not_found)`. Nothing has changed then.
    async fn change_loads(&self, epoch: Epoch, change: &LoadChange) -> Result<Vec<Replica>>;
}

/// Settings of the cluster that take effect while it runs. Which keys there are, and what they take, is not known here.
#[async_trait]
pub trait ConfigStore: Send + Sync + Debug {
    /// All keys that have a value.
    async fn config(&self) -> Result<BTreeMap<String, String>>;

    /// Gives a key a value, in the place of the one it has.
    ///
    /// # Errors
    /// `Refused(parameter_invalid)` for a text that the databases cannot hold.
    async fn set_config(&self, epoch: Epoch, key: &str, value: &str) -> Result<()>;

    /// Takes a key's value away. It has none: nothing.
    ///
    /// # Errors
    /// `Refused(parameter_invalid)` for a text that the databases cannot hold.
    async fn unset_config(&self, epoch: Epoch, key: &str) -> Result<()>;
}
