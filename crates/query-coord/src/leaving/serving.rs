//! Who is observed to serve what of one collection.

use std::collections::BTreeSet;

use pointsman_ids::{CollectionId, GroupName, NodeName, SegmentId, ShardName};

use super::{LastCopy, Served};
use crate::{Replica, Stores, Target, copies, copies_on, ready::leader_of};

/// What the query-visible replicas of a collection serve of its current target.
pub(super) struct Serving<'a> {
    stores: &'a Stores,
    collection: CollectionId,
    target: &'a Target,
    replicas: Vec<&'a Replica>,
}

impl<'a> Serving<'a> {
    /// `None` for a collection that is not served.
    pub(super) fn of(stores: &'a Stores, collection: CollectionId) -> Option<Self> {
        let target = stores.targets.current(collection)?;
        let visible = stores.replicas_of(collection).filter(|replica| replica.query_visible);
        Some(Self { stores, collection, target, replicas: visible.collect() })
    }

    /// What a node serves for any replica: leads first, then segments.
    pub(super) fn by<'b>(&'b self, node: &'b NodeName) -> impl Iterator<Item = LastCopy> + 'b {
        let own = self.replicas.iter().copied().filter(move |replica| replica.contains(node.as_str()));
        own.flat_map(move |replica| {
            let what = |what| LastCopy { collection: self.collection, group: replica.group.clone(), what };
            let shards = self.target.shards.iter().map(|shard| &shard.name);
            let leads = shards.filter(move |shard| self.leader(replica, shard) == Some(node));
            let listed = copies_on(self.stores, replica, node).into_iter();
            let segments = listed.filter(move |segment| {
                let row = self.stores.whereabouts.row(*segment);
                row.is_some_and(|row| row.is_current()) && self.stores.holds(node.as_str(), *segment)
            });
            let leads = leads.map(move |shard| what(Served::Lead(shard.clone())));
            leads.chain(segments.map(move |segment| what(Served::Segment(segment))))
        })
    }

    /// Whether one of these nodes serves it as well, for any replica or for one of `group`.
    pub(super) fn elsewhere(
        &self,
        what: &Served,
        nodes: &BTreeSet<&NodeName>,
        group: Option<&GroupName>,
    ) -> bool {
        let mut replicas =
            self.replicas.iter().filter(|replica| group.is_none_or(|group| replica.group == *group));
        match what {
            Served::Segment(segment) => replicas.any(|replica| self.held(replica, *segment, nodes)),
            Served::Lead(shard) => replicas.any(|replica| {
                let leads = self.leader(replica, shard).is_some_and(|leader| nodes.contains(leader));
                let segments = self.target.shard(shard.as_str()).map_or(&[][..], |shard| &shard.segments);
                leads && segments.iter().all(|segment| self.held(replica, *segment, nodes))
            }),
        }
    }

    /// The leader that brokers are told.
    fn leader(&self, replica: &Replica, shard: &ShardName) -> Option<&'a NodeName> {
        let leader = leader_of(self.stores, replica, shard)?;
        self.stores.is_known(leader.node.as_str()).then_some(&leader.node)
    }

    /// Whether brokers are told that one of these nodes serves the segment for the replica.
    fn held(&self, replica: &Replica, segment: SegmentId, nodes: &BTreeSet<&NodeName>) -> bool {
        let listed = copies(self.stores, replica, segment);
        listed.iter().any(|node| nodes.contains(*node) && self.stores.holds(node.as_str(), segment))
    }
}
