//! What a leader, and with all its leaders a replica, can answer for.

use pointsman_ids::{CollectionId, Error, ErrorCode, ShardName};

use crate::{LeaderReport, Replica, Stores, Target, TargetShard, elected};

/// Whether a leader could serve its shard as `target` has it: its node is known, and every segment of the shard stands
/// in its view, hosted on a known node.
///
/// # Errors
/// `node_offline` naming the node that is not known, `channel_not_available` when the target has no such shard,
/// `segment_lack` naming the first segment that is not in the view.
pub fn data_ready(stores: &Stores, leader: &LeaderReport, target: &Target) -> Result<(), Error> {
    if !stores.is_known(leader.node.as_str()) {
        return Err(offline(leader.node.as_str()));
    }
    let shard = target.shard(leader.shard.as_str()).ok_or_else(|| {
        Error::new(ErrorCode::ChannelNotAvailable, format!("the target has no shard '{}'", leader.shard))
    })?;
    let unknown: Vec<bool> = leader.view.hosts().iter().map(|host| !stores.is_known(host.as_str())).collect();
    covers(leader, shard, &unknown)
}

/// Walks the shard's segments and the view side by side; both are ascending.
fn covers(leader: &LeaderReport, shard: &TargetShard, unknown: &[bool]) -> Result<(), Error> {
    let mut view = leader.view.segments().iter().zip(leader.view.host_places());
    for wanted in &shard.segments {
        let host = view.find(|(segment, _)| *segment >= wanted).filter(|(segment, _)| *segment == wanted);
        let Some((_, place)) = host else {
            let text =
                format!("the leader of shard '{}' on '{}' lacks segment {wanted}", leader.shard, leader.node);
            return Err(Error::new(ErrorCode::SegmentLack, text));
        };
        let place = usize::try_from(*place).unwrap_or(usize::MAX);
        if unknown.get(place).copied().unwrap_or(true) {
            return Err(offline(leader.view.hosts().get(place).map_or("", |host| host.as_str())));
        }
    }
    Ok(())
}

fn offline(node: &str) -> Error {
    Error::new(ErrorCode::NodeOffline, format!("node '{node}' is not known"))
}

/// The leader that stands for a replica in a shard of its collection.
pub(crate) fn leader_of<'a>(
    stores: &'a Stores,
    replica: &Replica,
    shard: &ShardName,
) -> Option<&'a LeaderReport> {
    elected(stores.distribution.leaders(replica.collection, shard), replica).map(AsRef::as_ref)
}

/// Whether a replica's elected leader of a shard can answer for it now, and can be reached.
pub(crate) fn serves(stores: &Stores, replica: &Replica, shard: &ShardName) -> bool {
    let leader = leader_of(stores, replica, shard);
    leader.is_some_and(|leader| leader.serviceable && stores.is_known(leader.node.as_str()))
}

/// Whether a replica is serviceable: the current target has a shard, and for each of its shards the elected leader is
/// serviceable and could serve it as the current target has it.
pub fn is_serviceable(stores: &Stores, replica: &Replica) -> bool {
    every_shard(stores, replica, |shard, current| {
        let leader = leader_of(stores, replica, shard);
        leader.is_some_and(|leader| leader.serviceable && data_ready(stores, leader, current).is_ok())
    })
}

/// Whether a replica alone serves every shard of the current target: the elected leader is serviceable and on a known
/// node.
pub fn serves_alone(stores: &Stores, replica: &Replica) -> bool {
    every_shard(stores, replica, |shard, _| serves(stores, replica, shard))
}

fn every_shard(stores: &Stores, replica: &Replica, holds: impl Fn(&ShardName, &Target) -> bool) -> bool {
    let current = stores.targets.current(replica.collection).filter(|target| target.has_shard());
    current.is_some_and(|current| current.listed_shards().all(|shard| holds(&shard.name, current)))
}

/// Replicas that are serviceable for the first time, marked as finished.
pub fn finished_replicas(stores: &Stores, collection: CollectionId) -> Vec<Replica> {
    let fresh = stores.replicas_of(collection).filter(|replica| !replica.finished);
    let fresh = fresh.filter(|replica| is_serviceable(stores, replica));
    fresh.map(|replica| Replica { finished: true, ..replica.clone() }).collect()
}
