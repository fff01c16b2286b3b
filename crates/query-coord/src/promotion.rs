//! When the next target of a collection becomes what is served, and which view each leader should serve.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::{CollectionId, SegmentId, ShardName, TargetVersion};

use crate::{LeaderReport, Replica, Stores, Target, data_ready};

/// Leaders of the next target's shards in all replicas that could serve it or do, and the target itself.
struct Gathered<'a> {
    next: &'a Arc<Target>,
    leaders: Vec<&'a LeaderReport>,
}

impl<'a> Gathered<'a> {
    /// `None` when there is no next target, or one without a shard.
    fn of(stores: &'a Stores, collection: CollectionId) -> Option<Self> {
        let next = stores.targets.next(collection).filter(|next| next.has_shard())?;
        let mut leaders = Vec::new();
        for shard in &next.shards {
            let reported = stores.distribution.leaders(collection, &shard.name).iter().map(AsRef::as_ref);
            let ours = reported.filter(|leader| has_replica(stores, leader));
            leaders.extend(ours.filter(|leader| serves(stores, leader, next)));
        }
        Some(Self { next, leaders })
    }

    /// Whether one leader at least of every shard is among them; different replicas may have different ones.
    fn covers(&self) -> bool {
        let led: BTreeSet<&ShardName> = self.leaders.iter().map(|leader| &leader.shard).collect();
        self.next.shards.iter().all(|shard| led.contains(&shard.name))
    }

    /// Whether every one of them serves the next target's view.
    fn is_synced(&self) -> bool {
        self.leaders.iter().all(|leader| leader.target_version == self.next.version)
    }
}

fn has_replica(stores: &Stores, leader: &LeaderReport) -> bool {
    stores.replicas_of(leader.collection).any(|replica| replica.contains(leader.node.as_str()))
}

fn serves(stores: &Stores, leader: &LeaderReport, next: &Target) -> bool {
    let has_it = leader.target_version == next.version && leader.serviceable;
    has_it || data_ready(stores, leader, next).is_ok()
}

/// Whether every segment of a target is reported by some node. A segment never changes, so no report can be older than
/// the target.
fn is_reported(stores: &Stores, target: &Target) -> bool {
    target.segments().all(|segment| stores.holders(segment).next().is_some())
}

/// What is to be done about the next target of a collection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// There is none, or nobody could serve all of it.
    Wait,
    /// Between them leaders could serve all of it: those that could are to take its view.
    Sync,
    /// All leaders that could serve it do, and between them they serve all of it.
    Promote,
}

/// Decides about the next target. `needs_reports`: every segment of it must also be reported by some node.
pub fn next_step(stores: &Stores, collection: CollectionId, needs_reports: bool) -> NextStep {
    let Some(gathered) = Gathered::of(stores, collection).filter(Gathered::covers) else {
        return NextStep::Wait;
    };
    if needs_reports && !is_reported(stores, gathered.next) {
        return NextStep::Wait;
    }
    if gathered.is_synced() { NextStep::Promote } else { NextStep::Sync }
}

/// The target whose view a leader should serve, by what it reports: the next one if it has it already, if it is to be
/// synced, or while nothing is served yet; the current one if it has it or could serve it. `None`: it keeps the view
/// that it has, which it serves whole while it catches up.
pub fn wished_view<'a>(
    stores: &'a Stores,
    collection: CollectionId,
    leader: Option<&LeaderReport>,
    step: NextStep,
) -> Option<&'a Arc<Target>> {
    let (current, next) = (stores.targets.current(collection), stores.targets.next(collection));
    let has = leader.map_or(TargetVersion(0), |leader| leader.target_version);
    let ready = |target: &Target| leader.is_some_and(|leader| data_ready(stores, leader, target).is_ok());
    if let Some(next) = next
        && (has == next.version || current.is_none() || (step != NextStep::Wait && ready(next)))
    {
        return Some(next);
    }
    current.filter(|current| has == current.version || ready(current))
}

/// Whether one of a replica's leaders still answers for a segment that no target has: with a former view, until it has a
/// newer one.
pub fn retains(stores: &Stores, replica: &Replica, segment: SegmentId) -> bool {
    let collection = replica.collection;
    let Some(segment) = stores.segment(collection, segment).map(|segment| &segment.segment) else {
        return false;
    };
    let targets = [stores.targets.current(collection), stores.targets.next(collection)];
    let newest = |leader: &LeaderReport| {
        targets.into_iter().flatten().any(|target| target.version == leader.target_version)
    };
    let leaders = stores.distribution.leaders(collection, &segment.shard).iter();
    let mut former = leaders.filter(|leader| leader.target_version != TargetVersion(0) && !newest(leader));
    former.any(|leader| {
        replica.contains(leader.node.as_str()) && leader.view.segments().binary_search(&segment.id).is_ok()
    })
}
