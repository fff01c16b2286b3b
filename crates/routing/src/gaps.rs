//! Words on segments that nobody answers for.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{NodeKey, SegmentName, UnavailableCause};
use pointsman_instance_selector::{NodeSet, States};

use crate::{
    Unavailable,
    cluster::{ClusterView, Routed},
    inputs::exists,
    route::Located,
    spanning::Span,
    split::Requested,
};

/// Reports gaps of one part. It looks up once per assignment group what emptied it.
#[derive(Debug)]
pub(crate) struct Gaps<'a> {
    cluster: &'a ClusterView,
    routed: &'a Routed,
    /// `None`: the collection could not be built there.
    states: Option<&'a States>,
    span: &'a Span,
    emptied: BTreeMap<u32, Option<u32>>,
}

/// What becomes of the segments of a part that cannot be chosen.
#[derive(Debug, Default)]
pub(crate) struct Unchosen {
    pub(crate) unavailable: Vec<Unavailable>,
    /// Positions of new segments: they are nowhere yet.
    pub(crate) new: Vec<u32>,
    pub(crate) unknown: u64,
}

impl<'a> Gaps<'a> {
    pub(crate) fn new(located: &Located<'a>, states: Option<&'a States>) -> Self {
        let Located { span, cluster, routed } = *located;
        Self { cluster, routed, states, span, emptied: BTreeMap::new() }
    }

    /// The report on a segment, by its own position.
    pub(crate) fn report(&mut self, at: u32, cause: UnavailableCause) -> Option<Unavailable> {
        let segment = self.routed.entry().segments.get(at as usize)?;
        let emptied_by = if cause == UnavailableCause::GroupIncomplete { self.emptied_by(at) } else { None };
        Some(Unavailable {
            segment: self.span.start.saturating_add(at),
            name: segment.name.clone(),
            cause,
            nodes: self.nodes(at),
            emptied_by,
        })
    }

    /// What becomes of all that was asked of a part that cannot be chosen. What does not exist is unknown where it was
    /// named, and what is new is no gap.
    pub(crate) fn report_all(&mut self, requested: &Requested<'_>, without: &BTreeSet<NodeKey>) -> Unchosen {
        let without = self.cluster.node_set(without);
        let (mut positions, named) = match requested {
            Requested::All => ((0..self.span.len).collect(), false),
            Requested::These(positions) => (positions.to_vec(), true),
        };
        let mut seen = BTreeSet::new();
        positions.retain(|at| seen.insert(*at));
        let mut unchosen = Unchosen::default();
        for at in positions {
            match self.standing(at) {
                None => unchosen.unknown += u64::from(named),
                Some(true) => unchosen.new.push(self.span.start.saturating_add(at)),
                Some(false) => unchosen.unavailable.extend(self.report(at, self.cause(at, &without))),
            }
        }
        unchosen
    }

    /// Whether a segment is new; `None`: it is not part of the universe. Nothing is new where nothing was built.
    fn standing(&self, at: u32) -> Option<bool> {
        match self.states {
            Some(states) => states.segment(at).map(|segment| segment.is_new()),
            None => {
                self.routed.entry().segments.get(at as usize).filter(|segment| exists(segment)).map(|_| false)
            }
        }
    }

    /// Why an old segment of a part that cannot be chosen has nobody.
    fn cause(&self, at: u32, without: &NodeSet) -> UnavailableCause {
        let Some(segment) = self.states.and_then(|states| states.segment(at)) else {
            return UnavailableCause::NotLoaded;
        };
        let nodes: Vec<_> = segment.candidates().map(|candidate| candidate.node()).collect();
        let any = |is: &dyn Fn(_) -> bool| nodes.iter().any(|node| is(*node));
        let all = &self.cluster.nodes;
        if any(&|node| all.is_routable(node) && !without.contains(node)) {
            // There is somebody, but not for all that has to go together.
            UnavailableCause::GroupIncomplete
        } else if segment.expected() == 0 {
            UnavailableCause::NoReplicaAssigned
        } else if nodes.is_empty() {
            UnavailableCause::NotLoaded
        } else if any(&|node| without.contains(node)) {
            UnavailableCause::RetriesUsedUp
        } else if any(&|node| all.is_enabled(node)) {
            UnavailableCause::AllExcluded
        } else {
            UnavailableCause::AllDisabled
        }
    }

    fn emptied_by(&mut self, at: u32) -> Option<SegmentName> {
        let states = self.states?;
        let group = states.segment(at)?.assignment_group()?;
        let emptied_by = *self.emptied.entry(group).or_insert_with(|| states.emptied_by(at));
        let segment = self.routed.entry().segments.get(emptied_by? as usize)?;
        Some(segment.name.clone())
    }

    fn nodes(&self, at: u32) -> Vec<NodeKey> {
        let segment = self.states.and_then(|states| states.segment(at));
        let candidates = segment.into_iter().flat_map(|segment| segment.candidates());
        let mut nodes: Vec<_> =
            candidates.filter_map(|candidate| self.cluster.key_of(candidate.node())).collect();
        if nodes.is_empty()
            && let Some(segment) = self.routed.entry().segments.get(at as usize)
        {
            let assigned =
                segment.copies.iter().filter(|copy| copy.assigned.is_some_and(|state| state.serves()));
            let places = assigned.filter_map(|copy| self.cluster.names.place(copy.node));
            let keys: BTreeSet<_> = places.filter_map(|node| self.cluster.key_of(node)).collect();
            nodes = keys.into_iter().collect();
        }
        nodes
    }
}
