//! What every node should lead, and with which view.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::{CollectionId, NodeName, ReplicaId, ShardName};

use crate::{Hosted, Hosts, NextStep, Replica, Stores, Target, wished_view};

/// A shard that a node should lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The replica for which it leads.
    pub replica: ReplicaId,
    /// The target whose view it should serve. `None`: the view that it has.
    pub view: Option<Arc<Target>>,
    /// Segments of the shard with the node of the replica that holds each, ascending. Ones that nobody holds are left
    /// out.
    pub hosts: Hosts,
}

/// What nodes should lead, by node.
pub type LeadWishes = BTreeMap<NodeName, BTreeMap<(CollectionId, ShardName), Lead>>;

/// What every node should lead, with the hosts as they are known. `step` says what is to be done about the next target of a
/// collection.
pub fn lead_wishes(stores: &Stores, hosted: &Hosted, step: impl Fn(CollectionId) -> NextStep) -> LeadWishes {
    let mut wishes = LeadWishes::new();
    for record in stores.loads.iter() {
        let collection = record.collection;
        let step = step(collection);
        for replica in stores.replicas_of(collection) {
            wish_replica(stores, hosted, replica, step, &mut wishes);
        }
    }
    wishes
}

fn wish_replica(
    stores: &Stores,
    hosted: &Hosted,
    replica: &Replica,
    step: NextStep,
    wishes: &mut LeadWishes,
) {
    for shard in stores.shards_of_targets(replica.collection) {
        let leaders = leaders(stores, replica, &shard);
        if leaders.is_empty() {
            continue;
        }
        let hosts = hosted.of(replica, &shard);
        for node in leaders {
            let report = stores.distribution.get(&node, replica.collection, &shard).map(AsRef::as_ref);
            let view = wished_view(stores, replica.collection, report, step).map(Arc::clone);
            let lead = Lead { replica: replica.id, view, hosts: Arc::clone(&hosts) };
            wishes.entry(node).or_default().insert((replica.collection, shard.clone()), lead);
        }
    }
}

/// Nodes that should lead a shard in a replica: the one that is wanted, and until that is serviceable those that do.
fn leaders(stores: &Stores, replica: &Replica, shard: &ShardName) -> BTreeSet<NodeName> {
    let wanted = stores.leads.get(&(replica.id, shard.clone()));
    let mut leaders: BTreeSet<NodeName> = wanted.into_iter().cloned().collect();
    let successor = wanted.and_then(|node| stores.distribution.get(node, replica.collection, shard));
    let follows = successor.is_some_and(|leader| leader.serviceable);
    if !follows {
        let reported = stores.distribution.leaders(replica.collection, shard).iter();
        let ours = reported.filter(|leader| replica.contains(leader.node.as_str()));
        leaders.extend(ours.map(|leader| leader.node.clone()));
    }
    leaders
}
