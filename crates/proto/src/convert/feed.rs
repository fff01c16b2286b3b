//! The routing snapshot.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pointsman_ids::{
    CollectionId, Error, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    feed::{
        CollectionEntry, CopyEntry, CopyState, GroupEntry, LeaderEntry, LoadState, NodeEntry, ReplicaEntry,
        SegmentEntry, Snapshot,
    },
};

use super::{
    catalog::{
        column_from_proto, column_to_proto, millis, routing_from_proto, routing_to_proto,
        statistics_from_proto, statistics_to_proto,
    },
    invalid,
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

fn node_to_proto(node: &NodeEntry) -> pb::Node {
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

fn node_from_proto(node: pb::Node) -> Result<NodeEntry, Error> {
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

fn group_to_proto(group: &GroupEntry) -> pb::ResourceGroup {
    pb::ResourceGroup { number: group.number.0, name: group.name.to_string() }
}

fn group_from_proto(group: pb::ResourceGroup) -> Result<GroupEntry, Error> {
    Ok(GroupEntry { number: GroupNumber(group.number), name: group.name.parse()? })
}

fn collection_to_proto(entry: &CollectionEntry) -> pb::Collection {
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
        leaders: entry.leaders.iter().map(|leaders| leaders_to_proto(leaders)).collect(),
    }
}

fn collection_from_proto(entry: pb::Collection) -> Result<CollectionEntry, Error> {
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
        clusters: names(entry.clusters)?,
        columns: entry.columns.into_iter().map(column_from_proto).collect::<Result<_, _>>()?,
        partitions: names(entry.partitions)?,
        shards: names(entry.shards)?,
        load,
        finished_groups: entry.finished_groups.into_iter().map(GroupNumber).collect(),
        replicas: (entry.replicas.into_iter())
            .map(|replica| ReplicaEntry { id: ReplicaId(replica.id), group: GroupNumber(replica.group) })
            .collect(),
        segments: (entry.segments.into_iter())
            .map(|segment| segment_from_proto(segment).map(Arc::new))
            .collect::<Result<_, _>>()?,
        leaders: entry.leaders.into_iter().map(leaders_from_proto).collect(),
    };
    check(&read)?;
    Ok(read)
}

/// Every index points somewhere, and what should be in order is.
fn check(entry: &CollectionEntry) -> Result<(), Error> {
    let points = |index: u32, len: usize| usize::try_from(index).is_ok_and(|index| index < len);
    for segment in &entry.segments {
        let sound = points(segment.partition, entry.partitions.len())
            && points(segment.shard, entry.shards.len())
            && segment.copies.iter().all(|copy| points(copy.replica, entry.replicas.len()));
        if !sound {
            return Err(invalid(format!("segment '{}' points at something that is not there", segment.name)));
        }
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

fn names<T: TryFrom<String, Error = Error>>(texts: Vec<String>) -> Result<Vec<T>, Error> {
    texts.into_iter().map(T::try_from).collect()
}

fn segment_to_proto(segment: &SegmentEntry) -> pb::Segment {
    let states = |state: fn(&CopyEntry) -> Option<CopyState>| {
        segment.copies.iter().map(|copy| copy_state_to_proto(state(copy)).into()).collect()
    };
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
        copy_nodes: segment.copies.iter().map(|copy| copy.node.0).collect(),
        copy_replicas: segment.copies.iter().map(|copy| copy.replica).collect(),
        copy_assigned: states(|copy| copy.assigned),
        copy_observed: states(|copy| copy.observed),
    }
}

fn segment_from_proto(segment: pb::Segment) -> Result<SegmentEntry, Error> {
    let copies = segment.copy_nodes.len();
    let parallel = [segment.copy_replicas.len(), segment.copy_assigned.len(), segment.copy_observed.len()];
    if parallel.iter().any(|len| *len != copies) {
        return Err(invalid(format!("the lists of copies of segment '{}' differ in length", segment.name)));
    }
    let assigned: Vec<_> = segment.copy_assigned().map(copy_state_from_proto).collect();
    let observed: Vec<_> = segment.copy_observed().map(copy_state_from_proto).collect();
    let copies = (0..copies)
        .map(|at| CopyEntry {
            node: NodeId(segment.copy_nodes[at]),
            replica: segment.copy_replicas[at],
            assigned: assigned[at],
            observed: observed[at],
        })
        .collect();
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

fn copy_state_to_proto(state: Option<CopyState>) -> pb::CopyState {
    match state {
        None => pb::CopyState::Unspecified,
        Some(CopyState::Online) => pb::CopyState::Online,
        Some(CopyState::Consuming) => pb::CopyState::Consuming,
        Some(CopyState::Offline) => pb::CopyState::Offline,
        Some(CopyState::Error) => pb::CopyState::Error,
    }
}

fn copy_state_from_proto(state: pb::CopyState) -> Option<CopyState> {
    match state {
        pb::CopyState::Unspecified => None,
        pb::CopyState::Online => Some(CopyState::Online),
        pb::CopyState::Consuming => Some(CopyState::Consuming),
        pb::CopyState::Offline => Some(CopyState::Offline),
        pb::CopyState::Error => Some(CopyState::Error),
    }
}

fn leaders_to_proto(leaders: &[LeaderEntry]) -> pb::ShardLeaders {
    let convert = |leader: &LeaderEntry| pb::Leader {
        node: leader.node.0,
        serviceable: leader.serviceable,
        group: leader.group.0,
    };
    pb::ShardLeaders { leaders: leaders.iter().map(convert).collect() }
}

fn leaders_from_proto(leaders: pb::ShardLeaders) -> Vec<LeaderEntry> {
    let convert = |leader: pb::Leader| LeaderEntry {
        node: NodeId(leader.node),
        serviceable: leader.serviceable,
        group: GroupNumber(leader.group),
    };
    leaders.leaders.into_iter().map(convert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ids::catalog::{Column, RoutingOptions};

    fn snapshot() -> Snapshot {
        let segment = |name: &str| {
            Arc::new(SegmentEntry {
                promoted: true,
                id: SegmentId(7),
                name: name.parse().unwrap(),
                partition: 0,
                shard: 0,
                rows: 3,
                bytes: 100,
                created_at: 5,
                statistics: Arc::default(),
                copies: vec![CopyEntry {
                    node: NodeId(1),
                    replica: 0,
                    assigned: Some(CopyState::Online),
                    observed: None,
                }],
            })
        };
        let collection = CollectionEntry {
            name: "t".parse().unwrap(),
            id: CollectionId(1),
            version: FeedVersion(4),
            routing: RoutingOptions::default(),
            query_timeout: Some(Duration::from_secs(3)),
            clusters: vec![],
            columns: vec![Column { name: "x".into(), data_type: "Int64".into(), nullable: true }],
            partitions: vec!["default".parse().unwrap()],
            shards: vec!["shard-0".parse().unwrap()],
            load: LoadState::Serving,
            finished_groups: vec![GroupNumber(1)],
            replicas: vec![ReplicaEntry { id: ReplicaId(1), group: GroupNumber(1) }],
            segments: [segment("a"), segment("b")].into_iter().collect(),
            leaders: vec![vec![LeaderEntry { node: NodeId(1), serviceable: true, group: GroupNumber(1) }]],
        };
        Snapshot {
            cluster: "local".parse().unwrap(),
            version: FeedVersion(4),
            nodes: vec![NodeEntry {
                name: "n1".parse().unwrap(),
                id: NodeId(1),
                address: "http://127.0.0.1:1".into(),
                incarnation: Incarnation(1),
                switched_on: true,
                enabled: true,
                lost: false,
                pool: GroupNumber(1),
            }],
            groups: vec![GroupEntry { number: GroupNumber(1), name: "east".parse().unwrap() }],
            collections: vec![Arc::new(collection)],
            config: [("broker.fail_open.enabled".to_owned(), "true".to_owned())].into(),
        }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_went() {
        let sent = snapshot();
        assert_eq!(Snapshot::try_from(pb::Snapshot::from(&sent)).unwrap(), sent);
    }

    /// What one change makes of a lawful snapshot.
    fn refused(change: impl FnOnce(&mut pb::Collection)) -> String {
        let mut message = pb::Snapshot::from(&snapshot());
        change(&mut message.collections[0]);
        Snapshot::try_from(message).unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let error = refused(|c| c.segments[1].copy_observed.clear());
        assert_eq!(error, "collection 't': the lists of copies of segment 'b' differ in length");
        let error = refused(|c| c.segments[0].shard = 9);
        assert_eq!(error, "collection 't': segment 'a' points at something that is not there");
        assert_eq!(refused(|c| c.segments.swap(0, 1)), "collection 't': segments are out of order");
        let error = refused(|c| c.columns.push(c.columns[0].clone()));
        assert_eq!(error, "collection 't': column 'x' stands twice");
    }
}
