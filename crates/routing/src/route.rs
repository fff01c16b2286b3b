//! Routing a request: each cluster's part on its own, then one table of them.

use std::{
    slice,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use pointsman_ids::{Error, ErrorCode, UnavailableCause};
use pointsman_instance_selector::{FailOpenGate, Selection, select};

use crate::{
    RouteRequest, RoutedPart, RoutingTable, RoutingView, Unavailable,
    cluster::{ClusterView, Routed, unknown_group},
    gaps::{Gaps, Unchosen},
    part::{Part, states},
    spanning::{Span, Spanning},
    split::{Requested, Split},
};

/// One cluster's part of a collection.
pub(crate) struct Located<'a> {
    pub(crate) span: &'a Span,
    pub(crate) cluster: &'a ClusterView,
    pub(crate) routed: &'a Routed,
}

impl RoutingView {
    /// Chooses a node for each of the requested segments.
    ///
    /// Every cluster that the collection spans routes its own part, with the same request id and options. A remote
    /// part that cannot be chosen is unavailable; an error of the local part fails the request.
    ///
    /// # Errors
    /// `collection_not_loaded` naming the collection when no running cluster has it, it is not loaded or could not be
    /// built; `collection_not_fully_loaded` when its first load is under way, or has not finished in the resource
    /// group; `resource_group_not_found`; `parameter_invalid` for options that make no sense; `segments_unavailable`
    /// of `multi_stage_replica_group`.
    pub fn route(&self, request: &RouteRequest<'_>) -> Result<RoutingTable, Error> {
        let spanning = self.spanning(request.collection)?;
        let parts = self.located(request.collection, spanning);
        check(request, &parts)?;
        let entries: Vec<_> = parts.iter().map(|part| part.routed.entry()).collect();
        let wanted = Split::new(request.segments, spanning, &entries);
        let mut table = RoutingTable::new(spanning);
        for (located, requested) in parts.iter().zip(&wanted.parts) {
            match self.choose(located, request, requested) {
                Ok((part, selection)) => table.add(located, &part, selection),
                Err(error) if located.span.cluster == 0 => return Err(error),
                Err(error) => table.refuse(located, request, requested, error),
            }
        }
        table.parts.sort_by(|one, other| one.node.key.cmp(&other.node.key));
        table.unknown += wanted.unknown;
        spanning.unknown.fetch_add(table.unknown, Relaxed);
        Ok(table)
    }

    /// The segments of a request that [`Self::route`] refuses with `segments_unavailable`: nobody is asked for any of them.
    /// Those that have nobody come first, then those that would have somebody if they did not go together.
    pub fn refused(&self, request: &RouteRequest<'_>) -> Vec<Unavailable> {
        let Ok(spanning) = self.spanning(request.collection) else { return vec![] };
        let parts = self.located(request.collection, spanning);
        let entries: Vec<_> = parts.iter().map(|part| part.routed.entry()).collect();
        let wanted = Split::new(request.segments, spanning, &entries);
        let each = parts.iter().zip(&wanted.parts);
        let mut missing: Vec<_> =
            each.flat_map(|(part, requested)| unchosen(part, request, requested).unavailable).collect();
        missing.sort_by_key(|missing| missing.cause == UnavailableCause::GroupIncomplete);
        missing
    }

    /// The parts of a collection in this view.
    pub(crate) fn located<'a>(&'a self, name: &str, spanning: &'a Spanning) -> Vec<Located<'a>> {
        let located = |span: &'a Span| {
            let cluster = &**self.clusters.get(span.cluster)?;
            Some(Located { span, cluster, routed: cluster.collections.get(name)? })
        };
        spanning.parts.iter().filter_map(located).collect()
    }

    fn choose<'a>(
        &self,
        located: &Located<'a>,
        request: &'a RouteRequest<'a>,
        requested: &'a Requested<'a>,
    ) -> Result<(Part<'a>, Selection), Error> {
        let part = Part::new(self, located.cluster, located.routed, request, requested)?;
        let selection = part.with(|request| select(part.states, &part.cluster.nodes, request))?;
        part.collection.counters.count(&selection, !request.preferred_pools.is_empty());
        tell_fail_open(located, request, &selection);
        Ok((part, selection))
    }
}

