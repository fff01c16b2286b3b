//! A metastore that can be taken away, over a real one.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU8, Ordering},
    },
    time::Duration,
};

use pointsman_ids::{
    CollectionId, Epoch, Incarnation, NodeName, SegmentId,
    catalog::{Collection, CollectionOptions, NewSegment, Segment},
};
use pointsman_metastore::{
    CatalogStore, ChangeStore, ConfigStore, Drain, Error, GroupStore, Lease, LeaseOutcome, LeaseStore,
    LeavingStore, LoadStore, NewCollection, NewGroup, NodeStore, PushOutcome, Result, Revision,
    SegmentChanges, SegmentsHeld, SharedMetastore, StopLease,
};
use pointsman_query_coord::{
    CollectionFailures, GroupChange, LoadChange, LoadRecord, NodeRecord, Replica, ResourceGroup, Target,
};

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
    /// How often all segments were read, and how often what had changed.
    read_anew: Arc<AtomicU8>,
    followed: Arc<AtomicU8>,
    /// Changes of loads that are made before the next fault comes; negative: it does not come by itself.
    left: Arc<AtomicI64>,
    next: Arc<AtomicU8>,
}

impl Faulty {
    pub fn new(inner: SharedMetastore) -> Self {
        let (fault, read_anew, followed) = (Arc::default(), Arc::default(), Arc::default());
        let (left, next) = (Arc::new(AtomicI64::new(-1)), Arc::default());
        Self { inner, fault, read_anew, followed, left, next }
    }

    pub fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// How often all segments were read.
    pub fn read_anew(&self) -> u8 {
        self.read_anew.load(Ordering::SeqCst)
    }

    /// How often segments that had changed were read.
    pub fn followed(&self) -> u8 {
        self.followed.load(Ordering::SeqCst)
    }

    /// Lets so many changes of loads be made; the next one, and everything after it, meets this fault.
    pub fn fail_after(&self, changes: i64, fault: Fault) {
        self.next.store(fault as u8, Ordering::SeqCst);
        self.left.store(changes, Ordering::SeqCst);
    }

    /// Whether that fault has come.
    pub fn is_used_up(&self) -> bool {
        self.fault.load(Ordering::SeqCst) == self.next.load(Ordering::SeqCst)
    }

    fn count_change(&self) {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            self.fault.store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        if left >= 0 {
            self.left.store(left - 1, Ordering::SeqCst);
        }
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
                if stringify!($name) == "change_loads" {
                    self.count_change();
                }
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
    fn replace_segments(epoch: Epoch, collection: CollectionId, old: &[SegmentId], new: Vec<NewSegment>, at: u64) -> Vec<Segment>;
    fn drop_segments(epoch: Epoch, segments: &[SegmentId]) -> ();
    fn purge_segments(epoch: Epoch, segments: &[SegmentId]) -> ();
});

delegate!(GroupStore {
    fn groups() -> Vec<ResourceGroup>;
    fn create_group(epoch: Epoch, new: NewGroup) -> ResourceGroup;
    fn change_groups(epoch: Epoch, change: &GroupChange) -> ();
    fn set_labels(epoch: Epoch, node: &NodeName, labels: &BTreeMap<String, String>) -> ();
});

delegate!(NodeStore {
    fn nodes() -> Vec<NodeRecord>;
    fn register_node(epoch: Epoch, name: &NodeName, incarnation: Incarnation) -> NodeRecord;
    fn set_switch(epoch: Epoch, nodes: &[NodeName], on: bool) -> ();
    fn remove_node(epoch: Epoch, node: &NodeName) -> ();
});

delegate!(LeavingStore {
    fn drains() -> Vec<Drain>;
    fn start_drain(epoch: Epoch, drain: &Drain) -> ();
    fn end_drain(epoch: Epoch, node: &NodeName) -> ();
    fn stop_leases() -> Vec<StopLease>;
    fn grant_stop_lease(epoch: Epoch, lease: &StopLease) -> ();
    fn end_stop_lease(epoch: Epoch, node: &NodeName) -> ();
});

#[tonic::async_trait]
impl ChangeStore for Faulty {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn segment_changes(&self, held: Option<&SegmentsHeld>) -> Result<Option<SegmentChanges>> {
        if self.is(Fault::Away) {
            return Err(Error::OutcomeUnknown(None));
        }
        let changes = self.inner.segment_changes(held).await?;
        if let Some(changes) = &changes {
            let count = if changes.anew { &self.read_anew } else { &self.followed };
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(changes)
    }
}

delegate!(ConfigStore {
    fn config() -> BTreeMap<String, String>;
    fn set_config(epoch: Epoch, key: &str, value: &str) -> ();
    fn unset_config(epoch: Epoch, key: &str) -> ();
});

delegate!(LoadStore {
    fn loads() -> Vec<LoadRecord>;
    fn replicas() -> Vec<Replica>;
    fn current_targets() -> Vec<Target>;
    fn failed_loads() -> Vec<CollectionFailures>;
    fn change_loads(epoch: Epoch, change: &LoadChange) -> Vec<Replica>;
});
