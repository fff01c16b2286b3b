//! What people are told about a load.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, Error, GroupName, NodeName, SegmentName};

use crate::{
    LoadStatus, Replica, Stores, Target, Wired,
    answers::{self, Readiness, ReplicaProgress},
};

/// At most so many failures are told per group.
const FAILURES: usize = 10;

/// How far the load of a collection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// The collection.
    pub collection: CollectionId,
    /// Declared number of replicas.
    pub replicas: u32,
    /// Whether it reached 100 once.
    pub loaded: bool,
    /// Collection-wide figure, 0 to 100. It never falls.
    pub percent: u8,
    /// Whether there is a current target.
    pub serving: bool,
    /// Per group that has a replica, by name.
    pub groups: BTreeMap<GroupName, GroupProgress>,
    /// Segments of the newest target.
    pub segments: u64,
    /// Rows of the newest target.
    pub rows: u64,
}

/// How far the load of a collection is in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupProgress {
    /// How much of the newest target the furthest-behind replica carries now, 0 to 100.
    pub percent: u8,
    /// Replicas in this group.
    pub replicas: u32,
    /// Copies that should be held.
    pub wanted: u64,
    /// Copies that are held.
    pub held: u64,
    /// Whether the group's visible replicas can serve every shard of the current target now, and if not why.
    pub readiness: Readiness,
    /// Where its load stands.
    pub phase: LoadPhase,
    /// Copies that could not be loaded, at most 10.
    pub failures: Vec<CopyFailure>,
    /// Nodes of the group's replicas.
    pub nodes: BTreeSet<NodeName>,
}

/// Where the load of a group stands, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPhase {
    /// It never served everything so far.
    Loading,
    /// It serves everything.
    Serving,
    /// It served everything once and does not now. It heals by itself.
    Recovering,
}

/// A copy that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFailure {
    /// The node that tried.
    pub node: NodeName,
    /// The segment.
    pub segment: SegmentName,
    /// How often it was tried.
    pub tries: u32,
    /// What went wrong last.
    pub error: Error,
}

/// How far the load of a collection is, in all groups or in one. `known` is what these stores know at this moment.
///
/// # Errors
/// `collection_not_loaded` when it is not registered, with the text of a recorded failure if there is one.
pub fn show_load(
    stores: &Stores,
    known: &Wired<'_>,
    collection: CollectionId,
    group: Option<&GroupName>,
) -> Result<LoadProgress, Error> {
    let registered = answers::show_load(known, collection)?;
    let figures = answers::replica_progress(known, collection, None)?;
    let target = stores.next_first(collection);
    let mut members: BTreeMap<GroupName, Vec<&Replica>> = BTreeMap::new();
    for replica in stores.replicas_of(collection).filter(|replica| group.is_none_or(|g| replica.group == *g))
    {
        members.entry(replica.group.clone()).or_default().push(replica);
    }
    let progress = |(name, replicas): (GroupName, Vec<&Replica>)| {
        let figures = figures.iter().filter(|figure| figure.group == name);
        let percent = figures.map(ReplicaProgress::percentage).min().unwrap_or(0);
        let readiness = answers::readiness(known, collection, Some(name.as_str()));
        let progress = group_progress(stores, collection, &replicas, target, (percent, readiness));
        (name, progress)
    };
    let segments = || target.into_iter().flat_map(|target| target.segments());
    let rows = |id| stores.segment(collection, id).map_or(0, |segment| segment.segment.content.rows);
    Ok(LoadProgress {
        collection,
        replicas: stores.loads.get(collection).map_or(0, |record| record.replicas),
        loaded: registered.status == LoadStatus::Loaded,
        percent: registered.percentage,
        serving: stores.targets.current(collection).is_some(),
        groups: members.into_iter().map(progress).collect(),
        segments: segments().count() as u64,
        rows: segments().map(rows).sum(),
    })
}

fn group_progress(
    stores: &Stores,
    collection: CollectionId,
    replicas: &[&Replica],
    target: Option<&Target>,
    (percent, readiness): (u8, Readiness),
) -> GroupProgress {
    let held = |replica: &&Replica| {
        let segments = target.into_iter().flat_map(|target| target.segments());
        segments.filter(|segment| stores.replica_carries(replica, *segment)).count()
    };
    let each = target.map_or(0, |target| target.segment_count());
    let phase = match readiness.is_ready() {
        true => LoadPhase::Serving,
        false if replicas.iter().any(|replica| replica.finished) => LoadPhase::Recovering,
        false => LoadPhase::Loading,
    };
    GroupProgress {
        percent,
        replicas: u32::try_from(replicas.len()).unwrap_or(u32::MAX),
        wanted: (each * replicas.len()) as u64,
        held: replicas.iter().map(held).sum::<usize>() as u64,
        readiness,
        phase,
        failures: failures(stores, collection, replicas),
        nodes: replicas.iter().flat_map(|replica| replica.all_nodes()).cloned().collect(),
    }
}

fn failures(stores: &Stores, collection: CollectionId, replicas: &[&Replica]) -> Vec<CopyFailure> {
    let mut told = Vec::new();
    for id in stores.wanted(collection) {
        let Some(nodes) = stores.failures.get(&id) else { continue };
        let Some(segment) = stores.segment(collection, id) else { continue };
        let lacking = |node: &NodeName| {
            replicas
                .iter()
                .any(|replica| replica.contains(node.as_str()) && !stores.replica_carries(replica, id))
        };
        for (node, failure) in nodes.iter().filter(|(node, _)| lacking(node)) {
            told.push(CopyFailure {
                node: node.clone(),
                segment: segment.segment.content.name.clone(),
                tries: failure.tries,
                error: failure.error.clone(),
            });
            if told.len() == FAILURES {
                return told;
            }
        }
    }
    told
}
