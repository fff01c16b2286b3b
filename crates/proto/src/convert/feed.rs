//! The routing snapshot.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pointsman_ids::{
    CollectionId, Error, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    feed::{
        CollectionEntry, GroupEntry, LeaderEntry, LoadState, NodeEntry, ReplicaEntry, SegmentEntry, Snapshot,
    },
};

use super::{
    catalog::{column_from_proto, column_to_proto, statistics_from_proto, statistics_to_proto},
    columns::{segments_from_columns, segments_to_columns},
    copies::CopyLists,
    invalid,
    options::{millis, routing_from_proto, routing_to_proto},
};
use crate::{broker::v1 as pb, common::v1 as common};

impl From<&Snapshot> for pb::Snapshot {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            cluster: snapshot.cluster.to_string(),
            version: snapshot.version.0,
            nodes: snapshot.nodes.iter().map(node_to_proto).collect(),
            groups: snapshot.groups.iter().map(group_to_proto).collect(),
            collections: snapshot.collections.iter().map(|entry| collection_to_proto(entry)).collect(),
            config: snapshot.config.clone().into_iter().collect(),
        }
    }
}

/// The same with segments as columns, for those who read them: less than half as large.
pub fn snapshot_in_columns(snapshot: &Snapshot) -> pb::Snapshot {
    let head = Snapshot { collections: Vec::new(), ..snapshot.clone() };
    let collections = snapshot.collections.iter().map(|entry| {
        let columns = segments_to_columns(entry.segments.iter().map(AsRef::as_ref));
        let leaders = entry.leaders.iter().map(|leaders| leaders_to_proto(leaders)).collect();
        pb::Collection { segment_columns: Some(columns), leaders, ..collection_to_proto(&entry.head()) }
    });
    pb::Snapshot { collections: collections.collect(), ..(&head).into() }
}

