//! The synchronous heart: snapshots and events in, views and probes out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_failure_detector::{Action, Detector, Event, Key};
use pointsman_ids::{
    ClusterName, CollectionName, Error, ErrorCode, Incarnation, NodeKey, NodeName,
    feed::{CollectionEntry, NodeEntry, Snapshot},
};
use pointsman_instance_selector::{Nodes, States};
use url::Url;

use crate::view::{CollectionRouting, Exclusion, RoutingView};

/// The routing of one cluster without I/O: whoever drives it hands in what happened and when, publishes the views
/// and carries out the probes.
#[derive(Debug)]
pub struct Core {
    detector: Detector,
    view: Arc<RoutingView>,
}

impl Core {
    /// Nothing is known of the cluster yet.
    pub fn new(cluster: ClusterName, detector: Detector) -> Self {
        Self { detector, view: Arc::new(RoutingView::empty(cluster)) }
    }

    /// What queries are to be routed by now.
    pub fn view(&self) -> &Arc<RoutingView> {
        &self.view
    }

    /// When an [`Event::Tick`] is due; `None`: not before something else happens.
    pub fn next_wakeup(&self) -> Option<Duration> {
        self.detector.next_wakeup()
    }

    /// Whether a node stands in the unhealthy set.
    pub fn is_unhealthy(&self, node: &NodeKey) -> bool {
        self.detector.is_unhealthy(node)
    }

    /// Takes something that happened to a node, and says who is to be probed.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Key> {
        self.handle_all([event], now)
    }

    /// The same for several things at once, with one view for all of them.
    pub fn handle_all(&mut self, events: impl IntoIterator<Item = Event>, now: Duration) -> Vec<Key> {
        let probes = self.feed_detector(events, now);
        self.refresh();
        probes
    }

    /// Takes a snapshot that is newer than the one before, and says who is to be probed. An older one, or the same
    /// again, changes nothing.
    ///
    /// # Errors
    /// `parameter_invalid` for a snapshot of another cluster. What was applied before stays in place.
    pub fn apply(&mut self, mut snapshot: Snapshot, now: Duration) -> Result<Vec<Key>, Error> {
        let before = self.view.clone();
        if snapshot.cluster != before.snapshot.cluster {
            let message = format!(
                "a snapshot of cluster '{}' came to a broker of cluster '{}'",
                snapshot.cluster, before.snapshot.cluster
            );
            return Err(Error::new(ErrorCode::ParameterInvalid, message));
        }
        if snapshot.version <= before.snapshot.version {
            return Ok(vec![]);
        }
        let (entries, urls) = readable(std::mem::take(&mut snapshot.nodes), &before);
        snapshot.nodes = entries;
        for entry in &mut snapshot.collections {
            if let Some(known) = before.collections.get(&entry.name)
                && *known.entry == **entry
            {
                *entry = known.entry.clone();
            }
        }
        let probes = self.feed_detector(membership(&before, &snapshot), now);
        let nodes = Nodes::new(&snapshot.nodes, |name| self.is_excluded(&snapshot.cluster, name));
        let collections = collections(&snapshot.collections, &nodes, &before);
        self.view = Arc::new(RoutingView {
            nodes,
            urls: urls.into(),
            collections: Arc::new(collections),
            snapshot: Arc::new(snapshot),
            ..RoutingView::clone(&before)
        });
        self.refresh();
        Ok(probes)
    }

    fn feed_detector(&mut self, events: impl IntoIterator<Item = Event>, now: Duration) -> Vec<Key> {
        let mut probes = vec![];
        for action in events.into_iter().flat_map(|event| self.detector.handle(event, now)) {
            match action {
                Action::Probe(key) => probes.push(key),
                // The views read the unhealthy set, so both are in force with the next view.
                Action::Exclude(key) => tracing::warn!(node = %key, "node is excluded"),
                Action::Include(key) => tracing::info!(node = %key, "node is included again"),
            }
        }
        probes
    }

    fn is_excluded(&self, cluster: &ClusterName, node: &NodeName) -> bool {
        self.detector.is_unhealthy(&NodeKey { cluster: cluster.clone(), node: node.clone() })
    }

    /// Makes a view of what the detector says now, if that differs.
    fn refresh(&mut self) {
        let view = &self.view;
        let exclusion = |entry: &NodeEntry| {
            let record = self.detector.record(&view.key(&entry.name))?;
            let evidence = record.evidence.clone();
            Some((entry.name.clone(), Exclusion { since: record.since, evidence, next_probe: record.next }))
        };
        let exclusions: BTreeMap<_, _> = view.snapshot.nodes.iter().filter_map(exclusion).collect();
        if exclusions == view.exclusions && view.counters == *self.detector.counters() {
            return;
        }
        let nodes = view.nodes.with_excluded(|name| exclusions.contains_key(name));
        let counters = self.detector.counters().clone();
        self.view = Arc::new(RoutingView { nodes, exclusions, counters, ..RoutingView::clone(view) });
    }
}

