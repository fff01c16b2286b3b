//! A plan that may run, and the rows that come from it.

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{ExecutionPlan, execute_stream, stream::RecordBatchStreamAdapter},
};
use datafusion_distributed::{
    DistributedLeafExec, DistributedMetricsFormat, NetworkBoundaryExt, Stage,
    rewrite_distributed_plan_with_metrics,
};
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use url::Url;

use crate::{
    failure::{QueryError, classify},
    retry::Retry,
    scans::CollectionScan,
    tagging::FirstLoss,
};

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Run the plan.
    Plan(Arc<dyn ExecutionPlan>),
    /// Run the plan and answer with it and its figures.
    Analyze(Arc<dyn ExecutionPlan>),
    /// The answer is known.
    Rows(RecordBatch),
}

/// A verified plan of one attempt of one query.
#[derive(Debug)]
pub struct PlannedQuery {
    work: Work,
    context: Arc<TaskContext>,
    scans: Arc<Vec<CollectionScan>>,
    slots: Vec<Url>,
    stages: usize,
    loss: Arc<FirstLoss>,
    /// `None`: failed parts cannot be made good one by one.
    retry: Option<Arc<Retry>>,
}

impl PlannedQuery {
    pub(crate) fn new(
        work: Work,
        context: Arc<TaskContext>,
        scans: Arc<Vec<CollectionScan>>,
        mut slots: Vec<Url>,
        stages: usize,
        loss: Arc<FirstLoss>,
        retry: Option<Arc<Retry>>,
    ) -> Self {
        slots.dedup();
        Self { work, context, scans, slots, stages, loss, retry }
    }

    /// Columns of the answer.
    pub fn schema(&self) -> SchemaRef {
        match &self.work {
            Work::Plan(plan) | Work::Analyze(plan) => plan.schema(),
            Work::Rows(rows) => rows.schema(),
        }
    }

    /// What is asked of whom, by name of the collection, ascending. Parts that are routed again while the query runs
    /// show here with the nodes that took over, and segments whose retries have run out as unavailable: only after
    /// the last row is it what the answer rests on.
    pub fn scans(&self) -> Arc<Vec<CollectionScan>> {
        self.retry.as_ref().map_or_else(|| Arc::clone(&self.scans), |retry| retry.scans())
    }

    /// Workers that were asked and have not given all their rows yet. Meant for a query whose time has passed; where
    /// rows flow between nodes nobody can tell, and it is all that were asked.
    pub fn running(&self) -> BTreeSet<Url> {
        match &self.retry {
            Some(retry) => retry.running(),
            None => self.slots.iter().cloned().collect(),
        }
    }

    /// Waits for no worker any more: those that are [running](Self::running) count as silent, their segments as
    /// unavailable, and what the others gave becomes the answer. Does nothing where rows flow between nodes; a worker
    /// that gave more rows than could be held back is waited for still.
    pub fn time_is_up(&self) {
        if let Some(retry) = &self.retry {
            retry.time_is_up();
        }
    }

    /// The workers that scan, ascending, as they were planned.
    pub fn nodes(&self) -> &[Url] {
        &self.slots
    }

    /// How many stages stand above one another on nodes. 0: the broker alone; 1: nodes scan and the broker merges;
    /// more: rows flow between nodes.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// Rows of the segments that are scanned, before any filter.
    pub fn total_rows(&self) -> u64 {
        let rows = |scan: &CollectionScan| {
            let segments = scan.parts.iter().flat_map(|part| &part.segments);
            segments
                .filter_map(|at| scan.collection.segments.get(*at as usize))
                .map(|segment| segment.rows)
                .sum::<u64>()
        };
        self.scans().iter().map(rows).sum()
    }

    /// Starts the plan; must be called inside a runtime, and once: stages run once.
    ///
    /// # Errors
    /// As the rows' own.
    pub fn execute(&self) -> Result<QueryStream, QueryError> {
        let rows: SendableRecordBatchStream = match &self.work {
            Work::Rows(rows) => {
                let only = futures::stream::iter([Ok(rows.clone())]);
                Box::pin(RecordBatchStreamAdapter::new(rows.schema(), only))
            }
            Work::Plan(plan) | Work::Analyze(plan) => {
                execute_stream(Arc::clone(plan), Arc::clone(&self.context))
                    .map_err(|error| classify(&error))?
            }
        };
        Ok(QueryStream { rows: Some(rows), loss: Arc::clone(&self.loss).wait().boxed() })
    }

    /// Rows that the scans delivered, after filters that were applied while reading. To be asked after the rows ended
    /// well; `None` when the nodes' figures do not come in time or the plan has no scan.
    pub async fn scanned_rows(&self, patience: Duration) -> Option<u64> {
        let Work::Plan(plan) = &self.work else { return None };
        if self.stages == 0 {
            return None;
        }
        let figures =
            rewrite_distributed_plan_with_metrics(Arc::clone(plan), DistributedMetricsFormat::Aggregated);
        let plan = tokio::time::timeout(patience, figures).await.ok()?.ok()?;
        scanned(&plan)
    }
}

/// The sum over all scans below.
fn scanned(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let mut sum = None;
    let walk = plan.apply(|node| {
        if node.is::<DistributedLeafExec>() {
            let rows = node.metrics().and_then(|metrics| metrics.output_rows());
            sum = rows
                .and_then(|rows| u64::try_from(rows).ok())
                .map(|rows| rows + sum.unwrap_or_default())
                .or(sum);
        }
        if let Some(boundary) = node.as_network_boundary() {
            if let Stage::Local(stage) = boundary.input_stage() {
                sum = scanned(&stage.plan).map(|rows| rows + sum.unwrap_or_default()).or(sum);
            }
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walk.ok().and(sum)
}

/// The rows of an answer. Dropping it ends the work on all nodes; after an error nothing follows.
pub struct QueryStream {
    rows: Option<SendableRecordBatchStream>,
    loss: BoxFuture<'static, QueryError>,
}

impl std::fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryStream").field("running", &self.rows.is_some()).finish_non_exhaustive()
    }
}

impl Stream for QueryStream {
    type Item = Result<RecordBatch, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(rows) = self.rows.as_mut() else { return Poll::Ready(None) };
        let item = match rows.poll_next_unpin(context) {
            Poll::Ready(item) => item.map(|batch| batch.map_err(|error| classify(&error))),
            Poll::Pending => Some(Err(ready!(self.loss.poll_unpin(context)))),
        };
        if !matches!(item, Some(Ok(_))) {
            self.rows = None;
        }
        Poll::Ready(item)
    }
}
