//! A core with a few clusters, and short words for what happens to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_failure_detector::{Event, Key, Probe};
use pointsman_ids::{
    ClusterName, CollectionId, Error, FeedVersion, GroupNumber, Incarnation, NodeId, NodeKey, NodeName,
    ReplicaId, SegmentId, SegmentName,
    catalog::{RoutingOptions, SelectorKind},
    feed::{CollectionEntry, CopyEntry, CopyState, LoadState, NodeEntry, ReplicaEntry, SegmentEntry},
};
use pointsman_instance_selector::{AdaptiveSettings, FailOpen};
use pointsman_routing::{Core, CoreSettings, RouteRequest, RoutingTable, Wanted};

/// Wall time at the zero of the clock; ages reach back behind it.
pub(crate) const EPOCH: u64 = 1_000_000_000_000_000_000;

/// Older than any segment that may count as new.
const OLD: Duration = Duration::from_hours(1);

pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now: Duration,
    nodes: BTreeMap<ClusterName, BTreeMap<NodeName, NodeEntry>>,
    version: u64,
    ids: BTreeMap<NodeKey, NodeId>,
}

pub(crate) fn settings(clusters: &[&str]) -> CoreSettings {
    CoreSettings {
        clusters: clusters.iter().map(|name| name.parse().unwrap()).collect(),
        detector: pointsman_failure_detector::Settings::default(),
        new_segment_window: Duration::from_mins(5),
        fail_open: FailOpen::default(),
        adaptive: AdaptiveSettings::default(),
        started_at: EPOCH,
    }
}

pub(crate) fn key(cluster: &str, node: &str) -> NodeKey {
    NodeKey { cluster: cluster.parse().unwrap(), node: node.parse().unwrap() }
}

/// A node as reports name it: `n1`, or `east/n1`.
pub(crate) fn reported(node: &str) -> Key {
    match node.split_once('/') {
        Some((cluster, node)) => Key::Node(key(cluster, node)),
        None => Key::Bare(node.parse().unwrap()),
    }
}

impl World {
    /// Clusters whose managers all run; the first is the local one.
    pub(crate) fn new(clusters: &[&str]) -> Self {
        Self::with(settings(clusters))
    }

    pub(crate) fn with(settings: CoreSettings) -> Self {
        let clusters = settings.clusters.clone();
        let mut world = Self::down(settings);
        for cluster in &clusters {
            world.core.start_cluster(cluster, vec![], world.now).unwrap();
        }
        world
    }

    /// Clusters whose managers do not run yet.
    pub(crate) fn down(settings: CoreSettings) -> Self {
        let core = Core::new(settings).unwrap();
        let now = Duration::from_secs(1);
        Self { core, now, nodes: BTreeMap::new(), version: 0, ids: BTreeMap::new() }
    }

    pub(crate) fn id(&mut self, node: &NodeKey) -> NodeId {
        let next = NodeId(self.ids.len() as u64 + 1);
        *self.ids.entry(node.clone()).or_insert(next)
    }

    /// Another process of the same node.
    pub(crate) fn restarted(&mut self, node: &NodeKey) {
        let id = NodeId(self.ids.len() as u64 + 1000);
        self.ids.insert(node.clone(), id);
        self.edit(node, |entry| {
            entry.id = id;
            entry.incarnation.0 += 1;
        });
    }

    /// Enabled nodes join a cluster, in pool 0.
    pub(crate) fn join(&mut self, cluster: &str, nodes: &str) {
        for node in nodes.split_whitespace() {
            let entry = self.entry(cluster, node);
            self.nodes.entry(cluster.parse().unwrap()).or_default().insert(entry.name.clone(), entry);
        }
        self.tell(cluster);
    }

    pub(crate) fn entry(&mut self, cluster: &str, node: &str) -> NodeEntry {
        let id = self.id(&key(cluster, node));
        NodeEntry {
            name: node.parse().unwrap(),
            id,
            address: format!("http://{node}.{cluster}:1"),
            incarnation: Incarnation(1),
            switched_on: true,
            enabled: true,
            lost: false,
            pool: GroupNumber(0),
        }
    }

    /// Changes a member.
    pub(crate) fn edit(&mut self, node: &NodeKey, edit: impl FnOnce(&mut NodeEntry)) {
        edit(self.nodes.get_mut(&node.cluster).unwrap().get_mut(&node.node).unwrap());
        self.tell(node.cluster.as_str());
    }

