//! The service `Routing`.

use std::sync::Arc;

use pointsman_ids::{ClusterName, GroupName, Result, SegmentName};
use pointsman_proto::{
    broker::v1::{CandidateReason, RouteRequest, RouteResponse, RoutedGap, RoutedLeftOut, SegmentReason},
    encoded::{Encoded, Part, routing_server::Routing},
};
use pointsman_routing::{RoutedPart, RoutingTable, RoutingView, Wanted};
use tonic::{Request, Response, Status};

use crate::broker::Broker;

/// Routes requests without running them.
#[derive(Debug)]
pub(crate) struct RoutingService(pub(crate) Arc<Broker>);

#[tonic::async_trait]
impl Routing for RoutingService {
    async fn route(&self, request: Request<RouteRequest>) -> Result<Response<Encoded>, Status> {
        let routed = self.answer(&request.into_inner());
        routed.map(Response::new).map_err(|error| pointsman_proto::status(&error))
    }
}

impl RoutingService {
    fn answer(&self, asked: &RouteRequest) -> Result<Encoded> {
        let view = self.0.routing.view();
        let names: Vec<SegmentName> =
            asked.segments.iter().map(|name| SegmentName::new(name)).collect::<Result<_>>()?;
        let group = match asked.resource_group.as_str() {
            "" => None,
            name => Some(GroupName::new(name)?),
        };
        let request = pointsman_routing::RouteRequest {
            segments: if names.is_empty() { Wanted::All } else { Wanted::Names(&names) },
            multi_stage: asked.multi_stage,
            sampler: Some(asked.sampler.as_str()).filter(|name| !name.is_empty()),
            fixed_replica: asked.fixed_replica,
            num_replica_groups: asked.num_replica_groups.unwrap_or(1),
            preferred_pools: &asked.preferred_pools,
            resource_group: group.as_ref(),
            ..pointsman_routing::RouteRequest::all(&asked.collection, request_id(&view, asked))
        };
        let table = view.route(&request)?;
        let reasons = if asked.reasons {
            crate::route::reasons(&view, &request, self.0.now())?.into_iter().map(Into::into).collect()
        } else {
            vec![]
        };
        let answer = RouteResponse {
            feed_version: view.snapshot().version.0,
            request_id: request.request_id,
            reasons,
            ..RouteResponse::default()
        };
        Ok(encoded(answer, table, asked.names))
    }
}

/// The id that the request names, else the next of the collection's own counter.
fn request_id(view: &RoutingView, asked: &RouteRequest) -> u64 {
    let next = || view.collection(&asked.collection).map(|entry| view.next_request_id(entry));
    asked.request_id.or_else(next).unwrap_or_default()
}

/// The answer with the table in it. The parts are written straight from the table: they are nearly all of it.
fn encoded(answer: RouteResponse, mut table: RoutingTable, names: bool) -> Encoded {
    table.fail_open.sort_unstable();
    let table = &table;
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let answer = RouteResponse {
        unavailable: gaps(table, names),
        left_out: Some(RoutedLeftOut {
            unknown: u32::try_from(table.unknown).unwrap_or(u32::MAX),
            new_segments: count(table.new.len()),
            optional_skipped: count(table.optional_skipped.len()),
        }),
        not_connected: table.missing.iter().map(ClusterName::to_string).collect(),
        ..answer
    };
    Encoded::route(&answer, table.parts.iter().map(|part| self::part(table, part, names)))
}

fn part<'a>(table: &'a RoutingTable, part: &'a RoutedPart, names: bool) -> Part<'a> {
    let name = |at: &u32| table.segment_name(*at).map(SegmentName::as_str);
    let named = part.segments.iter().chain(&part.optional).filter_map(name);
    Part {
        node: [part.node.key.cluster.as_str(), part.node.key.node.as_str()],
        url: part.node.url.as_str(),
        pool: Some(part.node.pool.0).filter(|pool| *pool >= 0),
        segments: &part.segments,
        optional_segments: &part.optional,
        fail_open_segments: tried(&table.fail_open, &part.segments),
        names: if names { named.collect() } else { vec![] },
    }
}

/// Those of a node's segments that were picked by fail-open, which are given ascending; mostly none.
fn tried(fail_open: &[u32], segments: &[u32]) -> Vec<u32> {
    if fail_open.is_empty() {
        return vec![];
    }
    segments.iter().copied().filter(|at| fail_open.binary_search(at).is_ok()).collect()
}

/// What nobody answers for, by cause.
fn gaps(table: &RoutingTable, names: bool) -> Vec<RoutedGap> {
    let mut gaps: Vec<RoutedGap> = vec![];
    for missing in &table.unavailable {
        let cause = missing.cause.as_str();
        let at = gaps.iter().position(|gap| gap.cause == cause).unwrap_or(gaps.len());
        if at == gaps.len() {
            gaps.push(RoutedGap { cause: cause.to_owned(), ..RoutedGap::default() });
        }
        gaps[at].segments.push(missing.segment);
        gaps[at].names.extend(names.then(|| missing.name.to_string()));
    }
    gaps
}

impl From<super::SegmentReason> for SegmentReason {
    fn from(reason: super::SegmentReason) -> Self {
        let candidate = |candidate: super::reasons::CandidateReason| CandidateReason {
            node: candidate.node,
            pool: candidate.pool,
            group: candidate.group.unwrap_or_default(),
            ruled_out: candidate.ruled_out.unwrap_or_default(),
        };
        Self {
            segment: reason.position,
            name: reason.segment,
            cluster: reason.cluster,
            outcome: reason.outcome.to_owned(),
            rule: reason.rule,
            node: reason.node.unwrap_or_default(),
            candidates: reason.candidates.into_iter().map(candidate).collect(),
        }
    }
}
