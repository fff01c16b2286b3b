//! The candidates of every segment of one collection.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use imbl::Vector;
use pointsman_ids::{CollectionName, Error, GroupNumber, Result, catalog::SelectorKind};

use crate::{
    Candidate, NodeIndex, NodeSet, Nodes, SegmentInput, StatesSettings,
    groups::Groups,
    placement::Placement,
    segment::{NO_GROUP, SegmentState},
    settings::Rules,
    sighting::Sightings,
};

/// The states of a collection's segments, or of a sampler's. Segments go by their position in the order of their names.
///
/// Immutable; a clone shares everything. [`States::change`] makes new ones that share what did not change, and equal
/// those that are built from nothing with the same history.
#[derive(Clone, Debug)]
pub struct States {
    pub(crate) rules: Arc<Rules>,
    pub(crate) segments: Vector<SegmentState>,
    /// Empty unless two replicas must not be mixed.
    pub(crate) groups: Groups,
    /// The pools of the enabled nodes when the collection last changed, by place.
    pub(crate) pools: Arc<[GroupNumber]>,
    /// For each node, how many segments list it as candidate.
    pub(crate) listed: Vec<u32>,
    /// The nodes that some segment lists.
    pub(crate) listed_nodes: NodeSet,
    /// Number of new segments.
    pub(crate) new: u32,
    /// No new segment's youth ends before this; `None`: there is none.
    pub(crate) young_until: Option<Duration>,
}

