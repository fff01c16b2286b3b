//! A world as plain values, and the stores that are made of it.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    CollectionId, ErrorCode, GroupName, NodeId, NodeName, PartitionName, ReplicaId, SegmentId, ShardName,
    TargetVersion,
};
use pointsman_query_coord::{
    Distribution, FailedLoad, FailedLoads, KnownNode, KnownNodes, LeaderReport, LeaderView, LoadKind,
    LoadRecord, LoadStatus, PartitionLoad, Registrations, Replica, Replicas, Target, TargetSegment, Targets,
    Wired,
};

/// Everything, by plain numbers and names.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) registrations: BTreeMap<u64, Registration>,
    pub(crate) groups: BTreeSet<&'static str>,
    /// In the order of their creation.
    pub(crate) replicas: Vec<Copy>,
    pub(crate) current: BTreeMap<u64, Wish>,
    pub(crate) next: BTreeMap<u64, Wish>,
    pub(crate) leaders: Vec<Lead>,
    pub(crate) known: Vec<u64>,
    /// Those of the known nodes that started anew since they reported.
    pub(crate) restarted: BTreeSet<u64>,
    pub(crate) failed: BTreeMap<u64, Vec<Failed>>,
    pub(crate) missing: Missing,
}

#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) loaded: bool,
    pub(crate) percentages: Vec<u8>,
    pub(crate) updated_at: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) id: u64,
    pub(crate) collection: u64,
    pub(crate) group: &'static str,
    pub(crate) nodes: BTreeSet<u64>,
    pub(crate) ro_nodes: BTreeSet<u64>,
    pub(crate) visible: bool,
}

/// A target: segments with their shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) version: u64,
    pub(crate) shards: BTreeSet<&'static str>,
    pub(crate) segments: Vec<(u64, &'static str)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Lead {
    pub(crate) node: u64,
    pub(crate) collection: u64,
    pub(crate) shard: &'static str,
    pub(crate) version: u64,
    pub(crate) serviceable: bool,
    pub(crate) target_version: u64,
    pub(crate) segments: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) code: ErrorCode,
    pub(crate) count: u64,
    pub(crate) last: u64,
}

/// Which store is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Missing {
    #[default]
    Nothing,
    Everything,
    Registrations,
    Replicas,
    Groups,
    Targets,
    Distribution,
    Nodes,
    FailedLoads,
}

/// The stores of a world.
#[derive(Debug)]
pub(crate) struct Built {
    registrations: Registrations,
    replicas: Replicas,
    groups: BTreeSet<GroupName>,
    targets: Targets,
    distribution: Distribution,
    nodes: KnownNodes,
    failed_loads: FailedLoads,
    missing: Missing,
}

pub(crate) fn node(id: u64) -> NodeName {
    NodeName::new(&id.to_string()).unwrap()
}

pub(crate) fn shard(name: &str) -> ShardName {
    ShardName::new(name).unwrap()
}

impl World {
    /// Puts everything into stores, in the order in which it stands.
    pub(crate) fn build(&self) -> Built {
        let group = |name: &&str| GroupName::new(name).unwrap();
        let known = |id: &u64| {
            let number = if self.restarted.contains(id) { NodeId(id + 1000) } else { NodeId(*id) };
            (node(*id), KnownNode { id: number, address: format!("n{id}:7000"), stopping: false })
        };
        let mut targets = Targets::default();
        self.current.iter().for_each(|(id, wish)| targets.set_current(wish.target(*id)));
        self.next.iter().for_each(|(id, wish)| targets.set_next(wish.target(*id)));
        let mut failed_loads = FailedLoads::default();
        for (id, failures) in &self.failed {
            for Failed { code, count, last } in failures {
                let failed = FailedLoad { count: *count, text: format!("cause of {code}"), last: *last };
                failed_loads.insert(CollectionId(*id), *code, failed);
            }
        }
        Built {
            registrations: self
                .registrations
                .iter()
                .map(|(id, registration)| registration.record(*id))
                .collect(),
            replicas: self.replicas.iter().map(Copy::replica).collect(),
            groups: self.groups.iter().map(group).collect(),
            targets,
            distribution: self.leaders.iter().map(Lead::report).collect(),
            nodes: self.known.iter().map(known).collect(),
            failed_loads,
            missing: self.missing,
        }
    }
}

