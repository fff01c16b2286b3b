//! How far a load is, per group: how much of what is asked of it does the group carry now.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, Error, GroupName, ReplicaId};

use super::{
    checks::Loaded,
    overlap::{Marks, Wanted},
};
use crate::{Replica, Scope, Wired};

/// How much of the newest target a replica carries. Shards and segments are targets alike, over all partitions together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaProgress {
    /// The replica.
    pub replica: ReplicaId,
    /// The group that it lives in.
    pub group: GroupName,
    /// Shards that have a leader on one of its nodes, and segments that such a leader of their shard lists.
    pub carried: u64,
    /// Shards and segments of the target. 0: it is empty, or there is none.
    pub total: u64,
}

impl ReplicaProgress {
    /// Percent, rounded down, 0 to 100: 0 only when it carries nothing, or has nothing to carry; 100 only when it carries
    /// everything.
    pub fn percentage(&self) -> u8 {
        match self.carried.saturating_mul(100).checked_div(self.total) {
            None => 0,
            Some(0) => u8::from(self.carried > 0),
            Some(percentage) => u8::try_from(percentage).unwrap_or(100).min(100),
        }
    }
}

/// The furthest-behind replica's percentage, 0 to 100. `None`: the group holds no replica of the collection, or it is not
/// registered and no failure is known; on the wire this is -1, also beside an error.
///
/// It looks at the next target, else the current one, and at replicas that queries cannot see, too. It falls as soon as
/// more is asked for: 100 is progress, and whether a group can serve is the question of [`super::readiness`].
///
/// # Errors
/// `service_not_ready` while stores are missing, `resource_group_not_found`, `collection_not_loaded` with the text of the
/// recorded failure.
pub fn load_percentage(
    stores: &Wired<'_>,
    collection: CollectionId,
    group: Option<&str>,
) -> Result<Option<u8>, Error> {
    let replicas = replica_progress(stores, collection, group)?;
    Ok(replicas.iter().map(ReplicaProgress::percentage).min())
}

/// The percentage of every replica of the group; see [`load_percentage`], whose `None` is the empty map here.
///
/// # Errors
/// As there.
pub fn replica_percentages(
    stores: &Wired<'_>,
    collection: CollectionId,
    group: Option<&str>,
) -> Result<BTreeMap<ReplicaId, u8>, Error> {
    let replicas = replica_progress(stores, collection, group)?;
    Ok(replicas.iter().map(|replica| (replica.replica, replica.percentage())).collect())
}

/// What every replica of the group carries, in the order of their creation; see [`load_percentage`].
///
/// # Errors
/// As there.
pub fn replica_progress(
    stores: &Wired<'_>,
    collection: CollectionId,
    group: Option<&str>,
) -> Result<Vec<ReplicaProgress>, Error> {
    let loaded = stores.loaded()?;
    let group = stores.filter(group)?;
    if !loaded.registrations.is_registered(collection) {
        return stores.failure(collection).map_or(Ok(Vec::new()), Err);
    }
    Ok(measure(&loaded, collection, &loaded.replicas_in(collection, group)))
}

/// Reads the target and the leaders of each of its shards once, for all replicas.
fn measure(loaded: &Loaded<'_>, collection: CollectionId, replicas: &[&Replica]) -> Vec<ReplicaProgress> {
    let target = loaded.targets.first(collection, Scope::NextFirst);
    let total = target.map_or(0, |target| target.listed_shards().count() + target.segment_count());
    let mut carried = vec![0; replicas.len()];
    let (mut views, mut marks) = (Vec::new(), Marks::default());
    for shard in target.into_iter().flat_map(|target| &target.shards) {
        let leaders = loaded.distribution.leaders(collection, &shard.name);
        let mut wanted = Wanted::new(&shard.segments, &mut marks);
        for (replica, carried) in replicas.iter().zip(&mut carried) {
            let own = leaders.iter().filter(|leader| replica.contains(leader.node.as_str()));
            views.clear();
            views.extend(own.map(|leader| leader.view.segments()));
            if !views.is_empty() {
                *carried += usize::from(shard.listed) + wanted.carried(&mut views);
            }
        }
    }
    let progress = |(replica, carried): (&&Replica, usize)| ReplicaProgress {
        replica: replica.id,
        group: replica.group.clone(),
        carried: carried as u64,
        total: total as u64,
    };
    replicas.iter().zip(carried).map(progress).collect()
}
