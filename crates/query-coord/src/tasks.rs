//! Work that nodes were given and do not get done.
//!
//! A node is told all that it should hold and lead at once, and works through it. So the time of its tasks begins anew
//! with every segment that it finished: those that wait for others are not late.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{NodeName, ReplicaId, SegmentId, ShardName};

use crate::{Replica, Row, SegmentReport, Slot, Stores};

/// Tasks of nodes that are under way, as they were when somebody looked.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// What nodes had to load that finished nothing since.
    segments: BTreeMap<NodeName, Stuck>,
    /// Nodes that do not say yet that they lead what they should.
    leads: BTreeMap<(ReplicaId, ShardName), (NodeName, MonoTime)>,
}

#[derive(Clone, Debug)]
struct Stuck {
    since: MonoTime,
    segments: BTreeSet<SegmentId>,
}

impl Tasks {
    /// A node finished a segment, well or not.
    pub fn finished(&mut self, node: &NodeName) {
        self.segments.remove(node);
    }

    /// Segments whose tasks are over without an end, with the nodes that had them. Their next try counts from now.
    pub fn late_segments(
        &mut self,
        stores: &Stores,
        now: MonoTime,
        timeout: Duration,
    ) -> Vec<(NodeName, SegmentId)> {
        let unfinished = stores.unfinished();
        self.segments.retain(|node, _| unfinished.contains_key(node));
        let mut late = Vec::new();
        for (node, unfinished) in unfinished {
            let stuck = self.segments.get(node);
            if stuck.is_some_and(|stuck| now - stuck.since < timeout) {
                continue;
            }
            if let Some(stuck) = stuck {
                late.extend(stuck.segments.intersection(&unfinished).map(|segment| (node.clone(), *segment)));
            }
            self.segments.insert(node.clone(), Stuck { since: now, segments: unfinished });
        }
        late
    }

    /// Leads whose tasks are over: the node does not say that it leads the shard. Its next try counts from now.
    pub fn late_leads(
        &mut self,
        stores: &Stores,
        now: MonoTime,
        timeout: Duration,
    ) -> Vec<(ReplicaId, ShardName, NodeName)> {
        let replicas: BTreeMap<ReplicaId, &Arc<Replica>> =
            stores.replicas.iter().map(|replica| (replica.id, replica)).collect();
        let former = std::mem::take(&mut self.leads);
        let mut late = Vec::new();
        for ((replica, shard), node) in &stores.leads {
            let led = replicas.get(replica).is_none_or(|replica| stores.is_led(replica, shard, node));
            if led || !stores.takes_work(node.as_str()) {
                continue;
            }
            let key = (*replica, shard.clone());
            let known = former.get(&key).filter(|(known, _)| known == node);
            let mut since = known.map_or(now, |(_, since)| *since);
            if now - since >= timeout {
                late.push((*replica, shard.clone(), node.clone()));
                since = now;
            }
            self.leads.insert(key, (node.clone(), since));
        }
        late
    }
}

impl Stores {
    /// Segments whose place a node is that takes work, and that it neither holds nor failed to load, as it says; by node.
    fn unfinished(&self) -> BTreeMap<&NodeName, BTreeSet<SegmentId>> {
        let ended = |slot: &Slot| matches!(slot.report(), Some(SegmentReport::Held | SegmentReport::Failed));
        let mut unfinished: BTreeMap<&NodeName, BTreeSet<SegmentId>> = BTreeMap::new();
        for replica in self.replicas.iter() {
            for segment in self.placement.coming_to(replica) {
                let slots = self.whereabouts.row(segment).into_iter().flat_map(Row::slots);
                let nodes = slots
                    .filter(|slot| slot.is_placed() && !ended(slot))
                    .filter_map(|slot| self.whereabouts.name(slot.node()));
                for node in nodes {
                    if replica.nodes.contains(node) && self.takes_work(node.as_str()) {
                        unfinished.entry(node).or_default().insert(segment);
                    }
                }
            }
        }
        unfinished
    }

    fn is_led(&self, replica: &Replica, shard: &ShardName, node: &NodeName) -> bool {
        self.distribution.get(node, replica.collection, shard).is_some()
    }

    /// Takes notice of leads that nodes did not take over in time: others are asked first. What is led again, or by
    /// nobody any more, is forgotten.
    pub fn pass_over_leads(&mut self, late: Vec<(ReplicaId, ShardName, NodeName)>) {
        let mut known = std::mem::take(&mut self.late_leads);
        known.retain(|(replica, shard), _| {
            let wanted = self.leads.get(&(*replica, shard.clone()));
            let replica = self.replicas.get(*replica);
            replica.zip(wanted).is_some_and(|(replica, node)| !self.is_led(replica, shard, node))
        });
        known.extend(late.into_iter().map(|(replica, shard, node)| ((replica, shard), node)));
        self.late_leads = known;
    }
}
