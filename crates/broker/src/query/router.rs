//! The engine's router, for one attempt of one query.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_engine::{CollectionScan, FailedPart, Part, Rerouted, Routed, Router, Unavailable};
use pointsman_ids::{ClusterName, CollectionName, Error, ErrorCode, NodeKey, Result, feed::CollectionEntry};
use pointsman_routing::{RequestIds, RouteRequest, RoutedNode, Routing, RoutingTable, RoutingView, Wanted};
use url::Url;

use super::{
    broken::named,
    calls::Calls,
    reports::Charge,
    tries::{Choose, Tries},
};
use crate::request::QueryOptions;

/// Routes all scans of one attempt by one view, around the nodes that failed in earlier attempts.
#[derive(Debug)]
pub(super) struct AttemptRouter {
    /// The broker's name of the query.
    query: String,
    routing: Routing,
    calls: Calls,
    view: Arc<RoutingView>,
    /// One id per collection, the same in every attempt.
    ids: Arc<RequestIds>,
    tries: Arc<Tries>,
    without: BTreeSet<NodeKey>,
    options: QueryOptions,
    /// The collections that the query reads.
    collections: BTreeSet<String>,
    noted: Mutex<Noted>,
}

/// What is the same in all attempts of a query.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    /// The broker's name of the query.
    pub(super) query: &'a str,
    /// One id per collection.
    pub(super) ids: Arc<RequestIds>,
    pub(super) tries: Arc<Tries>,
    pub(super) options: &'a QueryOptions,
    /// The collections that the query reads.
    pub(super) collections: &'a BTreeSet<String>,
}

/// What the tables of an attempt said besides who answers for what.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    /// The nodes that were chosen.
    pub(super) nodes: BTreeMap<NodeKey, Arc<RoutedNode>>,
    /// By collection.
    pub(super) left_out: BTreeMap<CollectionName, LeftOut>,
    /// Segments of requests that were refused as a whole, by collection.
    pub(super) refused: BTreeMap<CollectionName, Vec<pointsman_routing::Unavailable>>,
}

/// What routing left out of a collection without anybody being to blame, and what it could not say.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    /// Positions of new segments that nobody has yet.
    pub(super) new: BTreeSet<u32>,
    /// Positions of optional segments; nobody is asked for them.
    pub(super) optional: BTreeSet<u32>,
    /// Remote clusters whose part cannot be chosen.
    pub(super) refused: BTreeMap<ClusterName, Error>,
}

impl AttemptRouter {
    /// A router for the collections of one statement.
    pub(super) fn new(
        Asking { query, ids, tries, options, collections }: Asking<'_>,
        routing: Routing,
        calls: Calls,
        view: Arc<RoutingView>,
    ) -> Self {
        Self {
            query: query.to_owned(),
            routing,
            calls,
            view,
            ids,
            without: tries.attempts().failed_nodes().clone(),
            tries,
            options: options.clone(),
            collections: collections.clone(),
            noted: Mutex::default(),
        }
    }

    /// The view that this attempt is routed by.
    pub(super) fn view(&self) -> &Arc<RoutingView> {
        &self.view
    }

    /// The calls of this attempt.
    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// A node has answered completely: its call and its row of suspicions end.
    pub(super) fn answered(&self, node: &NodeKey) {
        let incarnation = self.noted.lock().nodes.get(node).map(|node| node.incarnation);
        if let Some(incarnation) = incarnation.filter(|_| self.calls.answered(node)) {
            self.routing.report_answered(node, incarnation);
        }
    }

    /// A node has failed: its call ends, and the failure detector hears of it.
    pub(super) fn failed(&self, node: &RoutedNode, charge: Charge, evidence: &str) {
        match charge {
            Charge::NotServing => self.calls.left(&node.key),
            _ => self.calls.failed(&node.key),
        };
        charge.report(&self.routing, node, evidence);
    }

    /// For each segment of a scan that has a node or nobody, ascending, the number of those that it must stay with.
    pub(super) fn together(&self, scan: &CollectionScan) -> Vec<Option<u32>> {
        let (collection, sampler) = (scan.collection.name.as_str(), self.options.sampler.as_deref());
        if !self.view.may_move_together(collection, sampler) {
            let served: usize = scan.parts.iter().map(|part| part.segments.len()).sum();
            return vec![None; served + scan.unavailable.len()];
        }
        let served =
            scan.parts.iter().flat_map(|part| part.segments.iter().map(|at| (*at, Some(&part.node))));
        let missing = scan.unavailable.iter().map(|missing| (missing.segment, None));
        let chosen: BTreeMap<u32, Option<&NodeKey>> = served.chain(missing).collect();
        self.view.groups(collection, sampler, chosen)
    }

