//! One cluster's part of a request, ready for its selector.

use pointsman_ids::{Error, GroupNumber};
use pointsman_instance_selector::{FailOpen, NodeSet, Request, Scores, SegmentNames, Segments, States};

use crate::{
    RouteRequest, RoutingView,
    cluster::{ClusterView, Routed},
    collections::Collection,
    samplers,
    split::Requested,
};

/// All that a selector reads, in one cluster.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) cluster: &'a ClusterView,
    pub(crate) collection: &'a Collection,
    /// Those of the collection, or of the sampler that is asked for.
    pub(crate) states: &'a States,
    request: &'a RouteRequest<'a>,
    requested: &'a Requested<'a>,
    without: NodeSet,
    group: Option<GroupNumber>,
    scores: Option<Scores>,
    fail_open: FailOpen,
}

impl<'a> Part<'a> {
    /// # Errors
    /// Those of [`ClusterView::serving`] and [`ClusterView::scope`].
    pub(crate) fn new(
        view: &RoutingView,
        cluster: &'a ClusterView,
        routed: &'a Routed,
        request: &'a RouteRequest<'a>,
        requested: &'a Requested<'a>,
    ) -> Result<Self, Error> {
        let collection = cluster.serving(routed)?;
        let scope = |group| cluster.scope(&collection.entry, group);
        Ok(Self {
            states: states(collection, request.sampler),
            without: cluster.node_set(request.without),
            group: request.resource_group.map(scope).transpose()?,
            scores: view.adaptive.is_on().then(|| cluster.scores(&view.adaptive)),
            fail_open: view.fail_open,
            cluster,
            collection,
            request,
            requested,
        })
    }

    /// Does something with the request in the selector's words.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&Request<'_>) -> R) -> R {
        let segments = &self.collection.entry.segments;
        let name = |at: u32| match segments.get(at as usize) {
            Some(segment) => segment.name.to_string(),
            None => format!("#{at}"),
        };
        run(&Request {
            segments: match self.requested {
                Requested::All => Segments::All,
                Requested::These(positions) => Segments::These(positions),
            },
            id: self.request.request_id,
            multi_stage: self.request.multi_stage,
            fixed_replica: self.request.fixed_replica,
            num_replica_groups: self.request.num_replica_groups,
            preferred_pools: self.request.preferred_pools,
            group: self.group,
            without: &self.without,
            scores: self.scores.as_ref(),
            fail_open: self.fail_open,
            names: SegmentNames::by(&name),
        })
    }
}

/// The states of a sampler; those of the collection without one, and for a name that it does not have.
pub(crate) fn states<'a>(collection: &'a Collection, sampler: Option<&str>) -> &'a States {
    let sampler = sampler.and_then(|name| collection.samplers.get(&samplers::plain(name)));
    sampler.map_or(&collection.states, |sampler| &sampler.states)
}
