//! The routing manager of one cluster: snapshots in, cluster views out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_failure_detector::Event;
use pointsman_ids::{
    ClusterName, CollectionName, Error, NodeId, NodeName,
    feed::{CollectionChange, CollectionDelta, CollectionEntry, Delta, Snapshot},
};
use pointsman_instance_selector::Nodes;

use crate::{
    cluster::{ClusterView, Routed},
    collections::{Collection, Site},
    members::Names,
};

/// What of the broker's settings managers need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Building {
    pub(crate) new_segment_window: Duration,
    pub(crate) adaptive: bool,
    /// Wall time at the zero of the monotonic clock, nanoseconds since the Unix epoch.
    pub(crate) started_at: u64,
}

impl Building {
    fn wall(self, now: Duration) -> u64 {
        self.started_at.saturating_add(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Keeps the view of one cluster.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) view: Arc<ClusterView>,
    /// Ids that copies name and nobody has introduced yet.
    unresolved: BTreeSet<NodeId>,
    /// Collections whose newest version could not be applied, and why; each change tries them again.
    pending: BTreeMap<CollectionName, Error>,
    /// How many ids there may be before some are forgotten.
    look_at: usize,
    /// The view's nodes do not follow its members, or the detector, yet.
    nodes_differ: bool,
}

/// What a change came to.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Collections that came, changed or went.
    pub(crate) collections: BTreeSet<CollectionName>,
    /// Those whose newest version could not be applied, and why.
    pub(crate) failed: BTreeMap<CollectionName, Error>,
}

impl Manager {
    pub(crate) fn new(cluster: ClusterName) -> Self {
        Self {
            view: Arc::new(ClusterView::empty(cluster)),
            unresolved: BTreeSet::new(),
            pending: BTreeMap::new(),
            look_at: FEW_IDS,
            nodes_differ: true,
        }
    }

    /// The manager comes up, without any member.
    pub(crate) fn start(&mut self) {
        Arc::make_mut(&mut self.view).running = true;
    }

    /// Tells the name of a process that copies may name, member or not.
    pub(crate) fn introduce(&mut self, id: NodeId, name: &NodeName) {
        Arc::make_mut(&mut self.view).names.introduce(id, name);
    }

    /// Takes the members of a snapshot, and says what the failure detector has to know of it before anything else is
    /// taken. `is_news`: newcomers are news to the cluster, not only to us.
    pub(crate) fn set_members(&mut self, after: &Snapshot, is_news: bool) -> Vec<Event> {
        if after.nodes == self.view.snapshot.nodes {
            return vec![];
        }
        let view = Arc::make_mut(&mut self.view);
        let members = view.members.replaced(&view.name, &after.nodes, &mut view.names);
        let events = members.events(&view.members, &view.name, is_news);
        view.members = members;
        self.nodes_differ = true;
        events
    }

    /// Takes the rest of a snapshot, to which `delta` leads from the one before. A collection that cannot be taken
    /// keeps its former version and stops no other.
    pub(crate) fn advance(
        &mut self,
        after: Snapshot,
        delta: &Delta,
        is_unhealthy: impl Fn(&NodeName) -> bool,
        building: Building,
        now: Duration,
    ) -> Changed {
        let before = std::mem::replace(&mut Arc::make_mut(&mut self.view).snapshot, Arc::new(after));
        self.name_replica_groups(delta.collections.iter().map(CollectionDelta::name));
        let view = Arc::make_mut(&mut self.view);
        if std::mem::take(&mut self.nodes_differ) || view.nodes.len() != view.names.table.len() {
            view.nodes = Nodes::new(view.names.table.clone(), view.members.memberships(), is_unhealthy);
        }
        view.health = Arc::default();
        let mut changed = Changed::default();
        for name in &delta.dropped {
            view.collections.remove(name);
            self.pending.remove(name);
            changed.collections.insert(name.clone());
        }
        self.take_collections(&before, delta, building, now, &mut changed);
        self.forget_ids();
        changed
    }

