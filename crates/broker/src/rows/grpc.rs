//! Requests by shard over gRPC.

use std::sync::Arc;

use pointsman_ids::{Error, ErrorClass, ErrorCode, feed::CollectionEntry, request::Question};
use pointsman_proto::{
    broker::v1::{
        GetRequest, GetResponse, QueryRequest, QueryResponse, RequestOptions, SearchRequest, SearchResponse,
        ShardCoverage, shard_requests_server::ShardRequests,
    },
    common::v1 as pb,
    error_to_proto, status_of,
};
use pointsman_shard_client::ShardError;
use tonic::{Request, Response, Status};

use super::{Kind, Options};
use crate::broker::Broker;

/// Largest request, as over HTTP.
pub(crate) const MAX_REQUEST: usize = 32 << 20;

/// The service.
#[derive(Debug)]
pub(crate) struct RowsService(pub(crate) Arc<Broker>);

impl RowsService {
    async fn answer(
        &self,
        kind: Kind,
        collection: &str,
        options: Option<RequestOptions>,
        question: impl FnOnce() -> pointsman_ids::Result<Question> + Send,
    ) -> Result<(Vec<u8>, Option<ShardCoverage>), Status> {
        let RequestOptions { resource_group, timeout_ms, preferred_group } = options.unwrap_or_default();
        let options = Options::new(&resource_group, &preferred_group, timeout_ms);
        let options = options.map_err(|error| pointsman_proto::status(&error))?;
        let question = |_: &CollectionEntry| question();
        let answer = self.0.rows.answer(kind, collection, &options, question).await;
        let answer = answer.map_err(|error| status(&error))?;
        let rows = answer.rows.encode().map_err(|error| pointsman_proto::status(&error))?;
        Ok((rows, Some(answer.coverage.into())))
    }
}

#[tonic::async_trait]
impl ShardRequests for RowsService {
    async fn search(&self, request: Request<SearchRequest>) -> Result<Response<SearchResponse>, Status> {
        let SearchRequest { collection, search, options } = request.into_inner();
        let question = || Ok(Question::Search(said(search, "search")?.try_into()?));
        let (rows, coverage) = self.answer(Kind::Search, &collection, options, question).await?;
        Ok(Response::new(SearchResponse { rows, coverage }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let GetRequest { collection, get, options } = request.into_inner();
        let question = || Ok(Question::Get(said(get, "get")?.try_into()?));
        let (rows, coverage) = self.answer(Kind::Get, &collection, options, question).await?;
        Ok(Response::new(GetResponse { rows, coverage }))
    }

    async fn query(&self, request: Request<QueryRequest>) -> Result<Response<QueryResponse>, Status> {
        let QueryRequest { collection, query, options } = request.into_inner();
        let question = || Ok(Question::Query(said(query, "query")?.into()));
        let (rows, coverage) = self.answer(Kind::Query, &collection, options, question).await?;
        Ok(Response::new(QueryResponse { rows, coverage }))
    }
}

fn said<T>(question: Option<T>, field: &str) -> pointsman_ids::Result<T> {
    question.ok_or_else(|| Error::new(ErrorCode::ParameterMissing, format!("`{field}` is missing")))
}

/// The error with the bit and the class that a node or the coordinator gave it.
fn status(error: &ShardError) -> Status {
    let class = match error.class() {
        ErrorClass::Input => pb::ErrorClass::Input,
        ErrorClass::System => pb::ErrorClass::System,
    };
    let details = error_to_proto(&Error::new(error.code(), error.message()));
    let retry_after_ms = error.retry_after().map_or(0, crate::millis);
    status_of(pb::Error { class: class.into(), retriable: error.is_retriable(), retry_after_ms, ..details })
}
