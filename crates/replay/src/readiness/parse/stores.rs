//! The stores of a state, each from what the file says of it.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, GroupName, NodeName, PartitionName, SegmentId, ShardName, TargetVersion};
use pointsman_query_coord::{
    Distribution, LeaderReport, LeaderView, LoadKind, LoadRecord, LoadStatus, PartitionLoad, Registrations,
    Replica, Replicas, Target, TargetSegment, Targets,
};

use crate::{ScenarioError, yaml::At};

pub(in super::super) const STATUSES: [(&str, LoadStatus); 2] =
    [("loading", LoadStatus::Loading), ("loaded", LoadStatus::Loaded)];

/// A number that names something.
pub(in super::super) fn id<T: From<u64>>(at: &At<'_>) -> Result<T, ScenarioError> {
    Ok(at.integer::<u64>()?.into())
}

/// A list of such numbers.
pub(in super::super) fn ids<T: From<u64>>(at: &At<'_>) -> Result<Vec<T>, ScenarioError> {
    at.list()?.iter().map(id).collect()
}

/// A node by its number, which is its name as well: each has one incarnation.
pub(in super::super) fn node(at: &At<'_>) -> Result<NodeName, ScenarioError> {
    at.literal(&at.integer::<u64>()?.to_string())
}

/// A group by its name; the empty one is the default group.
pub(in super::super) fn group(at: &At<'_>) -> Result<GroupName, ScenarioError> {
    if at.text()?.is_empty() { Ok(GroupName::default_group()) } else { at.parsed() }
}

