//! The calls.

use std::{sync::Arc, time::Duration};

use pointsman_ids::{Error, ErrorCode, SegmentId, request::Looked};
use pointsman_proto::node::v1::{self as pb, shard_requests_server::ShardRequests};
use prost::Message;
use tonic::{Request, Response, Status};

use super::{
    Shards,
    share::{self, Asked, Shares},
    time::Time,
    watch::Watch,
};
use crate::metrics;

/// Segments that an error names at most.
const NAMED: usize = 5;

#[tonic::async_trait]
impl ShardRequests for Shards {
    async fn answer_shard(
        &self,
        request: Request<pb::AnswerShardRequest>,
    ) -> Result<Response<pb::AnswerShardResponse>, Status> {
        let time = Time::of(request.metadata());
        let request = request.into_inner();
        let watch = Watch::begin("shard", request.question.as_ref());
        let answer = time.bound(self.shard(request, time)).await;
        self.ended(watch, answer)
    }

    async fn answer_segments(
        &self,
        request: Request<pb::AnswerSegmentsRequest>,
    ) -> Result<Response<pb::AnswerSegmentsResponse>, Status> {
        let time = Time::of(request.metadata());
        let request = request.into_inner();
        let watch = Watch::begin("segments", request.question.as_ref());
        let answer = time.bound(self.segments(request, time)).await;
        self.ended(watch, answer)
    }
}

impl Shards {
    fn ended<T>(&self, watch: Watch, answer: Result<T, Error>) -> Result<Response<T>, Status> {
        watch.end(&answer);
        metrics::vector_memory(self.memory.used());
        answer.map(Response::new).map_err(|error| pointsman_proto::status(&error))
    }

    async fn shard(
        &self,
        request: pb::AnswerShardRequest,
        time: Time,
    ) -> Result<pb::AnswerShardResponse, Error> {
        let asked = Asked::read(&request)?;
        let now = self.leads.now();
        let state = share::lead(&asked, &now, |led| self.leads.lost(led))?;
        let bytes = request.encoded_len();
        let asking = Arc::new(self.take_on(request.table, request.question, bytes, time)?);
        let shares = Shares::of_view(&state, &now, |segment| self.held.holds(segment));
        let (mut parts, mut looked) = (vec![], Looked::default());
        for (part, seen) in self.gather(&asking, &asked.led, shares).await? {
            parts.push(part);
            looked += seen;
        }
        let merged = asking.checked.merge(parts)?;
        asking.entered.take((merged.bytes() as u64).saturating_mul(2))?;
        let rows = merged.encode()?.into();
        let response = time.arrived.elapsed();
        Ok(pb::AnswerShardResponse {
            rows,
            target_version: state.target_version(),
            replica_id: state.replica,
            looked: Some(looked.into()),
            response_us: micros(response),
            service_us: micros(response.saturating_sub(asking.waited())),
            total_nq: asking.entered.others_nq(),
        })
    }

    async fn segments(
        &self,
        request: pb::AnswerSegmentsRequest,
        time: Time,
    ) -> Result<pb::AnswerSegmentsResponse, Error> {
        share::meant(request.node_id, &self.leads.now())?;
        let segments: Vec<SegmentId> = request.segments.iter().copied().map(SegmentId).collect();
        self.all_held(&segments)?;
        let bytes = request.encoded_len();
        let asking = self.take_on(request.table, request.question, bytes, time)?;
        let (part, looked) = self.answer_here(&segments, &asking).await?;
        asking.entered.take(part.bytes() as u64)?;
        Ok(pb::AnswerSegmentsResponse { rows: part.encode()?.into(), looked: Some(looked.into()) })
    }

    /// # Errors
    /// `segment_not_loaded` naming what the node does not hold.
    fn all_held(&self, segments: &[SegmentId]) -> Result<(), Error> {
        let missing: Vec<String> =
            segments.iter().filter(|segment| !self.held.holds(**segment)).map(SegmentId::to_string).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let more = if missing.len() > NAMED { ", ..." } else { "" };
        let named = missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let text = format!("the node does not hold {} of the segments: {named}{more}", missing.len());
        Err(Error::new(ErrorCode::SegmentNotLoaded, text))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
