//! The synchronous heart: snapshots, deltas and events in; views and probes out.

mod feed;
mod settings;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use imbl::OrdMap;
use pointsman_failure_detector::{Action, Detector, Event, Key, Probe, Record};
use pointsman_ids::{ClusterName, CollectionName, Error, ErrorCode, NodeKey, NodeName};
use pointsman_instance_selector::FailOpen;

use crate::{
    cluster::ClusterView,
    manager::{Building, Manager},
    spanning::Spanning,
    switches,
    view::{Exclusion, RoutingView},
};

pub use settings::CoreSettings;

/// The routing of all clusters without I/O: whoever drives it hands in what happened and when, publishes the views and
/// carries out the probes. Times are monotonic, since the driver's start.
#[derive(Debug)]
pub struct Core {
    building: Building,
    fail_open: FailOpen,
    detector: Detector,
    /// In the order of the configuration.
    managers: Vec<Manager>,
    view: Arc<RoutingView>,
    /// The latest time that was heard of.
    now: Duration,
}

impl Core {
    /// Nothing is known of any cluster, and no manager runs.
    ///
    /// # Errors
    /// `parameter_invalid` naming the setting that makes no sense.
    pub fn new(settings: CoreSettings) -> Result<Self, Error> {
        let CoreSettings { clusters, detector, new_segment_window, fail_open, adaptive, started_at } =
            settings;
        let refuse = |what: String| Err(Error::new(ErrorCode::ParameterInvalid, what));
        if clusters.is_empty() {
            return refuse("no cluster is named; the first one is the local one".to_owned());
        }
        if let Some(twice) = (1..clusters.len()).find(|at| clusters[..*at].contains(&clusters[*at])) {
            return refuse(format!("cluster '{}' is named twice", clusters[twice]));
        }
        let building = Building { new_segment_window, adaptive: adaptive.is_on(), started_at };
        let managers: Vec<_> = clusters.into_iter().map(Manager::new).collect();
        let view = RoutingView {
            clusters: managers.iter().map(|manager| manager.view.clone()).collect(),
            collections: OrdMap::new(),
            exclusions: Arc::default(),
            suspicions: Arc::default(),
            detector: Arc::default(),
            fail_open,
            adaptive,
        };
        let detector = Detector::new(detector)?;
        Ok(Self { building, fail_open, detector, managers, view: Arc::new(view), now: Duration::ZERO })
    }

    /// What queries are to be routed by now.
    pub fn view(&self) -> &Arc<RoutingView> {
        &self.view
    }

    /// When an [`Event::Tick`] is due; `None`: not before something else happens.
    pub fn next_wakeup(&self) -> Option<Duration> {
        self.detector.next_wakeup()
    }

    /// Whether a node stands in the unhealthy set under either of its keys.
    pub fn is_unhealthy(&self, node: &NodeKey) -> bool {
        self.detector.is_unhealthy(node)
    }

    /// Whether any node has a row of suspicions, so that [`Event::Answered`] may matter.
    pub fn has_suspicions(&self) -> bool {
        self.detector.has_suspicions()
    }

    /// The cluster that answers for a node when it is retried; `None`: no running manager has it enabled, so that it
    /// counts as unhealthy without a call.
    pub fn lookup(&self, key: &Key) -> Option<&ClusterName> {
        let node = self.view.answerer(key)?;
        self.managers.iter().map(|manager| &manager.view.name).find(|name| **name == node.key.cluster)
    }

    /// Takes something that happened to a node, and says what is to be probed.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Probe> {
        self.handle_all([event], now)
    }

    /// The same for several things at once, with one view for all of them.
    pub fn handle_all(&mut self, events: impl IntoIterator<Item = Event>, now: Duration) -> Vec<Probe> {
        self.now = self.now.max(now);
        let probes = self.feed_detector(events, now);
        self.publish(&BTreeSet::new());
        probes
    }

    fn feed_detector(&mut self, events: impl IntoIterator<Item = Event>, now: Duration) -> Vec<Probe> {
        let mut probes = vec![];
        for action in events.into_iter().flat_map(|event| self.detector.handle(event, now)) {
            match action {
                Action::Probe(probe) => probes.push(probe),
                // The views read the unhealthy set, so both are in force with the next view.
                Action::Exclude(key) => tracing::warn!(node = %key, "node is excluded"),
                Action::Include(key) => tracing::info!(node = %key, "node is included again"),
            }
        }
        probes
    }

    /// Makes a view of what is known now, if that differs. `collections` may have changed.
    fn publish(&mut self, collections: &BTreeSet<CollectionName>) {
        let exclusions: BTreeMap<_, _> =
            self.detector.unhealthy().map(|(key, record)| (key.clone(), exclusion(record))).collect();
        if !exclusions.keys().eq(self.view.exclusions.keys()) {
            let detector = &self.detector;
            for manager in self.managers.iter_mut().filter(|manager| manager.view.running) {
                let cluster = manager.view.name.clone();
                manager.exclude(|node| is_unhealthy(detector, &cluster, node));
            }
        }
        let suspicions: BTreeMap<_, _> =
            self.detector.suspects().map(|(node, row)| (node.clone(), row.clone())).collect();
        let is_same = |(manager, view): (&Manager, &Arc<ClusterView>)| Arc::ptr_eq(&manager.view, view);
        if exclusions == *self.view.exclusions
            && suspicions == *self.view.suspicions
            && *self.detector.counters() == *self.view.detector
            && self.managers.iter().zip(&self.view.clusters).all(is_same)
        {
            return;
        }
        let clusters: Vec<_> = self.managers.iter().map(|manager| manager.view.clone()).collect();
        let mut spanning = self.view.collections.clone();
        for name in collections {
            let unknown = spanning.get(name).map(|known| known.unknown.clone()).unwrap_or_default();
            match Spanning::of(name.as_str(), &clusters, unknown) {
                Some(collection) => drop(spanning.insert(name.clone(), Arc::new(collection))),
                None => drop(spanning.remove(name)),
            }
        }
        let fail_open = switches::in_force(self.fail_open, &clusters[0].snapshot.config);
        self.view = Arc::new(RoutingView {
            clusters,
            collections: spanning,
            exclusions: Arc::new(exclusions),
            suspicions: Arc::new(suspicions),
            detector: Arc::new(self.detector.counters().clone()),
            fail_open,
            adaptive: self.view.adaptive,
        });
    }

    /// Collections of all clusters: what they span may differ where a manager comes up.
    fn all_collections(&self) -> BTreeSet<CollectionName> {
        self.managers.iter().flat_map(|manager| manager.view.collections.keys().cloned()).collect()
    }
}

fn is_unhealthy(detector: &Detector, cluster: &ClusterName, node: &NodeName) -> bool {
    detector.is_unhealthy(&NodeKey { cluster: cluster.clone(), node: node.clone() })
}

fn exclusion(record: &Record) -> Exclusion {
    Exclusion {
        since: record.since,
        evidence: record.evidence.clone(),
        next_probe: record.next,
        tries: record.tries,
        last_probe: record.last_probe.clone(),
    }
}