/// Entries of a map that are not null.
pub(in super::super) fn entries<'a>(at: &At<'a>) -> Result<Vec<(At<'a>, At<'a>)>, ScenarioError> {
    Ok(at.entries()?.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

/// Registrations of loads.
pub(in super::super) fn registrations(at: &At<'_>) -> Result<Registrations, ScenarioError> {
    entries(at)?.iter().map(|(key, value)| record(id(key)?, value)).collect()
}

fn record(collection: CollectionId, at: &At<'_>) -> Result<LoadRecord, ScenarioError> {
    let mut fields = at.fields()?;
    let status = fields.given("status", |at| at.word(&STATUSES))?.unwrap_or(LoadStatus::Loading);
    let percentages = fields.given("partitions", percentages)?.unwrap_or_default();
    fields.finish()?;
    let partition = |(name, percent)| (name, PartitionLoad { status, percent, created_at: 0, updated_at: 0 });
    let mut record = LoadRecord {
        collection,
        replicas: 1,
        kind: LoadKind::Collection,
        status,
        percent: 0,
        created_at: 0,
        updated_at: 0,
        recoveries: 0,
        replicas_chosen: false,
        partitions: percentages.into_iter().map(partition).collect(),
    };
    record.percent = record.average().unwrap_or_default();
    Ok(record)
}

fn percentages(at: &At<'_>) -> Result<Vec<(PartitionName, u8)>, ScenarioError> {
    let percentage = |(key, value): &(At<'_>, At<'_>)| match value.integer()? {
        percent @ 0..=100 => Ok((key.parsed()?, percent)),
        percent => Err(value.error(format_args!("{percent} is no percentage; those are 0 to 100"))),
    };
    entries(at)?.iter().map(percentage).collect()
}

/// Replicas, in the order of their creation.
pub(in super::super) fn replicas(at: &At<'_>) -> Result<Replicas, ScenarioError> {
    let (mut all, mut seen) = (Replicas::default(), BTreeSet::new());
    for at in at.list()? {
        let replica = replica(&at)?;
        if !seen.insert((replica.collection, replica.id)) {
            let text =
                format_args!("replica {} of collection {} stands twice", replica.id, replica.collection);
            return Err(at.error(text));
        }
        all.insert(replica);
    }
    Ok(all)
}

fn replica(at: &At<'_>) -> Result<Replica, ScenarioError> {
    let nodes = |at: &At<'_>| at.list()?.iter().map(node).collect::<Result<BTreeSet<_>, _>>();
    let mut fields = at.fields()?;
    let replica = Replica {
        id: id(&fields.require("id")?)?,
        collection: id(&fields.require("collection")?)?,
        group: fields.given("resource_group", group)?.unwrap_or_else(GroupName::default_group),
        nodes: fields.given("nodes", nodes)?.unwrap_or_default(),
        ro_nodes: fields.given("ro_nodes", nodes)?.unwrap_or_default(),
        query_visible: fields.given("query_visible", At::boolean)?.unwrap_or(true),
        finished: false,
        waits_for_group_since: None,
    };
    fields.finish()?;
    Ok(replica)
}

/// Current and next targets.
pub(in super::super) fn targets(at: &At<'_>) -> Result<Targets, ScenarioError> {
    let mut targets = Targets::default();
    let mut fields = at.fields()?;
    let by_collection = |at: &At<'_>| {
        entries(at)?.iter().map(|(key, value)| target(id(key)?, value)).collect::<Result<Vec<_>, _>>()
    };
    let current = fields.given("current", by_collection)?.unwrap_or_default();
    let next = fields.given("next", by_collection)?.unwrap_or_default();
    fields.finish()?;
    current.into_iter().for_each(|target| targets.set_current(target));
    next.into_iter().for_each(|target| targets.set_next(target));
    Ok(targets)
}

fn target(collection: CollectionId, at: &At<'_>) -> Result<Target, ScenarioError> {
    let names = |at: &At<'_>| at.list()?.iter().map(At::parsed).collect::<Result<Vec<ShardName>, _>>();
    let mut fields = at.fields()?;
    let shards = fields.given("shards", names)?.unwrap_or_default();
    let segments = fields.given("segments", segments)?.unwrap_or_default();
    fields.finish()?;
    // Files tell no versions; all are equal.
    Ok(Target::new(collection, TargetVersion::default(), shards, [], segments))
}

/// Partition -> shard -> segments. A segment has one shard.
fn segments(at: &At<'_>) -> Result<Vec<TargetSegment>, ScenarioError> {
    let mut shards: BTreeMap<SegmentId, ShardName> = BTreeMap::new();
    let mut segments = Vec::new();
    for (partition, by_shard) in entries(at)? {
        let partition: PartitionName = partition.parsed()?;
        for (shard, listed) in entries(&by_shard)? {
            let shard: ShardName = shard.parsed()?;
            for at in listed.list()? {
                let id = id(&at)?;
                let first = shards.entry(id).or_insert_with(|| shard.clone());
                if *first != shard {
                    return Err(at.error(format_args!("segment {id} stands in shard '{first}' as well")));
                }
                segments.push(TargetSegment { id, partition: partition.clone(), shard: shard.clone() });
            }
        }
    }
    Ok(segments)
}

/// What nodes report to lead. Their order says nothing.
pub(in super::super) fn leaders(at: &At<'_>) -> Result<Distribution, ScenarioError> {
    let (mut all, mut seen) = (Distribution::default(), BTreeSet::new());
    for at in at.list()? {
        let leader = leader(&at)?;
        if !seen.insert((leader.node_id, leader.collection, leader.shard.clone())) {
            let LeaderReport { node, collection, shard, .. } = leader;
            return Err(
                at.error(format_args!("node {node} leads shard '{shard}' of collection {collection} twice"))
            );
        }
        all.insert(leader);
    }
    Ok(all)
}

fn leader(at: &At<'_>) -> Result<LeaderReport, ScenarioError> {
    let mut fields = at.fields()?;
    let on = fields.require("node")?;
    let (node, node_id) = (node(&on)?, id(&on)?);
    let leader = LeaderReport {
        collection: id(&fields.require("collection")?)?,
        shard: fields.require("shard")?.parsed()?,
        version: fields.given("version", At::integer)?.unwrap_or(1),
        target_version: TargetVersion::default(),
        serviceable: fields.given("serviceable", At::boolean)?.unwrap_or(true),
        view: fields.given("segments", |at| view(at, &node))?.unwrap_or_default(),
        node,
        node_id,
    };
    fields.finish()?;
    Ok(leader)
}

/// A list, hosted by the leader itself, or a map segment -> node.
fn view(at: &At<'_>, leader: &NodeName) -> Result<LeaderView, ScenarioError> {
    if at.is_list() {
        return Ok(LeaderView::new(ids(at)?.into_iter().map(|segment| (segment, leader.clone()))));
    }
    let hosted = |(key, value): &(At<'_>, At<'_>)| Ok((id(key)?, node(value)?));
    Ok(LeaderView::new(entries(at)?.iter().map(hosted).collect::<Result<Vec<_>, ScenarioError>>()?))
}