    pub(crate) fn leave(&mut self, node: &NodeKey) {
        self.nodes.get_mut(&node.cluster).unwrap().remove(&node.node);
        self.tell(node.cluster.as_str());
    }

    pub(crate) fn tell(&mut self, cluster: &str) -> Vec<Probe> {
        let cluster: ClusterName = cluster.parse().unwrap();
        let nodes = self.nodes.get(&cluster).map(|nodes| nodes.values().cloned().collect());
        self.core.set_nodes(&cluster, nodes.unwrap_or_default(), self.now).unwrap()
    }

    pub(crate) fn mark(&mut self, node: &str) {
        let failed =
            Event::Failed { key: reported(node), incarnation: None, evidence: "connection reset".to_owned() };
        self.core.handle(failed, self.now);
    }

    pub(crate) fn recover(&mut self, node: &str) {
        self.core.handle(Event::Recovered { key: reported(node) }, self.now);
    }

    pub(crate) fn put(&mut self, cluster: &str, collection: Shape<'_>) -> Result<(), Error> {
        let entry = self.shaped(cluster, collection);
        self.core.set_collection(&cluster.parse().unwrap(), Arc::new(entry), self.now)
    }

    /// The collection as the feed would describe it, at the next version.
    pub(crate) fn shaped(&mut self, cluster: &str, shape: Shape<'_>) -> CollectionEntry {
        self.version += 1;
        let segments = shape.segments.iter().map(|segment| Arc::new(self.segment(cluster, segment)));
        let mut segments: imbl::Vector<_> = segments.collect();
        segments.sort_by(|one, other| one.name.cmp(&other.name));
        CollectionEntry {
            name: shape.name.parse().unwrap(),
            id: CollectionId(shape.name.bytes().map(u64::from).sum()),
            version: FeedVersion(self.version),
            routing: shape.routing,
            query_timeout: None,
            key: None,
            vector_indexes: Vec::new(),
            clusters: shape.clusters.split_whitespace().map(|name| name.parse().unwrap()).collect(),
            columns: vec![],
            partitions: vec!["default".parse().unwrap()],
            shards: vec!["shard-0".parse().unwrap()],
            load: shape.load,
            finished_groups: shape.finished.iter().copied().map(GroupNumber).collect(),
            replicas: (0..)
                .zip(shape.replicas)
                .map(|(id, group)| ReplicaEntry { id: ReplicaId(id), group: GroupNumber(*group) })
                .collect(),
            segments,
            leaders: vec![vec![]],
        }
    }

    fn segment(&mut self, cluster: &str, segment: &Seg<'_>) -> SegmentEntry {
        let (assigned, observed) = (states(segment.assigned), states(segment.observed));
        let nodes: BTreeSet<_> = assigned.keys().chain(observed.keys()).copied().collect();
        let now = u64::try_from(self.now.as_nanos()).unwrap();
        let copies = nodes.into_iter().map(|(node, replica)| {
            let id = self.id(&key(cluster, node));
            self.core.introduce(&cluster.parse().unwrap(), id, &node.parse().unwrap()).unwrap();
            CopyEntry {
                node: id,
                replica,
                assigned: assigned.get(&(node, replica)).copied(),
                observed: observed.get(&(node, replica)).copied(),
            }
        });
        let age = u64::try_from(segment.age.as_nanos()).unwrap();
        SegmentEntry {
            copies: copies.collect(),
            id: SegmentId(segment.name.bytes().map(u64::from).sum()),
            name: segment.name.parse().unwrap(),
            partition: 0,
            shard: 0,
            rows: 1,
            bytes: 1,
            created_at: EPOCH + now - age,
            promoted: segment.promoted,
            statistics: Arc::default(),
        }
    }

    /// Routes everything of a collection.
    pub(crate) fn route(&self, collection: &str, request_id: u64) -> Result<RoutingTable, Error> {
        self.core.view().route(&RouteRequest::all(collection, request_id))
    }

    /// Who serves what, as `segment:node` by segment, nodes of remote clusters with their cluster.
    pub(crate) fn served(&self, collection: &str, request_id: u64) -> Vec<String> {
        self.told(&self.route(collection, request_id).unwrap())
    }

