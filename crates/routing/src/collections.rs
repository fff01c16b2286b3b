//! One collection of one cluster, as it is routed: its entry, its states and those of its samplers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use pointsman_ids::{
    Error, GroupNumber, NodeId, SegmentName,
    catalog::RoutingOptions,
    feed::{CollectionChange, CollectionEntry},
};
use pointsman_instance_selector::{NodeIndex, NodeSet, Nodes, States, StatesSettings};

use crate::{
    counters::CollectionCounters,
    inputs::{self, Inputs},
    members::Names,
    samplers::Sampler,
    touched::{Touch, naming, touched, touches},
};

/// A collection that has routing. A clone shares everything.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    pub(crate) entry: Arc<CollectionEntry>,
    pub(crate) states: Arc<States>,
    /// By plain name.
    pub(crate) samplers: Arc<BTreeMap<String, Sampler>>,
    pub(crate) counters: Arc<CollectionCounters>,
    nodes: OnceLock<BTreeMap<GroupNumber, NodeSet>>,
}

/// What collections are built with.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) names: &'a Names,
    /// They know every place of `names`.
    pub(crate) nodes: &'a Nodes,
    pub(crate) new_segment_window: Duration,
    pub(crate) adaptive: bool,
    /// Monotonic.
    pub(crate) now: Duration,
    /// The same moment, nanoseconds since the Unix epoch.
    pub(crate) wall: u64,
    /// Ids that copies name and nobody has introduced.
    pub(crate) unresolved: &'a mut BTreeSet<NodeId>,
}

impl Collection {
    /// The collection from nothing, with all ages from the creation of its segments. It goes on counting where one
    /// of its name did.
    ///
    /// # Errors
    /// `parameter_invalid` when its settings make no sense.
    pub(crate) fn build(
        entry: Arc<CollectionEntry>,
        counters: Arc<CollectionCounters>,
        site: &mut Site<'_>,
    ) -> Result<Self, Error> {
        let settings = settings(&entry, site);
        // What makes no sense is refused before a million segments are read for it.
        States::build(&settings, site.nodes, [], site.now)?;
        let mut inputs = Inputs::new(site.names, &entry, site.wall);
        entry.segments.iter().for_each(|segment| inputs.add(segment));
        let states = States::build(&settings, site.nodes, inputs.iter(), site.now)?;
        let mut samplers = BTreeMap::new();
        for (name, first_n) in crate::samplers::read(&entry.name, &entry.routing.samplers) {
            let sampler = Sampler::build(&entry, first_n, |end| {
                States::build(&settings, site.nodes, inputs.iter().take(end), site.now)
            })?;
            samplers.insert(name, sampler);
        }
        site.unresolved.extend(inputs.into_unresolved());
        let (states, samplers) = (Arc::new(states), Arc::new(samplers));
        counters.expect_pools(site.nodes);
        Ok(Self { entry, states, samplers, counters, nodes: OnceLock::new() })
    }

    /// The collection after a change of its entry; `change` leads there. Without a change of its settings former
    /// ages stay.
    ///
    /// # Errors
    /// `parameter_invalid` when its settings make no sense.
    pub(crate) fn change(
        &self,
        entry: &Arc<CollectionEntry>,
        change: &CollectionChange,
        site: &mut Site<'_>,
    ) -> Result<Self, Error> {
        if entry.id != self.entry.id {
            return Self::build(Arc::clone(entry), Arc::default(), site);
        }
        if !are_same_settings(&self.entry.routing, &entry.routing) {
            return Self::build(Arc::clone(entry), self.counters.clone(), site);
        }
        let touched = touched(&self.entry, entry, change);
        self.edit(entry, touched, site)
    }