    /// What was noted so far.
    pub(super) fn noted(&self) -> Noted {
        self.noted.lock().clone()
    }

    /// The node whose worker listens at `url`: the process that was chosen, or another one's as far as the view knows it.
    pub(super) fn node(&self, url: &Url) -> Option<Arc<RoutedNode>> {
        let chosen = self.noted.lock().nodes.values().find(|node| node.url == *url).cloned();
        chosen.or_else(|| self.view.node_by_url(url).cloned())
    }

    /// The routing table for segments of a collection without some nodes. The same id and options every time.
    ///
    /// # Errors
    /// Those of [`RoutingView::route`].
    pub(super) fn table(
        &self,
        collection: &CollectionEntry,
        segments: &[u32],
        without: &BTreeSet<NodeKey>,
    ) -> Result<RoutingTable> {
        let request = self.options.route(
            collection.name.as_str(),
            Wanted::Positions(segments),
            self.ids.of(&self.view, collection),
        );
        let request = RouteRequest { without, ..request };
        let table = self.view.route(&request).inspect_err(|error| {
            if error.code() == ErrorCode::SegmentsUnavailable {
                let refused = self.view.refused(&request);
                self.noted.lock().refused.insert(collection.name.clone(), refused);
            }
        })?;
        self.note(collection, &table);
        Ok(table)
    }

    fn note(&self, collection: &CollectionEntry, table: &RoutingTable) {
        let mut noted = self.noted.lock();
        noted.nodes.extend(table.parts.iter().map(|part| (part.node.key.clone(), Arc::clone(&part.node))));
        let left_out = noted.left_out.entry(collection.name.clone()).or_default();
        left_out.new.extend(&table.new);
        left_out.optional.extend(&table.optional_skipped);
        left_out.optional.extend(table.parts.iter().flat_map(|part| &part.optional));
        left_out.refused.extend(table.refused.iter().cloned());
    }
}

impl Router for AttemptRouter {
    fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
        self.table(collection, segments, &self.without).map(routed)
    }

    fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
        let collections = self.collections.iter().map(String::as_str);
        let nodes = self.view.stage_nodes(collections, self.options.resource_group.as_ref(), &self.without);
        nodes.iter().map(|node| (node.key.clone(), node.url.clone())).collect()
    }

    fn reroute(&self, failed: &FailedPart) -> Rerouted {
        let Some(node) = self.node(&failed.node) else { return Rerouted::Whole };
        let error = named(std::slice::from_ref(&node), failed.error.clone().into());
        self.failed(&node, Charge::of(&failed.error), failed.error.what());
        let (query, code) = (&self.query, error.code().name());
        tracing::warn!(query, node = %node.key, code, "a part of a query failed");
        tracing::debug!(query, message = error.message(), "the part failed because");
        self.tries.reroute(failed, &node.key, error, self, self.calls.now())
    }

    fn answered(&self, node: &Url) {
        if let Some(node) = self.node(node) {
            self.answered(&node.key);
        }
    }
}

impl Choose for AttemptRouter {
    fn choose(
        &self,
        collection: &CollectionEntry,
        segments: &[u32],
        without: &BTreeSet<NodeKey>,
    ) -> Result<RoutingTable> {
        self.table(collection, segments, without)
    }

    fn begin(&self, node: &NodeKey) -> Result<()> {
        self.calls.begin_now(node)
    }
}

/// The engine's form of a routing table. Optional segments are not sent along: a task reads all that it is given.
pub(super) fn routed(table: RoutingTable) -> Routed {
    let part = |part: pointsman_routing::RoutedPart| {
        let mut segments = part.segments;
        segments.sort_unstable();
        Part { node: part.node.key.clone(), url: part.node.url.clone(), segments }
    };
    let mut unavailable: Vec<_> = table.unavailable.into_iter().map(unavailable).collect();
    unavailable.sort_by_key(|unavailable| unavailable.segment);
    let mut fail_open = table.fail_open;
    fail_open.sort_unstable();
    Routed { parts: table.parts.into_iter().map(part).collect(), unavailable, fail_open }
}

fn unavailable(unavailable: pointsman_routing::Unavailable) -> Unavailable {
    let pointsman_routing::Unavailable { segment, cause, nodes, .. } = unavailable;
    Unavailable { segment, cause, nodes }
}