    pub(crate) fn told(&self, table: &RoutingTable) -> Vec<String> {
        let told = |part: &pointsman_routing::RoutedPart| {
            let key = &part.node.key;
            let local = key.cluster == *self.core.view().cluster();
            let node = if local { key.node.to_string() } else { key.to_string() };
            let names = part.segments.iter().filter_map(|at| table.segment_name(*at));
            names.map(|name| format!("{name}:{node}")).collect::<Vec<_>>()
        };
        let mut told: Vec<_> = table.parts.iter().flat_map(told).collect();
        told.sort();
        told
    }

    /// The value of a figure: the sum of all series of this name that carry the labels; `None`: there are none.
    pub(crate) fn figure(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let name = format!("pointsman_broker_{name}");
        let samples = self.core.view().samples();
        let carries = |own: &[(&str, String)]| {
            labels.iter().all(|(label, value)| own.iter().any(|own| own.0 == *label && own.1 == *value))
        };
        let found = samples.iter().filter(|sample| sample.name == name && carries(&sample.labels));
        found.map(|sample| sample.value).reduce(|one, other| one + other)
    }
}

/// What nobody answers for, as `segment:cause`.
pub(crate) fn gaps(table: &RoutingTable) -> Vec<String> {
    table.unavailable.iter().map(|gap| format!("{}:{}", gap.name, gap.cause.as_str())).collect()
}

pub(crate) fn names(list: &[&str]) -> Vec<SegmentName> {
    list.iter().map(|name| name.parse().unwrap()).collect()
}

/// A request for some segments by name.
pub(crate) fn wanting<'a>(collection: &'a str, list: &'a [SegmentName]) -> RouteRequest<'a> {
    RouteRequest { segments: Wanted::Names(list), ..RouteRequest::all(collection, 0) }
}

/// A collection in the making.
#[derive(Clone)]
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a str,
    pub(crate) routing: RoutingOptions,
    pub(crate) clusters: &'a str,
    pub(crate) load: LoadState,
    /// Groups of its replicas.
    pub(crate) replicas: &'a [i32],
    pub(crate) finished: &'a [i32],
    pub(crate) segments: Vec<Seg<'a>>,
}

/// A segment in the making. Nodes are written `n1 n2=offline n3@1`: online unless said, on replica 0 unless said.
#[derive(Clone, Copy)]
pub(crate) struct Seg<'a> {
    pub(crate) name: &'a str,
    pub(crate) assigned: &'a str,
    pub(crate) observed: &'a str,
    pub(crate) age: Duration,
    pub(crate) promoted: bool,
}

/// A segment of no target, an hour old.
pub(crate) fn seg<'a>(name: &'a str, assigned: &'a str, observed: &'a str) -> Seg<'a> {
    Seg { name, assigned, observed, age: OLD, promoted: false }
}

/// A segment that has just been created.
pub(crate) fn young<'a>(name: &'a str, assigned: &'a str, observed: &'a str) -> Seg<'a> {
    Seg { age: Duration::ZERO, ..seg(name, assigned, observed) }
}

/// A `balanced` collection of one replica in group 0.
pub(crate) fn shape<'a>(name: &'a str, segments: &[Seg<'a>]) -> Shape<'a> {
    Shape {
        name,
        routing: RoutingOptions::default(),
        clusters: "",
        load: LoadState::Serving,
        replicas: &[0],
        finished: &[0],
        segments: segments.to_vec(),
    }
}

impl Shape<'_> {
    pub(crate) fn selector(mut self, selector: SelectorKind) -> Self {
        self.routing.selector = selector;
        self
    }
}

fn states(text: &str) -> BTreeMap<(&str, u32), CopyState> {
    let state = |word: &str| match word {
        "online" => CopyState::Online,
        "consuming" => CopyState::Consuming,
        "offline" => CopyState::Offline,
        "error" => CopyState::Error,
        _ => panic!("{word} is no state"),
    };
    let read = |word| {
        let (node, said) = str::split_once(word, '=').unwrap_or((word, "online"));
        let (node, replica) = node.split_once('@').unwrap_or((node, "0"));
        ((node, replica.parse().unwrap()), state(said))
    };
    text.split_whitespace().map(read).collect()
}