    /// The same collection once some nodes that its copies name have been introduced; `None`: it names none of them.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub(crate) fn introduce(
        &self,
        nodes: &BTreeSet<NodeId>,
        site: &mut Site<'_>,
    ) -> Result<Option<Self>, Error> {
        let naming = if nodes.is_empty() { BTreeSet::new() } else { naming(&self.entry, nodes) };
        if naming.is_empty() { Ok(None) } else { self.edit(&self.entry, naming, site).map(Some) }
    }

    /// The nodes that copies of a group's replicas lie on, or should; `None`: nobody. One pass over the copies, the
    /// first time that it is asked after a change.
    pub(crate) fn nodes_of(&self, names: &Names, group: GroupNumber) -> Option<&NodeSet> {
        let by_group = self.nodes.get_or_init(|| {
            let mut by_group = BTreeMap::<_, NodeSet>::new();
            for copy in self.entry.segments.iter().flat_map(|segment| &segment.copies) {
                if let Some(node) = names.place(copy.node) {
                    by_group.entry(inputs::group(&self.entry.replicas, copy)).or_default().insert(node);
                }
            }
            by_group
        });
        by_group.get(&group)
    }

    fn edit(
        &self,
        entry: &Arc<CollectionEntry>,
        touched: BTreeSet<SegmentName>,
        site: &mut Site<'_>,
    ) -> Result<Self, Error> {
        let touches = touches(&self.entry.segments, &entry.segments, touched);
        let groups = (self.entry.routing.replica_groups != entry.routing.replica_groups)
            .then(|| replica_groups(&entry.routing, site.names));
        let mut edited = |states: &States, touches: &[Touch<'_>]| {
            let changed = edit(states, entry, touches, site)?;
            let regrouped = groups.as_ref().map(|groups| changed.with_replica_groups(groups, site.nodes));
            regrouped.unwrap_or(Ok(changed)).map(Arc::new)
        };
        let states = edited(&self.states, &touches)?;
        let mut samplers = BTreeMap::new();
        for (name, sampler) in &*self.samplers {
            let (followed, touches) = sampler.follow(&self.entry, entry, &touches);
            let states = edited(&sampler.states, &touches)?;
            samplers.insert(name.clone(), followed.with(states));
        }
        self.counters.expect_pools(site.nodes);
        let (entry, samplers, counters) = (Arc::clone(entry), Arc::new(samplers), self.counters.clone());
        Ok(Self { entry, states, samplers, counters, nodes: OnceLock::new() })
    }
}

fn edit(
    states: &States,
    entry: &CollectionEntry,
    touches: &[Touch<'_>],
    site: &mut Site<'_>,
) -> Result<States, Error> {
    let mut inputs = Inputs::new(site.names, entry, site.wall);
    touches.iter().filter_map(|touch| touch.segment).for_each(|segment| inputs.add(segment));
    let steps: Vec<_> = touches.iter().map(|touch| touch.step).collect();
    let changed = states.change(site.nodes, inputs.edits(&steps), site.now)?;
    site.unresolved.extend(inputs.into_unresolved());
    Ok(changed)
}

fn settings<'a>(entry: &'a CollectionEntry, site: &Site<'_>) -> StatesSettings<'a> {
    StatesSettings {
        collection: entry.name.clone(),
        routing: &entry.routing,
        replica_groups: replica_groups(&entry.routing, site.names),
        new_segment_window: site.new_segment_window,
        adaptive: site.adaptive,
    }
}

/// The replica groups with the places of their nodes; the names were given places before.
fn replica_groups(routing: &RoutingOptions, names: &Names) -> BTreeMap<u32, Vec<Vec<NodeIndex>>> {
    let places = |nodes: &Vec<_>| nodes.iter().filter_map(|node| names.table.find(node)).collect::<Vec<_>>();
    let groups = |groups: &Vec<Vec<_>>| groups.iter().map(places).collect();
    routing.replica_groups.iter().map(|(partition, list)| (*partition, groups(list))).collect()
}

/// Whether what decides the states is the same. Replica groups come with the assignment: where they change, segments
/// keep their ages.
fn are_same_settings(one: &RoutingOptions, other: &RoutingOptions) -> bool {
    let settings = |options: &RoutingOptions| {
        (options.selector, options.consistent_replicas, options.fixed_replica, options.fail_closed)
    };
    settings(one) == settings(other) && one.samplers == other.samplers
}