    /// Takes the collections that a delta names, those that could not be taken before, and those that named nodes which
    /// have been introduced since.
    fn take_collections(
        &mut self,
        before: &Snapshot,
        delta: &Delta,
        building: Building,
        now: Duration,
        changed: &mut Changed,
    ) {
        let view = Arc::make_mut(&mut self.view);
        let changes: BTreeMap<_, _> =
            delta.collections.iter().map(|change| (change.name(), change)).collect();
        let met = met(&mut self.unresolved, &view.names);
        let met_by = view.collections.keys().filter(|_| !met.is_empty());
        let names: BTreeSet<_> =
            changes.keys().copied().chain(self.pending.keys()).chain(met_by).cloned().collect();
        let mut site = Site {
            names: &view.names,
            nodes: &view.nodes,
            new_segment_window: building.new_segment_window,
            adaptive: building.adaptive,
            now,
            wall: building.wall(now),
            unresolved: &mut self.unresolved,
        };
        for name in names {
            let Some(entry) = view.snapshot.collection(name.as_str()) else { continue };
            let known = view.collections.get(&name);
            let change = match changes.get(&name) {
                Some(CollectionDelta::Changed(change)) if leads_from(known, before) => Some(change),
                _ => None,
            };
            let failed_before = self.pending.remove(&name);
            match take(known, entry, change, &met, &mut site) {
                Ok(None) => continue,
                Ok(Some(collection)) => {
                    view.collections.insert(name.clone(), Routed::Built(Arc::new(collection)));
                }
                Err(error) => {
                    if failed_before.as_ref() != Some(&error) {
                        let cluster = &view.name;
                        tracing::error!(%cluster, collection = %name, %error, "not routed as the feed says");
                    }
                    if known.is_none_or(|known| known.built().is_none()) {
                        let refused = Routed::Refused(Arc::clone(entry), error.clone());
                        view.collections.insert(name.clone(), refused);
                    }
                    self.pending.insert(name.clone(), error.clone());
                    changed.failed.insert(name.clone(), error);
                }
            }
            changed.collections.insert(name);
        }
    }

    /// The same cluster with another verdict of the failure detector. Costs as much as there are nodes.
    pub(crate) fn exclude(&mut self, is_unhealthy: impl Fn(&NodeName) -> bool) {
        let nodes = self.view.nodes.with_unhealthy(is_unhealthy);
        if nodes.unhealthy() != self.view.nodes.unhealthy() {
            let view = Arc::make_mut(&mut self.view);
            view.nodes = nodes;
            view.health = Arc::default();
        }
    }

    /// Gives places to the nodes of replica groups.
    fn name_replica_groups<'a>(&mut self, names: impl Iterator<Item = &'a CollectionName>) {
        let snapshot = self.view.snapshot.clone();
        let entries = names.filter_map(|name| snapshot.collection(name.as_str()));
        let nodes = entries.flat_map(|entry| entry.routing.replica_groups.values().flatten().flatten());
        for node in nodes {
            if self.view.names.table.find(node).is_none() {
                Arc::make_mut(&mut self.view).names.table.intern(node);
            }
        }
    }

    /// Forgets ids that neither a member nor a copy has, once there are many: every start of a node brings a new one.
    fn forget_ids(&mut self) {
        if self.view.names.ids.len() < self.look_at {
            return;
        }
        let built = self.view.collections.values().filter_map(Routed::built);
        let segments = built.flat_map(|collection| &collection.entry.segments);
        let named = segments.flat_map(|segment| &segment.copies).map(|copy| copy.node);
        let named: BTreeSet<_> = named.chain(self.view.snapshot.nodes.iter().map(|node| node.id)).collect();
        let view = Arc::make_mut(&mut self.view);
        view.names.keep(&named);
        self.unresolved.retain(|id| named.contains(id));
        self.look_at = FEW_IDS.max(2 * view.names.ids.len());
    }
}

/// As many ids are kept without a look at them.
const FEW_IDS: usize = 4096;

/// Takes out those of the unresolved ids that have been introduced.
fn met(unresolved: &mut BTreeSet<NodeId>, names: &Names) -> BTreeSet<NodeId> {
    unresolved.extract_if(.., |id| names.place(*id).is_some()).collect()
}

/// Whether the collection is routed by the version that the snapshot before held.
fn leads_from(known: Option<&Routed>, before: &Snapshot) -> bool {
    known.is_some_and(|known| {
        let held = before.collection(known.entry().name.as_str());
        held.is_some_and(|held| Arc::ptr_eq(known.entry(), held))
    })
}

/// The collection by its newest entry; `None`: it stays as it is. `change` leads there, if it is known; `met` have been
/// introduced since the last change.
fn take(
    known: Option<&Routed>,
    entry: &Arc<CollectionEntry>,
    change: Option<&CollectionChange>,
    met: &BTreeSet<NodeId>,
    site: &mut Site<'_>,
) -> Result<Option<Collection>, Error> {
    let Some(Routed::Built(known)) = known else {
        return Collection::build(Arc::clone(entry), Arc::default(), site).map(Some);
    };
    let introduced = known.introduce(met, site)?;
    let known = introduced.as_ref().unwrap_or(known);
    if known.entry.id == entry.id && entry.version <= known.entry.version {
        return Ok(introduced);
    }
    let found;
    let change = match change {
        Some(change) => change,
        None => {
            found = CollectionChange::between(&known.entry, entry);
            &found
        }
    };
    known.change(entry, change, site).map(Some)
}
