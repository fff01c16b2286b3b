//! Why a load stands still.

use std::{fmt, time::Duration};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, GroupName, NodeName, SegmentName, ShardName};

use crate::{LoadStatus, Replica, SegmentReport, Stores, Target, data_ready, ready::leader_of};

/// At most so many causes are told.
const CAUSES: usize = 10;

/// A load that makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// For how long.
    pub since: Duration,
    /// What is in its way, at most 10.
    pub causes: Vec<Obstacle>,
}

/// Something in the way of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The group of the replica.
    pub group: GroupName,
    /// The node that it is about, if there is one.
    pub node: Option<NodeName>,
    /// The segment that it is about, if there is one.
    pub segment: Option<SegmentName>,
    /// What is amiss, and what to do.
    pub why: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resource group '{}'", self.group)?;
        if let Some(node) = &self.node {
            write!(f, ", node '{node}'")?;
        }
        if let Some(segment) = &self.segment {
            write!(f, ", segment '{segment}'")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no progress for {} s", self.since.as_secs())?;
        let causes = self.causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if causes.is_empty() { Ok(()) } else { write!(f, " because of {causes}") }
    }
}

/// Why the load of a collection makes no progress; `None` when it has finished, or made some within `patience`.
pub fn standstill(
    stores: &Stores,
    collection: CollectionId,
    now: WallTime,
    patience: Duration,
) -> Option<Standstill> {
    let record = stores.loads.get(collection).filter(|record| record.status == LoadStatus::Loading)?;
    let since = Duration::from_nanos(now.0.saturating_sub(record.updated_at));
    (since >= patience).then(|| Standstill { since, causes: obstacles(stores, collection) })
}

/// What keeps some replicas of something that is loaded from serving its newest target, once that is as old as `patience`;
/// nothing when it has not finished.
pub fn shortfall(
    stores: &Stores,
    collection: CollectionId,
    now: WallTime,
    patience: Duration,
) -> Vec<Obstacle> {
    let is_loaded = stores.loads.get(collection).is_some_and(|record| record.status == LoadStatus::Loaded);
    let target = stores.next_first(collection).filter(|_| is_loaded);
    // Versions of targets are the times of their pulls, or a little later.
    let is_old = |target: &Target| Duration::from_nanos(now.0.saturating_sub(target.version.0)) >= patience;
    if target.is_some_and(is_old) { obstacles(stores, collection) } else { Vec::new() }
}

/// What is in the way of a load, replica after replica.
pub(super) fn obstacles(stores: &Stores, collection: CollectionId) -> Vec<Obstacle> {
    let mut causes = Vec::new();
    let target = stores.next_first(collection);
    for replica in stores.replicas_of(collection) {
        match target {
            Some(target) => of_replica(stores, replica, target, &mut causes),
            None => causes.push(about(replica, "there is no target yet")),
        }
        if causes.len() >= CAUSES {
            break;
        }
    }
    causes.truncate(CAUSES);
    causes
}

fn about(replica: &Replica, why: &str) -> Obstacle {
    Obstacle { group: replica.group.clone(), node: None, segment: None, why: why.to_owned() }
}

fn of_replica(stores: &Stores, replica: &Replica, target: &Target, causes: &mut Vec<Obstacle>) {
    if replica.nodes.is_empty() {
        let why = if replica.waits_for_group_since.is_some() {
            "it waits for the group to have its nodes; add nodes to it"
        } else {
            "it has no node that takes work; add nodes to the group"
        };
        causes.push(about(replica, why));
        return;
    }
    for node in replica.nodes.iter().filter(|node| !stores.takes_work(node.as_str())) {
        let why = "it takes no work: it is away, stopping or disabled";
        causes.push(Obstacle { node: Some(node.clone()), ..about(replica, why) });
    }
    for node in replica.nodes.iter().filter(|node| stores.penalties.of(node.as_str()).is_some()) {
        let why = "it had no room for a segment; give it a larger cache, or the group more nodes";
        causes.push(Obstacle { node: Some(node.clone()), ..about(replica, why) });
    }
    for shard in &target.shards {
        lacking(stores, replica, target, &shard.segments, causes);
        if causes.len() >= CAUSES {
            return;
        }
        of_leader(stores, replica, &shard.name, target, causes);
    }
}

/// Segments that no node of the replica holds.
fn lacking(
    stores: &Stores,
    replica: &Replica,
    target: &Target,
    segments: &[pointsman_ids::SegmentId],
    causes: &mut Vec<Obstacle>,
) {
    for id in segments.iter().filter(|id| !stores.replica_carries(replica, **id)) {
        let name = stores.segment(target.collection, *id).map(|segment| segment.segment.content.name.clone());
        let tried = stores.failures.get(id).into_iter().flatten();
        let tried = tried.filter(|(node, _)| replica.contains(node.as_str()));
        let mut failed = false;
        for (node, failure) in tried {
            failed = true;
            let why = format!("{} (tried {} times)", failure.error, failure.tries);
            causes.push(Obstacle {
                group: replica.group.clone(),
                node: Some(node.clone()),
                segment: name.clone(),
                why,
            });
        }
        if !failed {
            let place = stores.place_of(replica, *id).cloned();
            let fetching = place.as_ref().and_then(|node| stores.report(node.as_str(), *id));
            let why = match (fetching, &place) {
                (Some(SegmentReport::Fetching), _) => "it is being fetched",
                (_, Some(_)) => "it waits to be fetched",
                (_, None) => "no node of the replica takes it",
            };
            causes.push(Obstacle { node: place, segment: name, ..about(replica, why) });
        }
        if causes.len() >= CAUSES {
            return;
        }
    }
}

fn of_leader(
    stores: &Stores,
    replica: &Replica,
    shard: &ShardName,
    target: &Target,
    causes: &mut Vec<Obstacle>,
) {
    let Some(leader) = leader_of(stores, replica, shard) else {
        let node = stores.leads.get(&(replica.id, shard.clone())).cloned();
        let why = format!("shard '{shard}' has no leader that reports");
        causes.push(Obstacle { node, ..about(replica, &why) });
        return;
    };
    if let Err(error) = data_ready(stores, leader, target) {
        causes.push(Obstacle { node: Some(leader.node.clone()), ..about(replica, error.message()) });
    } else if leader.target_version != target.version {
        let why = format!("the leader of shard '{shard}' has not taken the view of the target yet");
        causes.push(Obstacle { node: Some(leader.node.clone()), ..about(replica, &why) });
    }
}
