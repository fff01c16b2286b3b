//! Shard leads: which node of a replica answers for a shard.

use std::collections::BTreeMap;

use pointsman_ids::{NodeName, ReplicaId, ShardName};

use crate::{Replica, Stores, ready::leader_of, settled};

/// The node that leads a shard in a replica. A shard without an entry has no leader.
pub type Leads = BTreeMap<(ReplicaId, ShardName), NodeName>;

/// Gives every shard of every replica of a loaded collection a leader: the one it has while that node takes work, else
/// one that says that it leads, else the node of the replica that takes work and leads the fewest of its shards, and of
/// those the fewest at all; one that did not take the lead over in time comes last. In a replica without such a node, one that is known leads on: a node that leaves serves what
/// it leads to its end. Until every node of a replica was heard nothing of it moves.
pub fn plan_leads(stores: &Stores) -> Leads {
    let mut plan = Plan::default();
    let mut vacant = Vec::new();
    for replica in stores.replicas.iter() {
        for shard in stores.shards_of_targets(replica.collection) {
            let former = stores.leads.get(&(replica.id, shard.clone()));
            let reported = || leader_of(stores, replica, &shard).map(|leader| &leader.node);
            let unsettled = !settled(stores, replica);
            let stays = |node: &&NodeName| {
                let takes =
                    unsettled || (stores.takes_work(node.as_str()) && !stores.is_late(replica, &shard, node));
                replica.nodes.contains(*node) && takes
            };
            match former.filter(stays).or_else(|| reported().filter(stays)) {
                Some(node) => plan.give(replica, shard, node),
                None if unsettled => {}
                None => vacant.push((replica, shard, former)),
            }
        }
    }
    for (replica, shard, former) in vacant {
        let takers = replica.nodes.iter().filter(|node| stores.takes_work(node.as_str()));
        let known = |node: &&NodeName| replica.contains(node.as_str()) && stores.is_known(node.as_str());
        let taker =
            takers.min_by_key(|node| (stores.is_late(replica, &shard, node), plan.load(replica, node)));
        let reported = leader_of(stores, replica, &shard).map(|leader| &leader.node);
        if let Some(node) = taker.or_else(|| reported.filter(known)).or_else(|| former.filter(known)) {
            plan.give(replica, shard, node);
        }
    }
    plan.leads
}

impl Stores {
    fn is_late(&self, replica: &Replica, shard: &ShardName, node: &NodeName) -> bool {
        self.late_leads.get(&(replica.id, shard.clone())) == Some(node)
    }
}

#[derive(Default)]
struct Plan {
    leads: Leads,
    /// Leads by replica and node.
    own: BTreeMap<(ReplicaId, NodeName), usize>,
    /// Leads of all replicas by node.
    all: BTreeMap<NodeName, usize>,
}

impl Plan {
    fn give(&mut self, replica: &Replica, shard: ShardName, node: &NodeName) {
        *self.own.entry((replica.id, node.clone())).or_default() += 1;
        *self.all.entry(node.clone()).or_default() += 1;
        self.leads.insert((replica.id, shard), node.clone());
    }

    fn load(&self, replica: &Replica, node: &NodeName) -> (usize, usize) {
        let own = self.own.get(&(replica.id, node.clone())).copied().unwrap_or_default();
        (own, self.all.get(node).copied().unwrap_or_default())
    }
}
