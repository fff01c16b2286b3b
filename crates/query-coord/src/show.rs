//! What people are told about a load.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, Error, GroupName, NodeName, SegmentName};

use crate::{LoadStatus, Replica, Stores, Target, progress, replica_percent, serves_shard};

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
    /// Whether the group's visible replicas can serve every shard of the current target now.
    pub ready: bool,
    /// Copies that could not be loaded, at most 10.
    pub failures: Vec<CopyFailure>,
    /// Nodes of the group's replicas.
    pub nodes: BTreeSet<NodeName>,
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

/// How far the load of a collection is, in all groups or in one; `None` when it is not registered.
pub fn show_load(
    stores: &Stores,
    collection: CollectionId,
    group: Option<&GroupName>,
) -> Option<LoadProgress> {
    let record = stores.loads.get(&collection)?;
    let target = stores.next_first(collection);
    let mut members: BTreeMap<GroupName, Vec<&Replica>> = BTreeMap::new();
    for replica in stores.replicas_of(collection).filter(|replica| group.is_none_or(|g| replica.group == *g))
    {
        members.entry(replica.group.clone()).or_default().push(replica);
    }
    let groups = members.into_iter().map(|(name, replicas)| {
        let progress = group_progress(stores, collection, &name, &replicas, target);
        (name, progress)
    });
    let segments = || target.into_iter().flat_map(|target| &target.segments);
    let rows = |id| stores.segment(collection, id).map_or(0, |segment| segment.segment.content.rows);
    Some(LoadProgress {
        collection,
        replicas: record.replicas,
        loaded: record.status == LoadStatus::Loaded,
        percent: record.percent,
        serving: stores.current.contains_key(&collection),
        groups: groups.collect(),
        segments: segments().count() as u64,
        rows: segments().map(|id| rows(*id)).sum(),
    })
}

fn group_progress(
    stores: &Stores,
    collection: CollectionId,
    name: &GroupName,
    replicas: &[&Replica],
    target: Option<&Target>,
) -> GroupProgress {
    let figure = |replica: &&Replica| target.map_or(0, |target| replica_percent(stores, replica, target));
    let carried = |replica: &&Replica| target.map_or(0, |target| progress::carried(stores, replica, target));
    let each = target.map_or(0, |target| target.segments.len());
    GroupProgress {
        percent: replicas.iter().map(figure).min().unwrap_or(0),
        replicas: u32::try_from(replicas.len()).unwrap_or(u32::MAX),
        wanted: (each * replicas.len()) as u64,
        held: replicas.iter().map(carried).sum::<usize>() as u64,
        ready: is_ready(stores, collection, name),
        failures: failures(stores, collection, replicas),
        nodes: replicas
            .iter()
            .flat_map(|replica| replica.nodes.iter().chain(&replica.ro_nodes))
            .cloned()
            .collect(),
    }
}

/// Whether the visible replicas of the group hold every shard of the current target. They may complete each other.
fn is_ready(stores: &Stores, collection: CollectionId, group: &GroupName) -> bool {
    let Some(current) = stores.current.get(&collection) else { return false };
    let serves = |segments: &Vec<_>| serves_shard(stores, collection, Some(group.as_str()), segments);
    stores.by_shard(current).values().all(serves)
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
