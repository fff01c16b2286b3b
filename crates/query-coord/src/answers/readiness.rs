//! May I route there: can the visible replicas of a group serve every shard now.

use pointsman_ids::{CollectionId, Error, ErrorCode, ReadinessReason, ShardName};

use super::causes::{Judge, UnreadyShard};
use crate::{Replica, Target, Wired};

/// The verdict over a group, or over all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// [`ReadinessReason::Ready`], or what is in the way.
    pub reason: ReadinessReason,
    /// The error beside the verdict, if there is one.
    pub error: Option<Error>,
    /// Shards of the current target; 0 when the verdict was reached before they were looked at.
    pub total_shards: usize,
    /// Shards that nobody serves, in bytewise order.
    pub unready_shards: Vec<UnreadyShard>,
    /// Served shards of which every leader that serves them here still works with an older target than the current one.
    /// They decide nothing.
    pub behind: Vec<ShardName>,
}

impl Readiness {
    /// Whether requests may be routed there.
    pub fn is_ready(&self) -> bool {
        self.reason == ReadinessReason::Ready
    }

    /// A verdict that was reached before any shard was looked at.
    fn without_shards(reason: ReadinessReason, error: Option<Error>) -> Self {
        Self { reason, error, total_shards: 0, unready_shards: Vec::new(), behind: Vec::new() }
    }

    /// The verdict for an error of the first checks: the server is not healthy, a store is missing, or the group unknown.
    pub fn refused(error: Error) -> Self {
        let reason = match error.code() {
            ErrorCode::ResourceGroupNotFound => ReadinessReason::ResourceGroupNotFound,
            _ => ReadinessReason::CoordinatorNotReady,
        };
        Self::without_shards(reason, Some(error))
    }
}

/// Whether the visible replicas of the group, of all groups if none is named, can serve every shard of the current
/// target now. They complete each other: different replicas may serve different shards.
///
/// Percentage and status play no part once the collection is registered.
pub fn readiness(stores: &Wired<'_>, collection: CollectionId, group: Option<&str>) -> Readiness {
    judge(stores, collection, group).unwrap_or_else(Readiness::refused)
}

fn judge(stores: &Wired<'_>, collection: CollectionId, group: Option<&str>) -> Result<Readiness, Error> {
    let (loaded, nodes) = (stores.loaded()?, stores.nodes()?);
    let group = stores.filter(group)?;
    if !loaded.registrations.is_registered(collection) {
        let failure = stores.failure(collection);
        return Ok(Readiness::without_shards(ReadinessReason::CollectionNotLoaded, failure));
    }
    // An invisible replica counts here: this verdict means that waiting will never help.
    let replicas = loaded.replicas_in(collection, group);
    if replicas.is_empty() {
        let reason = match group {
            Some(_) => ReadinessReason::NoReplicaInResourceGroup,
            None => ReadinessReason::NoReplica,
        };
        return Ok(Readiness::without_shards(reason, None));
    }
    match loaded.targets.current(collection).filter(|current| current.has_shard()) {
        None => Ok(Readiness::without_shards(ReadinessReason::NoShardInTarget, None)),
        Some(current) => {
            let judge = Judge { loaded, nodes, collection, sees_invisible: false };
            Ok(over_shards(&judge, current, &replicas))
        }
    }
}

fn over_shards(judge: &Judge<'_>, current: &Target, replicas: &[&Replica]) -> Readiness {
    let mut verdict = Readiness::without_shards(ReadinessReason::Ready, None);
    for shard in current.listed_shards() {
        verdict.total_shards += 1;
        let serving = replicas.iter().filter_map(|replica| judge.serving(&shard.name, replica).ok());
        match serving.map(|leader| leader.target_version).max() {
            None => verdict.unready_shards.push(judge.causes(shard, replicas)),
            Some(newest) if newest < current.version => verdict.behind.push(shard.name.clone()),
            Some(_) => {}
        }
    }
    if !verdict.unready_shards.is_empty() {
        verdict.reason = ReadinessReason::ShardsWithoutLeader;
    }
    verdict
}
