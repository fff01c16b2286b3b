//! A metastore that can be taken away, over a real one.
#![allow(unreachable_pub, reason = "a module of one test")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use pointsman_ids::{
    CollectionId, Epoch, GroupName, Incarnation, NodeName, SegmentId,
    catalog::{Collection, CollectionOptions, NewSegment, Segment},
};
use pointsman_metastore::{
    CatalogStore, ConfigStore, Error, GroupStore, Lease, LeaseOutcome, LeaseStore, LoadStore, NewCollection,
    NewGroup, NewReplica, NodeStore, PushOutcome, Result, SharedMetastore,
};
use pointsman_query_coord::{LoadRecord, NodeRecord, Replica, ResourceGroup, Target};

/// What becomes of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// They work.
    None,
    /// They are not done, and nobody can say so.
    Away,
    /// They are done, and nobody can say so.
    Cut,
}

/// A metastore with a switch.
#[derive(Clone, Debug)]
pub struct Faulty {
    inner: SharedMetastore,
    fault: Arc<AtomicU8>,
}

impl Faulty {
    pub fn new(inner: SharedMetastore) -> Self {
        Self { inner, fault: Arc::default() }
    }

    pub fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault.load(Ordering::SeqCst) == fault as u8
    }
}

macro_rules! delegate {
    ($store:ident { $(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)* }) => {
        #[tonic::async_trait]
        impl $store for Faulty {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$out> {
                if self.is(Fault::Away) {
                    return Err(Error::OutcomeUnknown(None));
                }
                let done = self.inner.$name($($arg),*).await;
                if self.is(Fault::Cut) { Err(Error::OutcomeUnknown(None)) } else { done }
            })*
        }
    };
}

delegate!(LeaseStore {
    fn take_lease(holder: &str, ttl: Duration, at_least: Epoch) -> LeaseOutcome;
    fn renew_lease(lease: &Lease, ttl: Duration) -> ();
    fn give_back_lease(lease: &Lease) -> ();
});

delegate!(CatalogStore {
    fn collections() -> Vec<Collection>;
    fn segments(collection: CollectionId) -> Vec<Segment>;
    fn dropped_segments() -> Vec<Segment>;
    fn create_collection(epoch: Epoch, new: NewCollection) -> Collection;
    fn set_options(epoch: Epoch, collection: CollectionId, options: &CollectionOptions) -> ();
    fn drop_collection(epoch: Epoch, collection: CollectionId) -> ();
    fn push_segments(epoch: Epoch, collection: CollectionId, segments: Vec<NewSegment>, at: u64) -> PushOutcome;
    fn drop_segments(epoch: Epoch, segments: &[SegmentId]) -> ();
    fn purge_segments(epoch: Epoch, segments: &[SegmentId]) -> ();
});

delegate!(GroupStore {
    fn groups() -> Vec<ResourceGroup>;
    fn create_group(epoch: Epoch, new: NewGroup) -> ResourceGroup;
    fn set_member(epoch: Epoch, node: &NodeName, group: Option<&GroupName>) -> ();
});

delegate!(NodeStore {
    fn nodes() -> Vec<NodeRecord>;
    fn register_node(epoch: Epoch, name: &NodeName, incarnation: Incarnation) -> NodeRecord;
    fn set_switch(epoch: Epoch, nodes: &[NodeName], on: bool) -> ();
    fn remove_node(epoch: Epoch, node: &NodeName) -> ();
});

delegate!(ConfigStore {
    fn config() -> BTreeMap<String, String>;
    fn set_config(epoch: Epoch, key: &str, value: &str) -> ();
    fn unset_config(epoch: Epoch, key: &str) -> ();
});

delegate!(LoadStore {
    fn loads() -> Vec<LoadRecord>;
    fn replicas() -> Vec<Replica>;
    fn current_targets() -> Vec<Target>;
    fn register_load(epoch: Epoch, record: LoadRecord, replicas: Vec<NewReplica>) -> Vec<Replica>;
    fn update_load(epoch: Epoch, record: &LoadRecord) -> ();
    fn update_replicas(epoch: Epoch, replicas: &[Replica]) -> ();
    fn promote(epoch: Epoch, target: &Target) -> ();
    fn release_load(epoch: Epoch, collection: CollectionId) -> ();
});
