//! Snapshots for tests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, NodeKey, NodeName, ReplicaId, SegmentId,
    catalog::RoutingOptions,
    feed::{
        CollectionEntry, CopyEntry, CopyState, LoadState, NodeEntry, ReplicaEntry, SegmentEntry, Snapshot,
    },
};

/// Far more than anything here may take.
const SOON: Duration = Duration::from_secs(20);

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

pub(crate) fn name(node: &str) -> NodeName {
    node.parse().unwrap()
}

pub(crate) fn key(node: &str) -> NodeKey {
    NodeKey { cluster: "local".parse().unwrap(), node: name(node) }
}

/// Node `n<id>`; incarnation and id are the same.
pub(crate) fn node(id: u64, address: &str) -> NodeEntry {
    NodeEntry {
        name: name(&format!("n{id}")),
        id: NodeId(id),
        address: address.to_owned(),
        incarnation: Incarnation(id),
        switched_on: true,
        enabled: true,
        lost: false,
        pool: GroupNumber(1),
    }
}

/// Nodes `n1` to `n<count>` at addresses where nobody listens.
pub(crate) fn nodes(count: u64) -> Vec<NodeEntry> {
    (1..=count).map(|id| node(id, &format!("http://127.0.0.1:{id}"))).collect()
}

/// A loaded collection of `segments` segments, each held by all of `holders`.
pub(crate) fn collection(name: &str, version: u64, segments: u64, holders: &[u64]) -> CollectionEntry {
    let copy = |id: &u64| CopyEntry {
        node: NodeId(*id),
        replica: 0,
        assigned: Some(CopyState::Online),
        observed: Some(CopyState::Online),
    };
    let segment = |at| SegmentEntry {
        id: SegmentId(at),
        name: format!("s{at:04}").parse().unwrap(),
        partition: 0,
        shard: 0,
        rows: 1,
        bytes: 1,
        created_at: 1,
        promoted: true,
        statistics: Arc::new(BTreeMap::new()),
        copies: holders.iter().map(copy).collect(),
    };
    CollectionEntry {
        name: name.parse().unwrap(),
        id: CollectionId(name.bytes().map(u64::from).sum()),
        version: FeedVersion(version),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: Vec::new(),
        clusters: vec![],
        columns: vec![],
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: vec![GroupNumber(1)],
        replicas: vec![ReplicaEntry { id: ReplicaId(1), group: GroupNumber(1) }],
        segments: (0..segments).map(segment).map(Arc::new).collect(),
        leaders: vec![vec![]],
    }
}

pub(crate) fn snapshot(version: u64, nodes: Vec<NodeEntry>, collections: Vec<CollectionEntry>) -> Snapshot {
    snapshot_of("local", version, nodes, collections)
}

pub(crate) fn snapshot_of(
    cluster: &str,
    version: u64,
    nodes: Vec<NodeEntry>,
    collections: Vec<CollectionEntry>,
) -> Snapshot {
    Snapshot {
        version: FeedVersion(version),
        nodes,
        collections: collections.into_iter().map(Arc::new).collect(),
        ..Snapshot::empty(cluster.parse().unwrap())
    }
}
