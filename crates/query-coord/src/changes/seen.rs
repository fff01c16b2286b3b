//! How everything was when changes were looked for last.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::{CollectionId, NodeId, NodeName, TargetVersion, catalog::Collection};

use super::Changes;
use crate::{
    Distribution, PlacementRules, Registrations, Replica, Replicas, SessionState, Stores, Target, Targets,
    settled,
};

/// What decisions read of a node. Another value means that whatever has to do with the node is decided anew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeFacts {
    id: Option<NodeId>,
    session: SessionState,
    known: bool,
    takes_segments: bool,
    reported: bool,
    memory: Option<u64>,
}

impl NodeFacts {
    fn of(stores: &Stores, name: &NodeName) -> Self {
        let seen = stores.observed.get(name);
        Self {
            id: seen.map(|seen| seen.id),
            session: stores.session(name.as_str()),
            known: stores.is_known(name.as_str()),
            takes_segments: stores.takes_segments(name.as_str()),
            reported: seen.is_some_and(|seen| seen.reported),
            memory: seen.and_then(|seen| seen.memory),
        }
    }
}

/// The stores as they were when changes were looked for last.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    nodes: BTreeMap<NodeName, NodeFacts>,
    collections: BTreeMap<CollectionId, Arc<Collection>>,
    loads: Registrations,
    replicas: Replicas,
    targets: Targets,
    distribution: Distribution,
    settled: BTreeMap<CollectionId, Vec<bool>>,
    rules: PlacementRules,
}

impl Seen {
    pub(super) fn look(&mut self, stores: &mut Stores) -> Changes {
        let mut changes = Changes::default();
        self.look_at_catalog(stores, &mut changes);
        self.look_at_targets(stores, &mut changes);
        let mut concerned = self.look_at_replicas(stores, &mut changes);
        let nodes = self.look_at_nodes(stores);
        let on_them = |replica: &&Arc<Replica>| replica.all_nodes().any(|node| nodes.contains(node));
        concerned.extend(stores.replicas.iter().filter(on_them).map(|replica| replica.collection));
        self.look_at_silence(stores, concerned, &mut changes);
        for node in &nodes {
            stores.note_node(node, None, &mut changes);
        }
        self.look_at_rules(stores, &mut changes);
        for collection in self.distribution.changes(&stores.distribution) {
            changes.note(collection);
        }
        self.distribution = stores.distribution.clone();
        for (collection, segment) in stores.whereabouts.take_news() {
            let change = changes.note(collection);
            let is_wanted = || stores.whereabouts.row(segment).is_some_and(|row| row.is_wanted());
            if !(change.all && is_wanted()) {
                change.segments.insert(segment);
            }
        }
        changes
    }

    fn look_at_catalog(&mut self, stores: &Stores, changes: &mut Changes) {
        let same = |(id, store): (&CollectionId, &crate::CollectionStore)| {
            self.collections.get(id).is_some_and(|seen| Arc::ptr_eq(seen, &store.collection))
        };
        let fresh = stores.collections.iter().filter(|entry| !same(*entry)).map(|(id, _)| *id);
        let gone = self.collections.keys().filter(|id| !stores.collections.contains_key(id)).copied();
        let changed: Vec<CollectionId> = fresh.chain(gone).collect();
        for id in changed {
            // What is told of its segments may depend on its options.
            changes.note_all(id);
            match stores.collections.get(&id) {
                Some(store) => drop(self.collections.insert(id, Arc::clone(&store.collection))),
                None => drop(self.collections.remove(&id)),
            }
        }
    }

    fn look_at_targets(&mut self, stores: &mut Stores, changes: &mut Changes) {
        let loads = self.loads.changes(&stores.loads);
        let targets = self.targets.changes(&stores.targets);
        for collection in loads.into_iter().chain(targets).collect::<BTreeSet<_>>() {
            changes.note(collection);
            let before = both(&self.loads, &self.targets, collection);
            let after = both(&stores.loads, &stores.targets, collection);
            let Stores { whereabouts, collections, dropped, .. } = stores;
            let live = collections.get(&collection).map(|store| &store.segments);
            let catalog = |id| live.and_then(|live| live.get(&id)).or_else(|| dropped.get(&id));
            whereabouts.retarget(collection, refs(&before), refs(&after), catalog);
            if newest(&before) != newest(&after) {
                // Tries are counted by target.
                stores.touch_failures(Some(collection));
            }
        }
        self.loads = stores.loads.clone();
        self.targets = stores.targets.clone();
    }

