//! The way from a plan to the worker of one part: where the engine's two calls about a task are met.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    common::{Result, runtime::SpawnedTask},
    execution::TaskContext,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse, MaybeEncoded,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::{
    StreamExt,
    future::ready,
    stream::{self, BoxStream},
};
use http::HeaderMap;
use tokio::sync::oneshot;
use url::Url;

use super::{
    Batches, Retry,
    driver::{Driver, Request},
    outlet::outlet,
    part::{Part, Template},
};

/// A worker's client for parts that may be routed again.
pub(crate) struct PartChannel {
    inner: Box<dyn WorkerChannel>,
    url: Url,
    retry: Arc<Retry>,
}

impl PartChannel {
    pub(crate) fn new(inner: Box<dyn WorkerChannel>, url: Url, retry: Arc<Retry>) -> Self {
        Self { inner, url, retry }
    }
}

#[async_trait]
impl WorkerChannel for PartChannel {
    /// Sends a plan. A failure is the part's, which may be made good; the engine does not hear of it here.
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let part = self.retry.part(request.task_key);
        if let MaybeEncoded::Decoded(plan) = &request.plan {
            part.sent(Template {
                headers: headers.clone(),
                key: request.task_key,
                task_count: request.task_count,
                query_start_time_ns: request.query_start_time_ns,
                plan: Arc::clone(plan),
                metrics: metrics.clone(),
            });
        }
        let (lent, back) = lend(messages);
        // A query whose time has passed does not wait for what silent nodes say of their plans.
        let opened = tokio::select! {
            opened = self.inner.coordinator_channel(headers, request, lent, metrics, context) => opened,
            () = self.retry.late.wait() => return Ok(stream::empty().boxed()),
        };
        let answers = opened.unwrap_or_else(|error| stream::iter([Err(error)]).boxed());
        let own = Arc::clone(&part);
        let answers = answers.filter_map(move |answer| {
            ready(match answer {
                Ok(WorkerToCoordinatorMsg::TaskMetrics(_)) if own.is_rerouted() => None,
                Ok(answer) => Some(Ok(answer)),
                Err(error) => {
                    own.loss.set(Arc::new(error));
                    None
                }
            })
        });
        let retry = Arc::clone(&self.retry);
        let late = async move { retry.late.wait().await };
        let answers = answers.chain(stream::once(figures(part, back)).filter_map(ready));
        Ok(answers.take_until(Box::pin(late)).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<Batches>> {
        let part = self.retry.part(request.task_key);
        let own = Request {
            headers: headers.clone(),
            partitions: request.target_partition_start..request.target_partition_end,
            producer_head: request.producer_head.clone(),
            metrics: metrics.clone(),
            context: Arc::clone(context),
        };
        let (outlets, inlets): (Vec<_>, Vec<_>) = own.partitions.clone().map(|_| outlet()).unzip();
        let rows = self.inner.execute_task(headers, request, metrics, context).await;
        let driver = Driver { retry: Arc::clone(&self.retry), part, request: own };
        // It works for as long as somebody reads one of the partitions.
        let driver = Arc::new(SpawnedTask::spawn(driver.run(self.url.clone(), rows, outlets)));
        Ok(inlets.into_iter().map(|inlet| inlet.into_stream(Arc::clone(&driver))).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await
    }
}

/// What the engine has to say to a task. It says its last word when the query has ended.
type Messages = BoxStream<'static, CoordinatorToWorkerMsg>;

/// Lends the messages to a call; whatever becomes of the call, they come back.
fn lend(messages: Messages) -> (Messages, oneshot::Receiver<Messages>) {
    struct Lent(Option<(Messages, oneshot::Sender<Messages>)>);
    impl Drop for Lent {
        fn drop(&mut self) {
            if let Some((messages, back)) = self.0.take() {
                // Nobody waits for them when the query is gone.
                let _ = back.send(messages);
            }
        }
    }
    let (back, returned) = oneshot::channel();
    let lent = stream::unfold(Lent(Some((messages.fuse().boxed(), back))), async |mut lent| {
        let message = lent.0.as_mut()?.0.next().await?;
        Some((message, lent))
    });
    (lent.boxed(), returned)
}

/// The figures of the tasks that took the place of a part's first one, when the query has ended.
async fn figures(
    part: Arc<Part>,
    messages: oneshot::Receiver<Messages>,
) -> Option<Result<WorkerToCoordinatorMsg>> {
    if let Ok(messages) = messages.await {
        messages.for_each(|_| ready(())).await;
    }
    part.figures().await.map(|figures| Ok(WorkerToCoordinatorMsg::TaskMetrics(figures)))
}