impl States {
    /// The states of a collection whose segments come in the order of their names.
    ///
    /// `nodes` know all places that the segments name; their pools are those of the candidates. `now` is monotonic.
    ///
    /// # Errors
    /// `parameter_invalid` when the settings make no sense, naming the collection and the remedy.
    pub fn build<'a>(
        settings: &StatesSettings<'_>,
        nodes: &Nodes,
        segments: impl IntoIterator<Item = SegmentInput<'a>>,
        now: Duration,
    ) -> Result<Self> {
        let mut states = Self {
            rules: Arc::new(Rules::new(settings, nodes)?),
            segments: Vector::new(),
            groups: Groups::default(),
            pools: nodes.pools().clone(),
            listed: vec![0; nodes.len()],
            listed_nodes: NodeSet::new(),
            new: 0,
            young_until: None,
        };
        let mut sightings = Sightings::default();
        let window = states.rules.window;
        for segment in segments {
            let left = window.checked_sub(segment.age);
            let young_until = left.map(|left| now.saturating_add(left));
            let state = states.enter(&segment, young_until, now, nodes, &mut sightings);
            states.segments.push_back(state);
        }
        Ok(states)
    }

    /// The same segments with other replica groups; the ages are not looked at.
    ///
    /// # Errors
    /// `parameter_invalid` when the groups make no sense, naming the collection and the remedy.
    pub fn with_replica_groups(
        &self,
        replica_groups: &BTreeMap<u32, Vec<Vec<NodeIndex>>>,
        nodes: &Nodes,
    ) -> Result<Self, Error> {
        let mut rules = Rules::clone(&self.rules);
        if rules.placement.is_some() {
            rules.placement = Some(Placement::new(&rules.collection, replica_groups, nodes)?);
        }
        Ok(Self { rules: Arc::new(rules), ..self.clone() })
    }

    /// The collection's name.
    pub fn collection(&self) -> &CollectionName {
        &self.rules.collection
    }

    /// How the collection wants its replicas chosen.
    pub fn selector(&self) -> SelectorKind {
        self.rules.selector
    }

    /// Whether there may be segments that move together in one answer: assignment groups, or placement partitions.
    pub fn may_move_together(&self) -> bool {
        self.rules.consistent || self.rules.placement.is_some()
    }

    /// Number of positions, those of segments outside the universe included.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The segment at a position; `None`: it is not part of the universe, or beyond the end.
    pub fn segment(&self, at: u32) -> Option<Segment<'_>> {
        let state = self.segments.get(at as usize).filter(|state| state.exists())?;
        Some(Segment { states: self, state })
    }

    /// The placement partition that a node serves under `multi_stage_replica_group`; `None`: it stands in no replica
    /// group. Inside one selection the segments of a partition move together.
    pub fn placement_partition(&self, node: NodeIndex) -> Option<u32> {
        let placement = self.rules.placement.as_ref()?;
        placement.partitions().get(placement.place(node)?.partition as usize).copied()
    }

    /// The first old segment that nobody has loaded, of the assignment group of `segment`: what emptied the group.
    /// `None`: no such segment, or replicas may be mixed. Linear; for reports.
    pub fn emptied_by(&self, segment: u32) -> Option<u32> {
        let group = self.segment(segment)?.assignment_group()?;
        let empties =
            |state: &SegmentState| state.group() == group && !state.is_new() && state.candidates().is_empty();
        u32::try_from(self.segments.iter().position(empties)?).ok()
    }

    /// The pool of a candidate.
    pub(crate) fn pool(&self, node: NodeIndex) -> GroupNumber {
        self.pools.get(node.usize()).copied().unwrap_or(GroupNumber::NONE)
    }

    /// A state for a segment that comes in; it may be new until `young_until`, if that is given.
    pub(crate) fn enter(
        &mut self,
        segment: &SegmentInput<'_>,
        young_until: Option<Duration>,
        now: Duration,
        nodes: &Nodes,
        sightings: &mut Sightings,
    ) -> SegmentState {
        if !segment.exists() {
            return SegmentState::ABSENT;
        }
        sightings.read(segment.copies, nodes);
        let settling = !segment.promoted && sightings.are_settling();
        let young_until = young_until.filter(|end| settling && now <= *end);
        let candidates: Vec<Candidate> = match (young_until, self.rules.consistent) {
            (None, _) => sightings.loaded().collect(),
            (Some(_), false) => sightings.wanted().collect(),
            (Some(_), true) => sightings.assigned().collect(),
        };
        let group = if self.rules.consistent {
            let mut members: Vec<NodeIndex> = sightings.assigned().map(Candidate::node).collect();
            members.sort_unstable();
            self.groups.join(&members)
        } else {
            NO_GROUP
        };
        let state = SegmentState::new(young_until, sightings.expected(), group, &candidates);
        self.count_in(&state);
        state
    }

    /// Counts a segment in; its group has been joined.
    pub(crate) fn count_in(&mut self, state: &SegmentState) {
        match state.young_until() {
            Some(end) => {
                self.new += 1;
                self.young_until = Some(self.young_until.map_or(end, |first| first.min(end)));
            }
            None if state.group() != NO_GROUP => self.groups.add_old(state.group(), state.candidates()),
            None => {}
        }
        for candidate in state.candidates() {
            let node = candidate.node();
            if self.listed.len() <= node.usize() {
                self.listed.resize(node.usize() + 1, 0);
            }
            self.listed[node.usize()] += 1;
            self.listed_nodes.insert(node);
        }
    }

    /// Counts a segment out; its group is left by the caller.
    pub(crate) fn count_out(&mut self, state: &SegmentState) {
        if state.is_new() {
            self.new -= 1;
        } else if state.group() != NO_GROUP {
            self.groups.remove_old(state.group(), state.candidates());
        }
        for candidate in state.candidates() {
            let listed = &mut self.listed[candidate.node().usize()];
            *listed -= 1;
            if *listed == 0 {
                self.listed_nodes.remove(candidate.node());
            }
        }
    }
}

/// A segment of the universe.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    states: &'a States,
    state: &'a SegmentState,
}

impl<'a> Segment<'a> {
    /// Whether it is being loaded for the first time and young: it is never unavailable.
    pub fn is_new(&self) -> bool {
        self.state.is_new()
    }

    /// The last moment of its youth, if it is new. What it is after that shows at the next change.
    pub fn young_until(&self) -> Option<Duration> {
        self.state.young_until()
    }

    /// Number of nodes that should serve it.
    pub fn expected(&self) -> u32 {
        self.state.expected()
    }

    /// Nodes that may be chosen, by name, without those that are out for its assignment group.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + use<'a> {
        let out = self.states.groups.out(self.state.group());
        self.state.candidates().iter().copied().filter(|candidate| !out.contains(&candidate.node()))
    }

    /// The number of its assignment group, whose segments move together; `None`: replicas may be mixed. Numbers hold
    /// inside these states only.
    pub fn assignment_group(&self) -> Option<u32> {
        Some(self.state.group()).filter(|group| *group != NO_GROUP)
    }
}
