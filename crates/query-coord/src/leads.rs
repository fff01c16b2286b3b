//! Shard leads: which node of a replica answers for a shard.

use std::collections::BTreeMap;

use pointsman_ids::{NodeName, ReplicaId, ShardName};

use crate::{Replica, Stores};

/// The node that leads a shard in a replica. A shard without an entry has no leader.
pub type Leads = BTreeMap<(ReplicaId, ShardName), NodeName>;

/// Gives every shard of every replica of a loaded collection a leader: the one it has while that node lives, else the
/// node of the replica that takes work and leads the fewest of its shards. Replicas without such a node have none.
pub fn plan_leads(stores: &Stores) -> Leads {
    let mut leads = Leads::new();
    for replica in stores.replicas.values() {
        let Some(store) = stores.collections.get(&replica.collection) else { continue };
        let mut loads = takers(stores, replica);
        let mut vacant = Vec::new();
        for shard in store.shards() {
            let key = (replica.id, shard);
            match stores.leads.get(&key).and_then(|node| loads.get_mut(node)) {
                Some(load) => {
                    *load += 1;
                    let node = stores.leads[&key].clone();
                    leads.insert(key, node);
                }
                None => vacant.push(key),
            }
        }
        for key in vacant {
            let Some((node, load)) = loads.iter_mut().min_by_key(|(_, load)| **load) else { break };
            *load += 1;
            leads.insert(key, node.clone());
        }
    }
    leads
}

/// Nodes of a replica that may lead, each with no lead yet.
fn takers(stores: &Stores, replica: &Replica) -> BTreeMap<NodeName, usize> {
    replica
        .nodes
        .iter()
        .filter(|node| stores.takes_work(node.as_str()))
        .map(|node| (node.clone(), 0))
        .collect()
}
