//! Which node of a replica its shard leaders ask for which segment.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{CollectionId, NodeId, ReplicaId, SegmentId, ShardName};

use crate::{Changes, Glance, Replica, Seats, Slot, Stores, retains};

/// Segments of a shard with the node that hosts each, ascending.
pub type Hosts = Arc<Vec<(SegmentId, NodeId)>>;

/// Hosts by replica and shard. What did not change is shared from one moment to the next.
#[derive(Clone, Debug, Default)]
pub struct Hosted {
    collections: BTreeMap<CollectionId, BTreeMap<(ReplicaId, ShardName), Hosts>>,
}

/// What is new of the hosts of one shard in one replica; `None`: nobody hosts the segment any more.
type News = BTreeMap<SegmentId, Option<NodeId>>;

impl Hosted {
    /// Hosts of a shard's segments in a replica: of both targets, and of those that former views still need. Segments that
    /// nobody holds are left out.
    pub fn of(&self, replica: &Replica, shard: &ShardName) -> Hosts {
        let hosts = self.collections.get(&replica.collection);
        hosts.and_then(|hosts| hosts.get(&(replica.id, shard.clone()))).cloned().unwrap_or_default()
    }

    /// Takes in what changed. Costs what changed, and a copy of the hosts of every shard of which something did.
    pub fn update(&mut self, stores: &Stores, changes: &Changes) {
        let glance = Glance::of(stores);
        for (collection, change) in changes.iter() {
            let replicas = stores.replicas.of(collection);
            if replicas.is_empty() {
                self.collections.remove(&collection);
                continue;
            }
            let known = self.collections.entry(collection).or_default();
            known.retain(|(id, _), _| replicas.iter().any(|replica| replica.id == *id));
            if change.all {
                known.clear();
            }
            let seats = Seats::of(stores, replicas);
            let mut news: BTreeMap<(ReplicaId, ShardName), News> = BTreeMap::new();
            for segment in stores.concerned(collection, change) {
                let Some(shard) = stores.segment(collection, segment).map(|known| &known.segment.shard)
                else {
                    continue;
                };
                for (at, replica) in replicas.iter().enumerate() {
                    let host = host(stores, &glance, &seats, at, replica, segment);
                    let key = (replica.id, shard.clone());
                    let before = known.get(&key).and_then(|hosts| hosted_by(hosts, segment));
                    if before != host {
                        news.entry(key).or_default().insert(segment, host);
                    }
                }
            }
            for (key, news) in news {
                let hosts = known.entry(key).or_default();
                *hosts = Arc::new(merged(hosts, news));
            }
        }
    }
}

fn hosted_by(hosts: &[(SegmentId, NodeId)], segment: SegmentId) -> Option<NodeId> {
    let at = hosts.binary_search_by_key(&segment, |(segment, _)| *segment).ok()?;
    hosts.get(at).map(|(_, host)| *host)
}

/// The node of the replica at this place that hosts a segment: the one where it should be, if that has it.
fn host(
    stores: &Stores,
    glance: &Glance,
    seats: &Seats,
    at: usize,
    replica: &Replica,
    segment: SegmentId,
) -> Option<NodeId> {
    let row = stores.whereabouts.row(segment)?;
    let own = |slot: &Slot| seats.is_in(slot.node(), at);
    let name = |slot: &Slot| stores.whereabouts.name(slot.node());
    let place = row.slots().filter(|slot| own(slot) && slot.is_placed()).min_by_key(name);
    let place = place.map(Slot::node);
    let holders = row.slots().filter(|slot| own(slot) && slot.holds() && glance.is_known(slot.node()));
    let host = holders.min_by_key(|slot| (Some(slot.node()) != place, name(slot)))?;
    (row.is_wanted() || retains(stores, replica, segment)).then(|| glance.id(host.node()))?
}

fn merged(hosts: &[(SegmentId, NodeId)], news: News) -> Vec<(SegmentId, NodeId)> {
    let mut merged = Vec::with_capacity(hosts.len() + news.len());
    let mut rest = hosts;
    for (segment, host) in news {
        let at = rest.partition_point(|(known, _)| *known < segment);
        let (before, after) = rest.split_at(at);
        merged.extend_from_slice(before);
        merged.extend(host.map(|host| (segment, host)));
        let is_known = after.first().is_some_and(|(known, _)| *known == segment);
        rest = after.get(usize::from(is_known)..).unwrap_or_default();
    }
    merged.extend_from_slice(rest);
    merged
}