/// One event per decision on fail-open.
fn tell_fail_open(located: &Located<'_>, request: &RouteRequest<'_>, selection: &Selection) {
    let (cluster, collection, request) = (&located.cluster.name, request.collection, request.request_id);
    let gate = selection.fail_open_gate;
    if gate == FailOpenGate::Passed {
        let segments = selection.fail_open.len();
        tracing::warn!(%cluster, collection, request, segments, "fail-open: excluded nodes are tried");
    } else if selection.fail_open_eligible {
        let segments = selection.unavailable.len();
        tracing::info!(%cluster, collection, request, segments, ?gate, "no fail-open: segments are unavailable");
    }
}

/// Refuses what no part could answer, before anything is chosen.
pub(crate) fn check(request: &RouteRequest<'_>, parts: &[Located<'_>]) -> Result<(), Error> {
    let groups = request.num_replica_groups;
    if groups < 1 {
        let message = format!(
            "num_replica_groups is {groups} for collection '{}'; it is at least 1",
            request.collection
        );
        return Err(Error::new(ErrorCode::ParameterInvalid, message));
    }
    match request.resource_group {
        Some(group) if parts.iter().all(|part| part.cluster.group(group).is_none()) => {
            Err(unknown_group(group))
        }
        _ => Ok(()),
    }
}

impl RoutingTable {
    fn new(spanning: &Spanning) -> Self {
        Self {
            collection: spanning.entry.clone(),
            parts: vec![],
            unavailable: vec![],
            fail_open: vec![],
            new: vec![],
            optional_skipped: vec![],
            unknown: 0,
            missing: spanning.missing.clone(),
            refused: vec![],
            fail_open_gates: vec![],
        }
    }

    /// Adds what one cluster chose.
    fn add(&mut self, located: &Located<'_>, part: &Part<'_>, selection: Selection) {
        let shifted = |own| shifted(own, located.span.start);
        let mut gaps = Gaps::new(located, Some(part.states));
        self.parts.reserve(selection.parts.len());
        for chosen in selection.parts {
            match located.cluster.node(chosen.node) {
                Some(node) => self.parts.push(RoutedPart {
                    node: Arc::clone(node),
                    segments: shifted(chosen.segments),
                    optional: shifted(chosen.optional),
                }),
                // Its address went with it, and what it should answer for is for a retry.
                None => {
                    part.collection.counters.missing_nodes.fetch_add(1, Relaxed);
                    self.gaps(&mut gaps, &chosen.segments, UnavailableCause::NotLoaded);
                }
            }
        }
        for (segment, cause) in &selection.unavailable {
            self.gaps(&mut gaps, slice::from_ref(segment), *cause);
        }
        self.gaps(&mut gaps, &selection.dropped, UnavailableCause::OutsideReplicaGroups);
        self.fail_open.extend(shifted(selection.fail_open));
        self.new.extend(shifted(selection.new));
        self.optional_skipped.extend(shifted(selection.optional_skipped));
        self.unknown += selection.unknown.len() as u64;
        self.fail_open_gates.push((located.cluster.name.clone(), selection.fail_open_gate));
    }

    /// Adds a remote part that cannot be chosen.
    fn refuse(
        &mut self,
        located: &Located<'_>,
        request: &RouteRequest<'_>,
        requested: &Requested<'_>,
        error: Error,
    ) {
        let (cluster, collection) = (&located.cluster.name, request.collection);
        tracing::warn!(%cluster, collection, %error, "the part of a remote cluster cannot be chosen");
        let gaps = unchosen(located, request, requested);
        self.unavailable.extend(gaps.unavailable);
        self.new.extend(gaps.new);
        self.unknown += gaps.unknown;
        self.refused.push((cluster.clone(), error));
    }

    fn gaps(&mut self, gaps: &mut Gaps<'_>, segments: &[u32], cause: UnavailableCause) {
        self.unavailable.extend(segments.iter().filter_map(|segment| gaps.report(*segment, cause)));
    }
}

/// What becomes of a part's segments when it cannot be chosen.
fn unchosen(located: &Located<'_>, request: &RouteRequest<'_>, requested: &Requested<'_>) -> Unchosen {
    let states = match located.routed {
        Routed::Built(collection) => Some(states(collection, request.sampler)),
        Routed::Refused(..) => None,
    };
    Gaps::new(located, states).report_all(requested, request.without)
}

/// Positions in the whole collection of a part's own, which begins at `start`.
fn shifted(mut own: Vec<u32>, start: u32) -> Vec<u32> {
    if start > 0 {
        own.iter_mut().for_each(|at| *at = at.saturating_add(start));
    }
    own
}