impl Built {
    /// What is wired of them.
    pub(crate) fn wired(&self) -> Wired<'_> {
        let mut wired = Wired {
            registrations: Some(&self.registrations),
            replicas: Some(&self.replicas),
            groups: Some(&self.groups),
            targets: Some(&self.targets),
            distribution: Some(&self.distribution),
            nodes: Some(&self.nodes),
            failed_loads: Some(&self.failed_loads),
        };
        match self.missing {
            Missing::Nothing => {}
            Missing::Everything => wired = Wired::default(),
            Missing::Registrations => wired.registrations = None,
            Missing::Replicas => wired.replicas = None,
            Missing::Groups => wired.groups = None,
            Missing::Targets => wired.targets = None,
            Missing::Distribution => wired.distribution = None,
            Missing::Nodes => wired.nodes = None,
            Missing::FailedLoads => wired.failed_loads = None,
        }
        wired
    }
}

impl Registration {
    /// One partition at this percentage.
    pub(crate) fn at(percentage: u8) -> Self {
        Self { loaded: false, percentages: vec![percentage], updated_at: 0 }
    }

    fn record(&self, id: u64) -> LoadRecord {
        let status = if self.loaded { LoadStatus::Loaded } else { LoadStatus::Loading };
        let partition = |(at, percent): (usize, &u8)| {
            let load =
                PartitionLoad { status, percent: *percent, created_at: 0, updated_at: self.updated_at };
            (PartitionName::new(&format!("p{at}")).unwrap(), load)
        };
        LoadRecord {
            collection: CollectionId(id),
            replicas: 1,
            kind: LoadKind::Collection,
            status,
            percent: 0,
            created_at: 0,
            updated_at: self.updated_at,
            recoveries: 0,
            replicas_chosen: false,
            partitions: self.percentages.iter().enumerate().map(partition).collect(),
        }
    }
}

impl Copy {
    fn replica(&self) -> Replica {
        let names = |ids: &BTreeSet<u64>| ids.iter().map(|id| node(*id)).collect();
        Replica {
            id: ReplicaId(self.id),
            collection: CollectionId(self.collection),
            group: GroupName::new(self.group).unwrap(),
            nodes: names(&self.nodes),
            ro_nodes: names(&self.ro_nodes),
            query_visible: self.visible,
            finished: false,
            waits_for_group_since: None,
        }
    }
}

impl Wish {
    fn target(&self, collection: u64) -> Target {
        let segment = |(id, name): &(u64, &str)| TargetSegment {
            id: SegmentId(*id),
            partition: PartitionName::new("p0").unwrap(),
            shard: shard(name),
        };
        let shards = self.shards.iter().map(|name| shard(name));
        let segments = self.segments.iter().map(segment);
        Target::new(CollectionId(collection), TargetVersion(self.version), shards, [], segments)
    }
}

impl Lead {
    fn report(&self) -> LeaderReport {
        LeaderReport {
            node: node(self.node),
            node_id: NodeId(self.node),
            collection: CollectionId(self.collection),
            shard: shard(self.shard),
            version: self.version,
            target_version: TargetVersion(self.target_version),
            serviceable: self.serviceable,
            view: LeaderView::new(self.segments.iter().map(|id| (SegmentId(*id), node(self.node)))),
        }
    }
}

/// Collection 1 with shard `a` of segments 1 to 3 in a replica of `east` on node 1 and one of `west` on node 2; nobody
/// leads anything.
pub(crate) fn two_groups() -> World {
    let copy = |id, group| Copy {
        id,
        collection: 1,
        group,
        nodes: BTreeSet::from([id]),
        ro_nodes: BTreeSet::new(),
        visible: true,
    };
    let wish =
        Wish { version: 5, shards: BTreeSet::from(["a"]), segments: vec![(1, "a"), (2, "a"), (3, "a")] };
    World {
        registrations: BTreeMap::from([(1, Registration { loaded: true, ..Registration::at(100) })]),
        groups: BTreeSet::from(["east", "west"]),
        replicas: vec![copy(1, "east"), copy(2, "west")],
        current: BTreeMap::from([(1, wish)]),
        known: vec![1, 2],
        ..World::default()
    }
}

/// A leader of shard `a` of collection 1 that carries all of [`two_groups`].
pub(crate) fn lead(node: u64) -> Lead {
    Lead {
        node,
        collection: 1,
        shard: "a",
        version: 1,
        serviceable: true,
        target_version: 5,
        segments: vec![1, 2, 3],
    }
}