impl TryFrom<pb::Snapshot> for Snapshot {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` naming what makes no sense: a name, an index that points nowhere, lists that should be
    /// parallel and are not, entries that are out of order.
    fn try_from(snapshot: pb::Snapshot) -> Result<Self, Error> {
        let read = Self {
            cluster: snapshot.cluster.parse()?,
            version: FeedVersion(snapshot.version),
            nodes: snapshot.nodes.into_iter().map(node_from_proto).collect::<Result<_, _>>()?,
            groups: snapshot.groups.into_iter().map(group_from_proto).collect::<Result<_, _>>()?,
            collections: (snapshot.collections.into_iter())
                .map(|entry| {
                    let name = entry.name.clone();
                    let read = collection_from_proto(entry);
                    read.map(Arc::new).map_err(|e| e.context(format_args!("collection '{name}'")))
                })
                .collect::<Result<_, _>>()?,
            config: snapshot.config.into_iter().collect(),
        };
        if !read.collections.is_sorted_by(|a, b| a.name < b.name) {
            return Err(invalid("collections of a snapshot are out of order"));
        }
        Ok(read)
    }
}

pub(super) fn node_to_proto(node: &NodeEntry) -> pb::Node {
    pb::Node {
        name: node.name.to_string(),
        id: node.id.0,
        address: node.address.clone(),
        incarnation: node.incarnation.0,
        switched_on: node.switched_on,
        enabled: node.enabled,
        lost: node.lost,
        pool: (node.pool != GroupNumber::NONE).then_some(node.pool.0),
    }
}

pub(super) fn node_from_proto(node: pb::Node) -> Result<NodeEntry, Error> {
    Ok(NodeEntry {
        name: node.name.parse()?,
        id: NodeId(node.id),
        address: node.address,
        incarnation: Incarnation(node.incarnation),
        switched_on: node.switched_on,
        enabled: node.enabled,
        lost: node.lost,
        pool: node.pool.map_or(GroupNumber::NONE, GroupNumber),
    })
}

pub(super) fn group_to_proto(group: &GroupEntry) -> pb::ResourceGroup {
    pb::ResourceGroup { number: group.number.0, name: group.name.to_string() }
}

pub(super) fn group_from_proto(group: pb::ResourceGroup) -> Result<GroupEntry, Error> {
    Ok(GroupEntry { number: GroupNumber(group.number), name: group.name.parse()? })
}

pub(super) fn collection_to_proto(entry: &CollectionEntry) -> pb::Collection {
    let (load_state, load_percent) = match entry.load {
        LoadState::NotLoaded => (pb::LoadState::NotLoaded, 0),
        LoadState::Loading { percent } => (pb::LoadState::Loading, percent.into()),
        LoadState::Serving => (pb::LoadState::Serving, 100),
    };
    pb::Collection {
        name: entry.name.to_string(),
        id: entry.id.0,
        version: entry.version.0,
        selector: common::Selector::from(entry.routing.selector).into(),
        routing: Some(routing_to_proto(&entry.routing)),
        query_timeout_ms: entry.query_timeout.map(millis),
        key: entry.key.clone().unwrap_or_default(),
        vector_indexes: entry.vector_indexes.iter().map(Into::into).collect(),
        clusters: entry.clusters.iter().map(ToString::to_string).collect(),
        columns: entry.columns.iter().map(column_to_proto).collect(),
        partitions: entry.partitions.iter().map(ToString::to_string).collect(),
        shards: entry.shards.iter().map(ToString::to_string).collect(),
        load_state: load_state.into(),
        load_percent,
        finished_groups: entry.finished_groups.iter().map(|group| group.0).collect(),
        replicas: (entry.replicas.iter())
            .map(|replica| pb::Replica { id: replica.id.0, group: replica.group.0 })
            .collect(),
        segments: entry.segments.iter().map(|segment| segment_to_proto(segment)).collect(),
        segment_columns: None,
        leaders: entry.leaders.iter().map(|leaders| leaders_to_proto(leaders)).collect(),
    }
}

pub(super) fn collection_from_proto(entry: pb::Collection) -> Result<CollectionEntry, Error> {
    let load = match entry.load_state() {
        pb::LoadState::Unspecified | pb::LoadState::NotLoaded => LoadState::NotLoaded,
        pb::LoadState::Loading => {
            LoadState::Loading { percent: u8::try_from(entry.load_percent.min(100)).unwrap_or(100) }
        }
        pb::LoadState::Serving => LoadState::Serving,
    };
    let routing = routing_from_proto(entry.selector(), entry.routing.clone().unwrap_or_default())?;
    let read = CollectionEntry {
        name: entry.name.parse()?,
        id: CollectionId(entry.id),
        version: FeedVersion(entry.version),
        routing,
        query_timeout: entry.query_timeout_ms.map(Duration::from_millis),
        key: Some(entry.key).filter(|key| !key.is_empty()),
        vector_indexes: entry.vector_indexes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        clusters: names(entry.clusters)?,
        columns: entry.columns.into_iter().map(column_from_proto).collect::<Result<_, _>>()?,
        partitions: names(entry.partitions)?,
        shards: names(entry.shards)?,
        load,
        finished_groups: entry.finished_groups.into_iter().map(GroupNumber).collect(),
        replicas: (entry.replicas.into_iter())
            .map(|replica| ReplicaEntry { id: ReplicaId(replica.id), group: GroupNumber(replica.group) })
            .collect(),
        segments: match entry.segment_columns {
            Some(columns) => segments_from_columns(columns)?.into_iter().collect(),
            None => (entry.segments.into_iter())
                .map(|segment| segment_from_proto(segment).map(Arc::new))
                .collect::<Result<_, _>>()?,
        },
        leaders: entry.leaders.into_iter().map(leaders_from_proto).collect(),
    };
    check(&read)?;
    Ok(read)
}

/// Every index points somewhere, and what should be in order is.
fn check(entry: &CollectionEntry) -> Result<(), Error> {
    if let Some(segment) = entry.segments.iter().find(|segment| !entry.has_places_of(segment)) {
        return Err(invalid(format!("segment '{}' points at something that is not there", segment.name)));
    }
    if !entry.segments.iter().is_sorted_by(|a, b| a.name < b.name) {
        return Err(invalid("segments are out of order"));
    }
    let mut seen = BTreeSet::new();
    match entry.columns.iter().find(|column| !seen.insert(&column.name)) {
        Some(column) => Err(invalid(format!("column '{}' stands twice", column.name))),
        None => Ok(()),
    }
}

pub(super) fn names<T: TryFrom<String, Error = Error>>(texts: Vec<String>) -> Result<Vec<T>, Error> {
    texts.into_iter().map(T::try_from).collect()
}

pub(super) fn segment_to_proto(segment: &SegmentEntry) -> pb::Segment {
    let copies = CopyLists::from(&*segment.copies);
    pb::Segment {
        id: segment.id.0,
        name: segment.name.to_string(),
        partition: segment.partition,
        shard: segment.shard,
        rows: segment.rows,
        bytes: segment.bytes,
        created_at_ns: segment.created_at,
        before_promotion: !segment.promoted,
        statistics: statistics_to_proto(&segment.statistics),
        copy_nodes: copies.nodes,
        copy_replicas: copies.replicas,
        copy_assigned: copies.assigned,
        copy_observed: copies.observed,
    }
}

pub(super) fn segment_from_proto(segment: pb::Segment) -> Result<SegmentEntry, Error> {
    let copies = CopyLists {
        nodes: segment.copy_nodes,
        replicas: segment.copy_replicas,
        assigned: segment.copy_assigned,
        observed: segment.copy_observed,
    };
    let copies = copies.read(&segment.name)?;
    Ok(SegmentEntry {
        id: SegmentId(segment.id),
        name: segment.name.parse()?,
        partition: segment.partition,
        shard: segment.shard,
        rows: segment.rows,
        bytes: segment.bytes,
        created_at: segment.created_at_ns,
        promoted: !segment.before_promotion,
        statistics: Arc::new(statistics_from_proto(segment.statistics)),
        copies,
    })
}

pub(super) fn leaders_to_proto(leaders: &[LeaderEntry]) -> pb::ShardLeaders {
    let convert = |leader: &LeaderEntry| pb::Leader {
        node: leader.node.0,
        serviceable: leader.serviceable,
        group: leader.group.0,
    };
    pb::ShardLeaders { leaders: leaders.iter().map(convert).collect() }
}

pub(super) fn leaders_from_proto(leaders: pb::ShardLeaders) -> Vec<LeaderEntry> {
    let convert = |leader: pb::Leader| LeaderEntry {
        node: NodeId(leader.node),
        serviceable: leader.serviceable,
        group: GroupNumber(leader.group),
    };
    leaders.leaders.into_iter().map(convert).collect()
}
