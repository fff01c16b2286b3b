//! The engine's router, for one attempt of one query.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_engine::{Part, Routed, Router, Unavailable};
use pointsman_ids::{GroupName, GroupNumber, NodeId, NodeKey, NodeName, Result, feed::CollectionEntry};
use pointsman_routing::{RequestIds, RoutingView, SelectOptions};
use url::Url;

use crate::request::QueryOptions;

/// Routes all scans of one attempt by one view, around the nodes that failed in earlier attempts.
#[derive(Debug)]
pub(super) struct AttemptRouter {
    view: Arc<RoutingView>,
    /// One id per collection, the same in every attempt.
    ids: Arc<RequestIds>,
    without: BTreeSet<NodeKey>,
    num_replica_groups: u32,
    scope: Option<Scope>,
}

/// A query that one resource group alone may answer.
#[derive(Debug)]
struct Scope {
    group: GroupName,
    /// Nodes of the group's replicas of the collections that the query reads, as far as the group is known.
    nodes: BTreeSet<NodeName>,
}

impl AttemptRouter {
    /// A router for the collections of one statement.
    pub(super) fn new<'a>(
        view: Arc<RoutingView>,
        ids: Arc<RequestIds>,
        without: BTreeSet<NodeKey>,
        options: &QueryOptions,
        collections: impl Iterator<Item = &'a String>,
    ) -> Self {
        let scope = options
            .resource_group
            .clone()
            .map(|group| Scope { nodes: nodes_of_group(&view, &group, collections), group });
        Self { view, ids, without, num_replica_groups: options.num_replica_groups, scope }
    }
}

impl Router for AttemptRouter {
    fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
        let selection = self.view.select(
            collection,
            segments,
            &SelectOptions {
                num_replica_groups: self.num_replica_groups,
                resource_group: self.scope.as_ref().map(|scope| &scope.group),
                ..SelectOptions::new(self.ids.of(&self.view, collection), &self.without)
            },
        )?;
        let part = |(node, segments): (_, &[u32])| {
            let node = self.view.node(node);
            Part { node: node.key, url: node.url, segments: segments.to_vec() }
        };
        let mut parts: Vec<Part> = selection.parts().map(part).collect();
        parts.sort_by(|one, other| one.node.cmp(&other.node));
        let unavailable = selection.unavailable.iter().map(|(segment, cause)| Unavailable {
            segment: *segment,
            cause: *cause,
            nodes: self.view.nodes_of(collection, *segment),
        });
        Ok(Routed { unavailable: unavailable.collect(), parts, fail_open: vec![] })
    }

    fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
        let nodes = self.view.stage_nodes(&self.without);
        let may = |node: &NodeKey| self.scope.as_ref().is_none_or(|scope| scope.nodes.contains(&node.node));
        nodes.into_iter().filter(|node| may(&node.key)).map(|node| (node.key, node.url)).collect()
    }
}

/// Nodes that hold, or should hold, segments of the collections for the group's replicas. Costs as much as the
/// collections have copies; only queries with a scope pay.
fn nodes_of_group<'a>(
    view: &RoutingView,
    group: &GroupName,
    collections: impl Iterator<Item = &'a String>,
) -> BTreeSet<NodeName> {
    let snapshot = view.snapshot();
    let Some(number) = snapshot.groups.iter().find(|entry| entry.name == *group).map(|entry| entry.number)
    else {
        return BTreeSet::new();
    };
    let entries = collections.filter_map(|name| view.collection(name));
    let ids: BTreeSet<NodeId> = entries.flat_map(|entry| nodes_of_replicas(entry, number)).collect();
    snapshot.nodes.iter().filter(|node| ids.contains(&node.id)).map(|node| node.name.clone()).collect()
}

fn nodes_of_replicas(entry: &CollectionEntry, group: GroupNumber) -> impl Iterator<Item = NodeId> {
    let in_group = move |replica: u32| {
        entry.replicas.get(replica as usize).is_some_and(|replica| replica.group == group)
    };
    let copies = entry.segments.iter().flat_map(|segment| &segment.copies);
    copies.filter(move |copy| in_group(copy.replica)).map(|copy| copy.node)
}
