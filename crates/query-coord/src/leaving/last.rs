//! What nobody else serves.

use std::collections::BTreeSet;

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, GroupName, NodeName, SegmentId, ShardName};

use super::serving::Serving;
use crate::Stores;

/// Something that a node serves for a query-visible replica.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastCopy {
    /// The collection.
    pub collection: CollectionId,
    /// The resource group of the replica.
    pub group: GroupName,
    /// What.
    pub what: Served,
}

/// What can be served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// The lead of a shard.
    Lead(ShardName),
    /// A segment of a current target.
    Segment(SegmentId),
}

/// What would be served by nobody else without a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastCopies {
    /// By nobody in the cluster.
    pub in_cluster: Vec<LastCopy>,
    /// By nobody for the same resource group; what nobody in the cluster serves is among it.
    pub in_group: Vec<LastCopy>,
}

impl LastCopies {
    /// Whether the node may stop without a gap, in the cluster, or with `group_safe` in every group.
    pub fn may_stop(&self, group_safe: bool) -> bool {
        self.in_cluster.is_empty() && (!group_safe || self.in_group.is_empty())
    }
}

/// What `node` serves and no other node that queries can count on is observed to serve. Those that leave themselves or
/// have a lease to stop cannot be counted on.
pub fn last_copies(stores: &Stores, node: &NodeName, now: MonoTime) -> LastCopies {
    let mut others = stores.staying(now);
    others.remove(node);
    let mut last = LastCopies::default();
    let own = stores.replicas.iter().filter(|replica| replica.contains(node.as_str()));
    let collections: BTreeSet<CollectionId> = own.map(|replica| replica.collection).collect();
    for serving in collections.into_iter().filter_map(|collection| Serving::of(stores, collection)) {
        for served in serving.by(node) {
            if serving.elsewhere(&served.what, &others, Some(&served.group)) {
                continue;
            }
            if !serving.elsewhere(&served.what, &others, None) {
                last.in_cluster.push(served.clone());
            }
            last.in_group.push(served);
        }
    }
    last
}
