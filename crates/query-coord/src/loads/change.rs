//! A change of loads: what is written in one transaction, and then takes effect in memory.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, ErrorCode, GroupName, NodeName, ReplicaId};

use crate::{DroppedGroup, FailedLoad, LoadRecord, Replica, Stores, Target};

/// A replica that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReplica {
    /// What it is a copy of.
    pub collection: CollectionId,
    /// The group it lives in.
    pub group: GroupName,
    /// Nodes that take work at once.
    pub nodes: Vec<NodeName>,
    /// Whether queries may use it.
    pub query_visible: bool,
    /// Since when its first nodes wait for the group, nanoseconds since the Unix epoch; `None`: they do not wait.
    pub waits_for_group_since: Option<u64>,
}

/// All that failed in the loads of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionFailures {
    /// The collection.
    pub collection: CollectionId,
    /// By code.
    pub codes: BTreeMap<ErrorCode, FailedLoad>,
    /// Groups in which the load was given up.
    pub groups: BTreeMap<GroupName, DroppedGroup>,
}

/// A change of loads, made whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadChange {
    /// Collections whose registration, replicas and current target go.
    pub released: Vec<CollectionId>,
    /// Registrations, new ones and others, as they are to be.
    pub records: Vec<LoadRecord>,
    /// Replicas that are created.
    pub created: Vec<NewReplica>,
    /// Replicas as they are to be.
    pub replicas: Vec<Replica>,
    /// Replicas that go, with their collections.
    pub removed: Vec<(CollectionId, ReplicaId)>,
    /// Targets that become current.
    pub targets: Vec<Target>,
    /// All failures of collections, in the place of those that are known.
    pub failures: Vec<CollectionFailures>,
}

impl LoadChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another change, which comes after this one.
    pub fn extend(&mut self, other: Self) {
        self.released.extend(other.released);
        self.records.extend(other.records);
        self.created.extend(other.created);
        self.replicas.extend(other.replicas);
        self.removed.extend(other.removed);
        self.targets.extend(other.targets);
        self.failures.extend(other.failures);
    }
}

impl Stores {
    /// Lets a change take effect that was written. `created` are the replicas that it created, with their numbers.
    pub fn apply(&mut self, change: LoadChange, created: Vec<Replica>) {
        for collection in change.released {
            self.loads.remove(collection);
            self.targets.remove(collection);
            let replicas: Vec<ReplicaId> =
                self.replicas.of(collection).iter().map(|replica| replica.id).collect();
            replicas.into_iter().for_each(|id| self.remove_replica(collection, id));
        }
        change.records.into_iter().for_each(|record| self.loads.insert(record));
        created.into_iter().chain(change.replicas).for_each(|replica| self.replicas.insert(replica));
        change.removed.into_iter().for_each(|(collection, id)| self.remove_replica(collection, id));
        for target in change.targets {
            if self.targets.next(target.collection).is_some_and(|next| next.version == target.version) {
                self.targets.remove_next(target.collection);
            }
            self.targets.set_current(target);
        }
        change.failures.into_iter().for_each(|failures| self.failed_loads.set(failures));
    }

    fn remove_replica(&mut self, collection: CollectionId, id: ReplicaId) {
        self.replicas.remove(collection, id);
        self.leads.retain(|(of, _), _| *of != id);
        self.late_leads.retain(|(of, _), _| *of != id);
    }
}
