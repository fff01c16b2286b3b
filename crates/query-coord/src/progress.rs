//! How far loads are: what the progress observer writes.

use std::{collections::BTreeMap, time::Duration};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, PartitionName, SegmentId, ShardName};

use crate::{
    LeaderReport, LoadRecord, LoadStatus, PartitionLoad, Replica, Scope, Stores, Target, TargetShard,
};

/// Progress within one percent is written when the last write is older than this part of the timeout, so that a large
/// load that goes on slowly does not count as standing still.
const TOUCH: u32 = 10;

/// How much of a partition was carried, in shards and segments over all replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    last: u64,
    best: u64,
}

/// What the observer remembers of the loads that have not finished.
#[derive(Clone, Debug, Default)]
pub struct CarriedCounts(BTreeMap<(CollectionId, PartitionName), Seen>);

impl CarriedCounts {
    /// Forgets collections of which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(CollectionId) -> bool) {
        self.0.retain(|(collection, _), _| stays(*collection));
    }
}

/// What one look at a load came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The registration with the progress that was made; `None`: there is nothing to write.
    pub record: Option<LoadRecord>,
    /// All of a partition is carried and the current target does not cover it yet: look whether the next one can be
    /// promoted.
    pub promote: bool,
}

/// Looks at a load that has not finished. Percentages never fall. A partition becomes loaded when everything of its
/// newest target is carried by as many replicas as were declared, and the current target covers it; the collection when
/// all of its partitions are. `timeout` is that of loads.
pub fn observe(
    stores: &Stores,
    collection: CollectionId,
    counts: &mut CarriedCounts,
    now: WallTime,
    timeout: Duration,
) -> Round {
    let mut round = Round::default();
    let Some(record) = stores.loads.get(collection).filter(|record| record.status == LoadStatus::Loading)
    else {
        return round;
    };
    let carried = Carried::of(stores, collection);
    let mut written = record.clone();
    for (name, load) in record.partitions.iter().filter(|(_, load)| load.percent < 100) {
        let Some((count, total)) = carried.in_partition(name, record.replicas) else { continue };
        let percent = percent(count, total);
        let seen = counts.0.entry((collection, name.clone())).or_default();
        let grown = count > seen.last;
        let further = count > seen.best;
        *seen = Seen { last: count, best: seen.best.max(count) };
        if percent == 100 && !carried.is_served(name) {
            round.promote = true;
            continue;
        }
        let touch = further && percent == load.percent && is_old(load, now, timeout);
        if percent == 100 || (grown && percent > load.percent) || touch {
            written.partitions.insert(name.clone(), load.reached(percent, now));
        }
    }
    if written != *record {
        round.record = Some(written.averaged(now));
    }
    round
}

fn is_old(load: &PartitionLoad, now: WallTime, timeout: Duration) -> bool {
    let age = Duration::from_nanos(now.0.saturating_sub(load.updated_at));
    age >= timeout / TOUCH
}

