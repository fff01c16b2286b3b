//! The broker's requests by shard, over gRPC.

use std::time::{Duration, Instant};

use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::broker::v1::{
    GetRequest, GetResponse, QueryRequest, QueryResponse, SearchRequest, SearchResponse, ShardCoverage,
    shard_requests_client::ShardRequestsClient,
};
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};

use super::Endpoints;
use crate::{Failure, args::Target, rows::Answer};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a connection without traffic is tried, and how long an answer to that may take.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Most bytes of an answer, or of what is asked.
const MAX_MESSAGE: usize = 256 << 20;

/// A broker that answers requests by shard.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    client: ShardRequestsClient<Channel>,
    endpoints: Endpoints,
}

impl Shards {
    /// Connects with the broker that the command line names.
    ///
    /// # Errors
    /// [`Failure::Unreachable`] naming the address and who named it.
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        let endpoints = target.broker_grpc()?;
        let url = endpoints.urls.first().cloned().unwrap_or_default();
        let endpoint = Endpoint::from_shared(url.clone())
            .map_err(|_| Failure::Usage(format!("'{url}' (from {}) is no URL", endpoints.named_by)))?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .tcp_nodelay(true)
            .connect()
            .await
            .map_err(|error| unreachable(&endpoints, &pointsman_telemetry::chain(&error)))?;
        let client = ShardRequestsClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self { client, endpoints })
    }

    /// The nearest vectors.
    ///
    /// # Errors
    /// Those of the broker; [`Failure::Unreachable`] when the connection breaks off.
    pub(crate) async fn search(&self, request: SearchRequest) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let answer = self.client.clone().search(request).await.map(Response::into_inner);
        self.read(answer.map(|SearchResponse { rows, coverage }| (rows, coverage)), began)
    }

    /// Rows by key.
    ///
    /// # Errors
    /// As [`Self::search`].
    pub(crate) async fn get(&self, request: GetRequest) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let answer = self.client.clone().get(request).await.map(Response::into_inner);
        self.read(answer.map(|GetResponse { rows, coverage }| (rows, coverage)), began)
    }

    /// Rows by condition.
    ///
    /// # Errors
    /// As [`Self::search`].
    pub(crate) async fn query(&self, request: QueryRequest) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let answer = self.client.clone().query(request).await.map(Response::into_inner);
        self.read(answer.map(|QueryResponse { rows, coverage }| (rows, coverage)), began)
    }

    fn read(
        &self,
        answer: Result<(Vec<u8>, Option<ShardCoverage>), Status>,
        began: Instant,
    ) -> anyhow::Result<Answer> {
        let (rows, coverage) = answer.map_err(|status| self.failed(&status))?;
        Answer::new(&rows, coverage, began.elapsed())
    }

    /// What our servers send has details; what the transport made up has a cause.
    fn failed(&self, status: &Status) -> anyhow::Error {
        match std::error::Error::source(status).filter(|_| status.details().is_empty()) {
            Some(cause) => unreachable(&self.endpoints, &pointsman_telemetry::chain(cause)).into(),
            None if status.code() == tonic::Code::Unimplemented => {
                let text = "the broker knows no requests by shard; it is older than this command";
                Error::new(ErrorCode::NotImplemented, text).into()
            }
            None => told(status).into(),
        }
    }
}

/// The broker's error; when it knows when trying again makes sense, with that.
fn told(status: &Status) -> Error {
    let error = pointsman_proto::error(status);
    match pointsman_proto::details(status).map_or(0, |details| details.retry_after_ms) {
        0 => error,
        after => Error::new(error.code(), format!("{}; try again in {after} ms", error.message())),
    }
}

fn unreachable(endpoints: &Endpoints, cause: &str) -> Failure {
    let Endpoints { urls, named_by } = endpoints;
    Failure::Unreachable(format!(
        "the broker at {} does not answer ({cause}); gRPC address from {named_by}. Is the cluster up? `pointsman dev` starts \
         one",
        urls.join(", ")
    ))
}