    /// Gives the collections whose replicas are others.
    fn look_at_replicas(&mut self, stores: &mut Stores, changes: &mut Changes) -> BTreeSet<CollectionId> {
        let concerned: BTreeSet<CollectionId> = self.replicas.changes(&stores.replicas).into_iter().collect();
        for collection in concerned.iter().copied() {
            changes.note(collection);
            for node in stores.replicas.of(collection).iter().flat_map(|replica| replica.all_nodes()) {
                stores.whereabouts.intern(node);
            }
            let (before, after) = (self.replicas.of(collection), stores.replicas.of(collection));
            let same =
                |a: &Arc<Replica>, b: &Arc<Replica>| a.id == b.id && a.query_visible == b.query_visible;
            if before.len() != after.len() || before.iter().zip(after).any(|(a, b)| !same(a, b)) {
                changes.note_all(collection);
                continue;
            }
            for node in before.iter().zip(after).flat_map(|(before, after)| moved(before, after)) {
                stores.note_node(node, Some(collection), changes);
            }
            stores.touch_failures(Some(collection));
        }
        self.replicas = stores.replicas.clone();
        concerned
    }

    /// Gives the nodes of which something changed.
    fn look_at_nodes(&mut self, stores: &mut Stores) -> BTreeSet<NodeName> {
        let known = stores.nodes.keys().chain(stores.observed.keys());
        let names: BTreeSet<&NodeName> = known.chain(stores.whereabouts.names()).collect();
        let facts: BTreeMap<NodeName, NodeFacts> =
            names.into_iter().map(|name| (name.clone(), NodeFacts::of(stores, name))).collect();
        let before = std::mem::replace(&mut self.nodes, facts);
        let differs = |name: &&NodeName| before.get(*name) != self.nodes.get(*name);
        let changed: BTreeSet<NodeName> =
            before.keys().chain(self.nodes.keys()).filter(differs).cloned().collect();
        if !changed.is_empty() {
            stores.touch_failures(None);
        }
        changed
    }

    /// Nothing is decided of a replica until all of its nodes were heard; then everything is.
    fn look_at_silence(
        &mut self,
        stores: &Stores,
        collections: BTreeSet<CollectionId>,
        changes: &mut Changes,
    ) {
        for collection in collections {
            changes.note(collection);
            let now: Vec<bool> =
                stores.replicas_of(collection).map(|replica| settled(stores, replica)).collect();
            if self.settled.get(&collection) != Some(&now) {
                changes.note_all(collection);
            }
            if now.is_empty() {
                self.settled.remove(&collection);
            } else {
                self.settled.insert(collection, now);
            }
        }
    }

    fn look_at_rules(&mut self, stores: &mut Stores, changes: &mut Changes) {
        if self.rules != stores.rules {
            self.rules = stores.rules.clone();
            stores.replicas.iter().for_each(|replica| _ = changes.note(replica.collection));
            stores.touch_failures(None);
        }
    }
}

/// The targets of a collection that is loaded.
fn both(
    loads: &Registrations,
    targets: &Targets,
    collection: CollectionId,
) -> (Option<Arc<Target>>, Option<Arc<Target>>) {
    if loads.get(collection).is_none() {
        return (None, None);
    }
    (targets.current(collection).cloned(), targets.next(collection).cloned())
}

fn refs((current, next): &(Option<Arc<Target>>, Option<Arc<Target>>)) -> (Option<&Target>, Option<&Target>) {
    (current.as_deref(), next.as_deref())
}

/// The version by which tries to load segments are counted.
fn newest((current, next): &(Option<Arc<Target>>, Option<Arc<Target>>)) -> Option<TargetVersion> {
    next.as_ref().or(current.as_ref()).map(|target| target.version)
}

/// Nodes whose place in a replica is another one.
fn moved<'a>(before: &'a Replica, after: &'a Replica) -> impl Iterator<Item = &'a NodeName> {
    let role =
        |replica: &Replica, node: &NodeName| (replica.nodes.contains(node), replica.ro_nodes.contains(node));
    let all: BTreeSet<&NodeName> = before.all_nodes().chain(after.all_nodes()).collect();
    all.into_iter().filter(move |node| role(before, node) != role(after, node))
}