/// Nodes whose address can be read, with it. One that cannot keeps the last good address of its process, or is
/// skipped.
fn readable(nodes: Vec<NodeEntry>, before: &RoutingView) -> (Vec<NodeEntry>, Vec<Url>) {
    let mut nodes = nodes;
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes.dedup_by(|later, first| later.name == first.name);
    let read = |mut node: NodeEntry| match Url::parse(&node.address) {
        Ok(url) => Some((node, url)),
        Err(error) => {
            let known = before.nodes.by_name(&node.name)?;
            tracing::error!(node = %node.name, address = %node.address, %error, "address cannot be read");
            let (entry, url) = (before.nodes.entry(known), &before.urls[known.0 as usize]);
            node.address.clone_from(&entry.address);
            (entry.incarnation == node.incarnation).then(|| (node, url.clone()))
        }
    };
    nodes.into_iter().filter_map(read).unzip()
}

/// What the detector has to know of a change of the members.
fn membership(before: &RoutingView, after: &Snapshot) -> Vec<Event> {
    let key = |name: &NodeName| NodeKey { cluster: after.cluster.clone(), node: name.clone() };
    let names: BTreeSet<&NodeName> = after.nodes.iter().map(|node| &node.name).collect();
    let gone = before.snapshot.nodes.iter().filter(|node| !names.contains(&node.name));
    let removed = gone.map(|node| Event::Removed { node: key(&node.name) });
    let member = |node: &NodeEntry| Event::Member {
        node: key(&node.name),
        incarnation: node.incarnation,
        enabled: node.enabled,
    };
    let was_lost = |node: &NodeEntry| {
        let known = before.nodes.by_name(&node.name).map(|at| before.nodes.entry(at));
        known.is_some_and(|known| known.lost && known.incarnation == node.incarnation)
    };
    // Its lease at the coordinator ended, which may be the one that is cut off: judge for ourselves.
    let lost = after.nodes.iter().filter(|node| node.lost && !was_lost(node));
    let suspected = lost.map(|node| Event::Suspected { node: key(&node.name) });
    removed.chain(after.nodes.iter().map(member)).chain(suspected).collect()
}

/// States are built anew where the collection changed, or where nodes have other places.
fn collections(
    entries: &[Arc<CollectionEntry>],
    nodes: &Nodes,
    before: &RoutingView,
) -> BTreeMap<CollectionName, CollectionRouting> {
    let same_places = nodes.same_places(&before.nodes);
    let build = |entry: &Arc<CollectionEntry>| {
        let known = before.collections.get(&entry.name);
        let states = match known {
            Some(known) if same_places && Arc::ptr_eq(&known.entry, entry) => known.states.clone(),
            _ => Arc::new(States::new(entry, nodes)),
        };
        let requests = known.map(|known| known.requests.clone()).unwrap_or_default();
        (entry.name.clone(), CollectionRouting { entry: entry.clone(), states, requests })
    };
    entries.iter().map(build).collect()
}

/// Which process stands behind which address.
pub(crate) fn processes(view: &RoutingView) -> impl Iterator<Item = (Url, Incarnation)> {
    view.nodes.iter().map(|(at, entry)| (view.urls[at.0 as usize].clone(), entry.incarnation))
}
