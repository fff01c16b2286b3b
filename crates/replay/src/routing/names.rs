//! What a file declares, and how it may speak of it.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_failure_detector::Key;
use pointsman_ids::{ClusterName, CollectionName, NodeKey, NodeName};

use super::scenario::Member;
use crate::{ScenarioError, yaml::At};

/// Everything that has a name in the file, wherever in it that is declared.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) local: ClusterName,
    /// All, the local one first.
    pub(super) clusters: Vec<ClusterName>,
    /// By cluster.
    nodes: BTreeMap<ClusterName, BTreeSet<NodeName>>,
    collections: BTreeSet<CollectionName>,
}

impl Names {
    /// Nothing but clusters, in their order.
    pub(super) fn new(local: ClusterName, remotes: impl IntoIterator<Item = ClusterName>) -> Self {
        let clusters = [local.clone()].into_iter().chain(remotes).collect();
        Self { local, clusters, nodes: BTreeMap::new(), collections: BTreeSet::new() }
    }

    pub(super) fn declare_node(&mut self, node: NodeKey) {
        self.nodes.entry(node.cluster).or_default().insert(node.node);
    }

    pub(super) fn declare_collection(&mut self, collection: CollectionName) {
        self.collections.insert(collection);
    }

    pub(super) fn is_local(&self, cluster: &ClusterName) -> bool {
        self.local == *cluster
    }

    /// Nodes that the file declares in a cluster.
    pub(super) fn nodes_of<'a>(
        &'a self,
        cluster: &ClusterName,
    ) -> impl Iterator<Item = &'a NodeName> + use<'a> {
        self.nodes.get(cluster).into_iter().flatten()
    }

    fn has(&self, node: &NodeKey) -> bool {
        self.nodes.get(&node.cluster).is_some_and(|nodes| nodes.contains(&node.node))
    }

    fn has_anywhere(&self, node: &NodeName) -> bool {
        self.nodes.values().any(|nodes| nodes.contains(node))
    }

    /// A node in outcomes: that of a remote cluster with its cluster.
    pub(super) fn outcome(&self, cluster: &ClusterName, node: &NodeName) -> String {
        if self.is_local(cluster) { node.to_string() } else { format!("{cluster}/{node}") }
    }

    /// A listed cluster.
    pub(super) fn cluster(&self, at: &At<'_>) -> Result<ClusterName, ScenarioError> {
        let cluster = at.parsed()?;
        self.listed(at, cluster)
    }

    fn listed(&self, at: &At<'_>, cluster: ClusterName) -> Result<ClusterName, ScenarioError> {
        if self.clusters.contains(&cluster) {
            return Ok(cluster);
        }
        let listed: Vec<_> = self.clusters.iter().map(ClusterName::as_str).collect();
        Err(at.error(format_args!(
            "cluster '{cluster}' is not listed under 'clusters' ({})",
            listed.join(", ")
        )))
    }

    /// A collection that some step creates.
    pub(super) fn collection(&self, at: &At<'_>) -> Result<CollectionName, ScenarioError> {
        let collection = at.parsed()?;
        if self.collections.contains(&collection) {
            return Ok(collection);
        }
        Err(at.error(format_args!("no 'collection' step of this file creates collection '{collection}'")))
    }

    /// A node by its plain name, where the cluster is known.
    pub(super) fn plain(&self, at: &At<'_>, cluster: &ClusterName) -> Result<NodeName, ScenarioError> {
        let key = NodeKey { cluster: cluster.clone(), node: at.parsed()? };
        self.declared(at, key).map(|key| key.node)
    }

    fn declared(&self, at: &At<'_>, key: NodeKey) -> Result<NodeKey, ScenarioError> {
        if self.has(&key) {
            return Ok(key);
        }
        let NodeKey { cluster, node } = key;
        Err(at.error(format_args!(
            "no 'nodes' step of this file declares node '{node}' in cluster '{cluster}'"
        )))
    }

    /// `CLUSTER/NODE` as a key, a bare name as a name.
    pub(super) fn split(&self, at: &At<'_>) -> Result<(Option<ClusterName>, NodeName), ScenarioError> {
        let refuse = |error| at.error(error);
        match at.text()?.split_once('/') {
            None => Ok((None, at.parsed()?)),
            Some((cluster, node)) => {
                let cluster = self.listed(at, cluster.parse().map_err(refuse)?)?;
                Ok((Some(cluster), node.parse().map_err(refuse)?))
            }
        }
    }

    fn declared_anywhere(&self, at: &At<'_>, node: NodeName) -> Result<NodeName, ScenarioError> {
        if self.has_anywhere(&node) {
            return Ok(node);
        }
        Err(at.error(format_args!("no 'nodes' step of this file declares node '{node}'")))
    }

    /// A key of the detector, exactly as it is reported.
    pub(super) fn key(&self, at: &At<'_>) -> Result<Key, ScenarioError> {
        Ok(match self.split(at)? {
            (Some(cluster), node) => Key::Node(self.declared(at, NodeKey { cluster, node })?),
            (None, node) => Key::Bare(self.declared_anywhere(at, node)?),
        })
    }

    /// A member, with its cluster or without.
    pub(super) fn member(&self, at: &At<'_>) -> Result<Member, ScenarioError> {
        Ok(match self.split(at)? {
            (Some(cluster), node) => Member::Of(self.declared(at, NodeKey { cluster, node })?),
            (None, node) => Member::Plain(self.declared_anywhere(at, node)?),
        })
    }

    /// A node as outcomes write it: a bare name is the local cluster's.
    pub(super) fn in_outcome(&self, at: &At<'_>) -> Result<String, ScenarioError> {
        let (cluster, node) = self.split(at)?;
        let cluster = cluster.unwrap_or_else(|| self.local.clone());
        let key = self.declared(at, NodeKey { cluster, node })?;
        Ok(self.outcome(&key.cluster, &key.node))
    }
}
