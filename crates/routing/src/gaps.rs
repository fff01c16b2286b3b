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

    /// Reports for all that was asked of a part that cannot be chosen. What does not exist, or is new, is no gap.
    pub(crate) fn report_all(
        &mut self,
        requested: &Requested,
        without: &BTreeSet<NodeKey>,
    ) -> Vec<Unavailable> {
        let without = self.cluster.node_set(without);
        let mut positions = match requested {
            Requested::All => (0..self.span.len).collect(),
            Requested::These(positions) => positions.clone(),
        };
        let mut seen = BTreeSet::new();
        positions.retain(|at| seen.insert(*at));
        positions.into_iter().filter_map(|at| self.report(at, self.cause(at, &without)?)).collect()
    }

    /// Why a segment of a part that cannot be chosen has nobody; `None`: it is no gap.
    fn cause(&self, at: u32, without: &NodeSet) -> Option<UnavailableCause> {
        let Some(states) = self.states else {
            let segment = self.routed.entry().segments.get(at as usize)?;
            return exists(segment).then_some(UnavailableCause::NotLoaded);
        };
        let segment = states.segment(at).filter(|segment| !segment.is_new())?;
        let nodes: Vec<_> = segment.candidates().map(|candidate| candidate.node()).collect();
        let any = |is: &dyn Fn(_) -> bool| nodes.iter().any(|node| is(*node));
        let all = &self.cluster.nodes;
        if any(&|node| all.is_routable(node) && !without.contains(node)) {
            // There is somebody, but not for all that has to go together.
            Some(UnavailableCause::GroupIncomplete)
        } else if segment.expected() == 0 {
            Some(UnavailableCause::NoReplicaAssigned)
        } else if nodes.is_empty() {
            Some(UnavailableCause::NotLoaded)
        } else if any(&|node| without.contains(node)) {
            Some(UnavailableCause::RetriesUsedUp)
        } else if any(&|node| all.is_enabled(node)) {
            Some(UnavailableCause::AllExcluded)
        } else {
            Some(UnavailableCause::AllDisabled)
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