fn percent(carried: u64, total: u64) -> u8 {
    let percent = carried.saturating_mul(100).checked_div(total).unwrap_or(0);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

/// The targets of a collection with the leaders of each shard, one list per replica.
struct Carried<'a> {
    current: Option<&'a Target>,
    /// Candidates, the next one first, each with what there is of its partitions.
    targets: Vec<(&'a Target, Vec<Segments>)>,
    leaders: BTreeMap<&'a ShardName, Vec<Vec<&'a LeaderReport>>>,
}

/// Segments of one partition.
#[derive(Clone, Copy, Debug, Default)]
struct Segments {
    listed: usize,
    /// Of each as many as replicas carry it.
    carried: usize,
}

impl<'a> Carried<'a> {
    fn of(stores: &'a Stores, collection: CollectionId) -> Self {
        let targets: Vec<&Target> =
            stores.targets.candidates(collection, Scope::NextFirst).map(AsRef::as_ref).collect();
        let shards = targets.iter().flat_map(|target| &target.shards);
        let leaders = shards.map(|shard| (&shard.name, by_replica(stores, collection, &shard.name)));
        let leaders: BTreeMap<_, _> = leaders.collect();
        let targets = targets.into_iter().map(|target| (target, by_partition(target, &leaders))).collect();
        let current = stores.targets.current(collection).map(AsRef::as_ref);
        Self { current, targets, leaders }
    }

    /// How much of a partition is carried, and how much of it there is for so many replicas; `None`: there is nothing.
    ///
    /// Shards are those of the first target, segments those of the first one that has any of the partition.
    fn in_partition(&self, name: &PartitionName, replicas: u32) -> Option<(u64, u64)> {
        let shards: Vec<&TargetShard> = self.targets.first()?.0.listed_shards().collect();
        let mut carried: usize = shards.iter().map(|shard| self.leading(&shard.name)).sum();
        let mut total = shards.len();
        for (target, partitions) in &self.targets {
            let place = target.partition(name.as_str()).and_then(|place| usize::try_from(place).ok());
            let segments = place.and_then(|place| partitions.get(place)).copied().unwrap_or_default();
            carried += segments.carried;
            total += segments.listed;
            if segments.listed > 0 {
                break;
            }
        }
        (total > 0).then(|| (carried as u64, (total as u64).saturating_mul(u64::from(replicas))))
    }

    /// How many replicas have a leader of the shard.
    fn leading(&self, shard: &ShardName) -> usize {
        let replicas = self.leaders.get(shard).into_iter().flatten();
        replicas.filter(|leaders| !leaders.is_empty()).count()
    }

    fn is_served(&self, name: &PartitionName) -> bool {
        self.current.is_some_and(|current| current.covers(Some(name.as_str())))
    }
}

/// Segments of a target's partitions, in their order. Costs one pass over the target and every view.
fn by_partition(target: &Target, leaders: &BTreeMap<&ShardName, Vec<Vec<&LeaderReport>>>) -> Vec<Segments> {
    let mut partitions = vec![Segments::default(); target.partitions.len()];
    for shard in &target.shards {
        let mut count = |at: usize, count: fn(&mut Segments)| {
            let place = shard.partitions.get(at).and_then(|place| usize::try_from(*place).ok());
            if let Some(partition) = place.and_then(|place| partitions.get_mut(place)) {
                count(partition);
            }
        };
        (0..shard.segments.len()).for_each(|at| count(at, |partition| partition.listed += 1));
        for leaders in leaders.get(&shard.name).into_iter().flatten() {
            let mut views: Vec<&[SegmentId]> = leaders.iter().map(|leader| leader.view.segments()).collect();
            for (at, segment) in shard.segments.iter().enumerate() {
                if stands_in_any(*segment, &mut views) {
                    count(at, |partition| partition.carried += 1);
                }
            }
        }
    }
    partitions
}

/// Whether one of the views lists the segment. What lies below it is cut off from them: segments are asked for in order.
fn stands_in_any(segment: SegmentId, views: &mut [&[SegmentId]]) -> bool {
    for view in &mut *views {
        while let [first, rest @ ..] = view
            && *first < segment
        {
            *view = rest;
        }
    }
    views.iter().any(|view| view.first() == Some(&segment))
}

fn by_replica<'a>(
    stores: &'a Stores,
    collection: CollectionId,
    shard: &ShardName,
) -> Vec<Vec<&'a LeaderReport>> {
    let leaders = stores.distribution.leaders(collection, shard);
    let of = |replica: &Replica| {
        let ours = leaders.iter().filter(|leader| replica.contains(leader.node.as_str()));
        ours.map(AsRef::as_ref).collect()
    };
    stores.replicas_of(collection).map(of).collect()
}

impl PartitionLoad {
    /// The same with this percentage. At 100 it is loaded.
    #[must_use]
    pub fn reached(&self, percent: u8, now: WallTime) -> Self {
        let status = if percent >= 100 { LoadStatus::Loaded } else { self.status };
        Self { status, percent, updated_at: now.0, ..self.clone() }
    }
}

impl LoadRecord {
    /// The same with the average of its partitions. At 100 it is loaded, and starts of the coordinator count from 0.
    #[must_use]
    pub fn averaged(mut self, now: WallTime) -> Self {
        self.percent = self.average().unwrap_or(0);
        self.updated_at = now.0;
        if self.percent >= 100 {
            self.status = LoadStatus::Loaded;
            self.recoveries = 0;
        }
        self
    }
}
