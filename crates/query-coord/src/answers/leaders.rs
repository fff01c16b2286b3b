//! Route to whom: the leaders of every shard, each with the group of its replica.

use std::sync::Arc;

use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, NodeId, NodeName, ShardName};

use super::{causes::Judge, checks::Loaded};
use crate::{KnownNodes, LoadRecord, LoadStatus, Replica, Target, TargetShard, Wired};

/// How strictly leaders are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Only leaders that can answer, one per shard at least, of a collection that has finished loading.
    Strict,
    /// All elected leaders, also those that cannot answer yet; a shard may have none.
    Loose,
}

/// The leaders of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLeaders {
    /// The shard.
    pub shard: ShardName,
    /// Its leaders, in the order of their replicas.
    pub leaders: Vec<ListedLeader>,
}

/// A leader as callers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLeader {
    /// Its node.
    pub node: NodeName,
    /// Number of the node's name and incarnation.
    pub node_id: NodeId,
    /// Where the node listens.
    pub address: String,
    /// Whether it can answer for its shard.
    pub serviceable: bool,
    /// The group of the replica that it leads in, whatever group its node is a member of.
    pub group: GroupName,
}

/// The leaders of every shard of the current target in the visible replicas, shards in bytewise order. There is no
/// filter by group: every leader is tagged with one, so that one answer serves all groups.
///
/// # Errors
/// `service_not_ready` while stores are missing; `collection_not_loaded` when it is not registered;
/// `collection_on_recovering` while the current target has no shard. In the strict form also
/// `collection_not_fully_loaded` for a load that has not finished, and `channel_not_available` naming the first shard that
/// nobody serves. The messages say why, as far as it is known.
pub fn shard_leaders(
    stores: &Wired<'_>,
    collection: CollectionId,
    form: Form,
) -> Result<Vec<ShardLeaders>, Error> {
    let (loaded, nodes) = (stores.loaded()?, stores.nodes()?);
    let judge = Judge { loaded, nodes, collection, sees_invisible: false };
    let record = loaded.registrations.get(collection).filter(|record| record.average().is_some());
    let record = record.ok_or_else(|| stores.not_loaded(collection))?;
    if form == Form::Strict {
        pass_gate(&judge, record)?;
    }
    list(&judge, form)
}

/// The strict form over all replicas, also those that queries cannot see, for a registered collection.
pub(super) fn check_all_replicas(
    loaded: Loaded<'_>,
    nodes: &KnownNodes,
    record: &LoadRecord,
) -> Result<(), Error> {
    let judge = Judge { loaded, nodes, collection: record.collection, sees_invisible: true };
    pass_gate(&judge, record)?;
    list(&judge, Form::Strict).map(drop)
}

/// Lets a load through that has finished: `loaded` counts as 100.
fn pass_gate(judge: &Judge<'_>, record: &LoadRecord) -> Result<(), Error> {
    let average = record.average().unwrap_or_default();
    if record.status == LoadStatus::Loaded || average >= 100 {
        return Ok(());
    }
    let text =
        format!("collection {} is loaded to {average} percent; {}", record.collection, judge.awaited());
    Err(Error::new(ErrorCode::CollectionNotFullyLoaded, text))
}

fn list(judge: &Judge<'_>, form: Form) -> Result<Vec<ShardLeaders>, Error> {
    let collection = judge.collection;
    let current = judge.loaded.targets.current(collection).filter(|current| current.has_shard());
    let Some(current) = current else {
        let text =
            format!("collection {collection} recovers, its current target has no shard; {}", judge.awaited());
        return Err(Error::new(ErrorCode::CollectionOnRecovering, text));
    };
    let replicas = judge.loaded.replicas_in(collection, None);
    let shards = current.listed_shards().map(|shard| {
        let listed = replicas.iter().filter_map(|replica| judge.listed(&shard.name, replica, form));
        let leaders: Vec<ListedLeader> = listed.collect();
        if form == Form::Strict && leaders.is_empty() {
            let causes = judge.causes(shard, &replicas).short();
            let text = format!(
                "shard '{}' of collection {collection} has no leader that can serve: {causes}",
                shard.name
            );
            return Err(Error::new(ErrorCode::ChannelNotAvailable, text));
        }
        Ok(ShardLeaders { shard: shard.name.clone(), leaders })
    });
    shards.collect()
}

impl Judge<'_> {
    /// The elected leader of a replica as it is listed, all of it in one step, so that one that is skipped shifts nothing.
    fn listed(&self, shard: &ShardName, replica: &Replica, form: Form) -> Option<ListedLeader> {
        let leader = self.leader(shard, replica).ok()?;
        let node = self.nodes.of(leader)?;
        let counts = form == Form::Loose || leader.serviceable;
        counts.then(|| ListedLeader {
            node: leader.node.clone(),
            node_id: leader.node_id,
            address: node.address.clone(),
            serviceable: leader.serviceable,
            group: replica.group.clone(),
        })
    }

    /// What a load that is not there yet waits for: the first shard that nobody serves.
    fn awaited(&self) -> String {
        let targets = &self.loaded.targets;
        let with_shards = |target: &&Arc<Target>| target.has_shard();
        let current = targets.current(self.collection).filter(with_shards);
        let Some(target) = current.or_else(|| targets.next(self.collection).filter(with_shards)) else {
            return "a target is still to be made of what the catalog holds".to_owned();
        };
        let replicas = self.loaded.replicas_in(self.collection, None);
        let is_served =
            |shard: &TargetShard| replicas.iter().any(|replica| self.serving(&shard.name, replica).is_ok());
        match target.listed_shards().find(|shard| !is_served(shard)) {
            Some(shard) => format!("shard '{}': {}", shard.name, self.causes(shard, &replicas).short()),
            None => "every shard has a leader that can serve; segments are still being loaded".to_owned(),
        }
    }
}
