//! Nodes for the stages of a query: chosen from the same routable set as those of its leaves.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::{GroupName, NodeKey};
use pointsman_instance_selector::NodeSet;

use crate::{RoutedNode, RoutingView, cluster::ClusterView};

impl RoutingView {
    /// Nodes that any stage of a query may run on, by cluster and name: the routable ones of the clusters that its
    /// collections lie in (the local one for a query without collections), without those that failed under it. Under
    /// a resource group only nodes of that group's replicas of the collections. When there is none, such stages run
    /// in the broker.
    pub fn stage_nodes<'a>(
        &self,
        collections: impl IntoIterator<Item = &'a str>,
        group: Option<&GroupName>,
        without: &BTreeSet<NodeKey>,
    ) -> Vec<Arc<RoutedNode>> {
        let names: Vec<_> = collections.into_iter().collect();
        let mut nodes: Vec<Arc<RoutedNode>> = vec![];
        for at in self.clusters_of(&names) {
            let Some(cluster) = self.clusters.get(at) else { continue };
            let may = cluster.nodes.routable().without(&cluster.node_set(without));
            let within = group.map(|group| cluster.nodes_of_group(&names, group));
            let may = may.iter().filter(|node| within.as_ref().is_none_or(|within| within.contains(*node)));
            nodes.extend(may.filter_map(|node| cluster.node(node).cloned()));
        }
        nodes.sort_by(|one, other| one.key.cmp(&other.key));
        nodes
    }

    /// Places of the clusters that these collections lie in; the local one's if there are none.
    fn clusters_of(&self, collections: &[&str]) -> BTreeSet<usize> {
        if collections.is_empty() {
            return BTreeSet::from([0]);
        }
        let spanning = collections.iter().filter_map(|name| self.collections.get(*name));
        spanning.flat_map(|spanning| &spanning.parts).map(|part| part.cluster).collect()
    }
}

impl ClusterView {
    /// The nodes that copies of the group's replicas of some collections lie on, or should.
    fn nodes_of_group(&self, collections: &[&str], group: &GroupName) -> NodeSet {
        let Some(number) = self.group(group) else { return NodeSet::new() };
        let built = collections.iter().filter_map(|name| self.built(name));
        built
            .filter_map(|collection| collection.nodes_of(&self.names, number))
            .flat_map(NodeSet::iter)
            .collect()
    }
}
