//! The way from a plan to workers, in the broker and on nodes: our channels, and errors that say who failed.

use std::{error::Error as StdError, iter::successors, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::record_batch::RecordBatch,
    common::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg, grpc::create_worker_client,
};
use futures::{StreamExt, stream::BoxStream};
use http::HeaderMap;
use pointsman_channels::{Channels, Failure, failure, transport_text};
use pointsman_ids::ErrorCode;
use tonic::Status;
use url::Url;

use crate::{
    failure::{AT, BUSY, INTERRUPTED, NOT_SERVING, QueryError, UNREACHABLE, classify, is_tagged},
    first::First,
    retry::{PartChannel, Retry},
};

/// The first node that was lost, or did not take its work, while plans were sent out. The engine itself would notice when the first rows are
/// asked for, or only when all rows have come.
#[derive(Debug, Default)]
pub(crate) struct FirstLoss(First<QueryError>);

impl FirstLoss {
    fn set(&self, error: &DataFusionError) {
        let lost = classify(error);
        if matches!(lost, QueryError::Unreachable { .. } | QueryError::Refused { .. }) {
            self.0.set(lost);
        }
    }

    /// Waits for the loss; for ever when there is none.
    pub(crate) async fn wait(self: Arc<Self>) -> QueryError {
        self.0.wait().await
    }
}

/// Connections to workers for one query in the broker, or for all of a node.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    channels: Channels,
    loss: Option<Arc<FirstLoss>>,
    retry: Option<Arc<Retry>>,
}

impl Resolver {
    pub(crate) fn new(channels: Channels, loss: Option<Arc<FirstLoss>>) -> Self {
        Self { channels, loss, retry: None }
    }

    /// Connections for a query whose parts can be made good: a lost node is the part's affair.
    pub(crate) fn with_retry(channels: Channels, retry: Arc<Retry>) -> Self {
        Self { channels, loss: None, retry: Some(retry) }
    }
}

#[async_trait]
impl ChannelResolver for Resolver {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let inner = create_worker_client(self.channels.channel(url).boxed());
        let tagged = Box::new(Tagged { inner, url: url.clone(), loss: self.loss.clone() });
        Ok(match &self.retry {
            Some(retry) => Box::new(PartChannel::new(tagged, url.clone(), Arc::clone(retry))),
            None => tagged,
        })
    }
}

/// A worker's client whose errors carry the worker's URL.
struct Tagged {
    inner: Box<dyn WorkerChannel>,
    url: Url,
    loss: Option<Arc<FirstLoss>>,
}

#[async_trait]
impl WorkerChannel for Tagged {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        set_plan_request: SetPlanRequest,
        c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let (url, loss) = (self.url.clone(), self.loss.clone());
        let note = move |error: DataFusionError| {
            let error = tag(&url, error);
            if let Some(loss) = &loss {
                loss.set(&error);
            }
            error
        };
        let messages = self
            .inner
            .coordinator_channel(headers, set_plan_request, c2w_stream, metrics, task_ctx)
            .await
            .map_err(&note)?;
        Ok(messages.map(move |message| message.map_err(&note)).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let streams = self.inner.execute_task(headers, request, metrics, task_ctx).await;
        let streams = streams.map_err(|error| tag(&self.url, error))?;
        let tagged = streams.into_iter().map(|stream| {
            let url = self.url.clone();
            stream.map(move |batch| batch.map_err(|error| tag(&url, error))).boxed()
        });
        Ok(tagged.collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await.map_err(|error| tag(&self.url, error))
    }
}

/// Puts the peer on an error that has none yet. Only what is still typed as an error of the transport counts as one;
/// everything else is an answer. Of an error of the transport the words remain, which cross every hop; the notation of
/// what carried it does not.
fn tag(url: &Url, error: DataFusionError) -> DataFusionError {
    if is_tagged(&error) {
        return error;
    }
    let (word, error) = match error {
        DataFusionError::External(source) => {
            let (word, text) = match failure(source.as_ref()) {
                Failure::Connect | Failure::Broken => (UNREACHABLE, transport_text(source.as_ref())),
                Failure::Stream => (INTERRUPTED, transport_text(source.as_ref())),
                Failure::Answer => match refusal(source.as_ref()) {
                    Some((word, text)) => (word, Some(text)),
                    None => (AT, None),
                },
            };
            (word, DataFusionError::External(text.map_or(source, Into::into)))
        }
        error => (AT, error),
    };
    DataFusionError::Context(format!("{word}{url}"), Box::new(error))
}

/// The tag and the words of an answer by which a node does not take the work; `None`: it is none.
fn refusal(error: &(dyn StdError + 'static)) -> Option<(&'static str, String)> {
    let mut chain = successors(Some(error), |error| (**error).source());
    let answer = pointsman_proto::error(chain.find_map(|error| error.downcast_ref::<Status>())?);
    let word = match answer.code() {
        ErrorCode::ServiceTooManyRequests => BUSY,
        ErrorCode::NodeNotServing => NOT_SERVING,
        _ => return None,
    };
    Some((word, answer.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use pointsman_ids::Error;

    use super::*;

    #[test]
    fn an_answer_that_refuses_the_work_is_told_from_one_that_failed_at_it() {
        let url: Url = "http://127.0.0.1:1".parse().expect("a URL");
        let answer = |status: Status| classify(&tag(&url, DataFusionError::External(Box::new(status))));
        let refused =
            |busy, message: &str| QueryError::Refused { node: url.clone(), busy, message: message.into() };
        let ours = |code| pointsman_proto::status(&Error::new(code, "not now"));
        assert_eq!(answer(ours(ErrorCode::ServiceTooManyRequests)), refused(true, "not now"));
        assert_eq!(answer(Status::resource_exhausted("no place")), refused(true, "no place"));
        assert_eq!(answer(ours(ErrorCode::NodeNotServing)), refused(false, "not now"));
        for failed in [Status::unavailable("down"), ours(ErrorCode::NodeIoError), Status::internal("broken")]
        {
            assert!(matches!(answer(failed), QueryError::NodeFailed { memory: false, .. }));
        }
    }
}
