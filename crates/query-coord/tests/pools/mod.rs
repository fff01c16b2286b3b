//! Groups, nodes with a label, and replicas to decide about.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, GroupName, GroupNumber, Incarnation, NodeId, NodeName, ReplicaId};
use pointsman_query_coord::{
    ConfigRequest, GroupConfig, GroupMove, Groups, NodeRecord, Nodes, Replica, ResourceGroup, recover,
};

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

pub fn nodes(names: &[&str]) -> BTreeSet<NodeName> {
    names.iter().map(|name| node(name)).collect()
}

pub fn names(nodes: BTreeSet<NodeName>) -> Vec<String> {
    nodes.iter().map(ToString::to_string).collect()
}

pub fn config(requests: u32, limits: u32) -> GroupConfig {
    GroupConfig { requests, limits, ..GroupConfig::default() }
}

pub fn request(requests: i64, limits: i64) -> ConfigRequest {
    ConfigRequest { requests: Some(requests), limits: Some(limits), ..ConfigRequest::default() }
}

/// Something that takes a filter of the label `zone`.
pub trait Filtered {
    fn filtered(self, zone: &str) -> Self;
}

impl Filtered for GroupConfig {
    fn filtered(mut self, zone: &str) -> Self {
        self.node_filter.insert("zone".into(), zone.into());
        self
    }
}

impl Filtered for ConfigRequest {
    fn filtered(mut self, zone: &str) -> Self {
        self.node_filter.insert("zone".into(), zone.into());
        self
    }
}

pub fn record(name: &str, id: u64, zone: &str) -> NodeRecord {
    NodeRecord {
        name: node(name),
        incarnation: Incarnation(1),
        id: NodeId(id),
        switched_on: true,
        labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
    }
}

pub fn replica(id: u64, of: &str, writable: &[&str], read_only: &[&str]) -> Replica {
    Replica {
        id: ReplicaId(id),
        collection: CollectionId(1),
        group: group(of),
        nodes: nodes(writable),
        ro_nodes: nodes(read_only),
        query_visible: true,
        finished: false,
        waits_for_group_since: None,
    }
}

/// Moves in words, such as `n1 east`.
pub fn moved(moves: &[GroupMove]) -> Vec<String> {
    let to = |to: &Option<GroupName>| to.as_ref().map_or("", GroupName::as_str).to_owned();
    moves.iter().map(|one| format!("{} {}", one.node, to(&one.to))).collect()
}

#[derive(Clone, Debug)]
pub struct Pools {
    pub groups: Groups,
    pub nodes: Nodes,
    pub replicas: Vec<Replica>,
}

impl Pools {
    /// Nodes with their zone, whose ids follow their names, and groups with their members.
    pub fn new(nodes: &[(&str, &str)], groups: &[(&str, GroupConfig, &[&str])]) -> Self {
        let id = |name: &str| name.trim_start_matches('n').parse().unwrap();
        let nodes = nodes.iter().map(|(name, zone)| (node(name), record(name, id(name), zone))).collect();
        let groups = (1..).zip(groups).map(|(number, (name, config, members))| {
            let (name, members) = (group(name), self::nodes(members));
            let number = GroupNumber(number);
            (name.clone(), ResourceGroup { number, name, config: config.clone(), members })
        });
        Self { groups: groups.collect(), nodes, replicas: Vec::new() }
    }

    pub fn config(&self, name: &str) -> GroupConfig {
        self.groups[name].config.clone()
    }

    /// What a recovery pass moves.
    pub fn recovered(&self) -> Vec<String> {
        moved(&recover(&self.groups, &self.nodes).moves)
    }
}
