//! A part from its first task to its last row.

use std::{ops::Range, sync::Arc};

use datafusion::{
    common::{DataFusionError, Result, internal_datafusion_err},
    execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer},
    physical_expr::LexOrdering,
    physical_plan::{
        ExecutionPlanProperties,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        sorts::streaming_merge::StreamingMergeBuilder,
        stream::RecordBatchStreamAdapter,
    },
};
use datafusion_distributed::ProducerHead;
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all, try_join, try_join_all},
};
use http::HeaderMap;
use url::Url;

use super::{
    Batches, Retry,
    leg::{Failure, Leg, Watched, run},
    narrow,
    outlet::{Outlet, Rows, outlet},
    part::{Loss, Part, Template},
};

/// How rows are asked for: the same for every task of a part.
pub(super) struct Request {
    pub(super) headers: HeaderMap,
    pub(super) partitions: Range<usize>,
    pub(super) producer_head: ProducerHead,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) context: Arc<TaskContext>,
}

/// How a part, or a piece of it, ended.
type Ended = Result<(), Arc<DataFusionError>>;

/// Runs one part.
pub(super) struct Driver {
    pub(super) retry: Arc<Retry>,
    pub(super) part: Arc<Part>,
    pub(super) request: Request,
}

impl Driver {
    /// Reads the first task on `url` and whatever takes its place, and hands over what counts.
    pub(super) async fn run(self, url: Url, rows: Result<Vec<Batches>>, outlets: Vec<Outlet>) {
        let ended = self.first(url, rows, &outlets).await;
        join_all(outlets.iter().map(|outlet| outlet.end(ended.clone()))).await;
    }

    async fn first(&self, url: Url, rows: Result<Vec<Batches>>, outlets: &[Outlet]) -> Ended {
        self.retry.asked(&url);
        let ran = match rows {
            Ok(rows) => self.read(rows, outlets, &self.part.loss).await,
            Err(error) => Err(Failure::unseen(error)),
        };
        self.retry.ended(&url, ran.is_ok());
        let Err(failure) = ran else { return Ok(()) };
        let Some(template) = self.part.template().await else { return Err(lost(failure)) };
        let Some(segments) = narrow::segments(&template.plan)? else { return Err(lost(failure)) };
        self.part.set_rerouted();
        let leg = Leg { url, hop: 0, segments, plan: Arc::clone(&template.plan) };
        self.again(&template, leg, failure, outlets).await
    }

    async fn next(&self, template: &Template, leg: Leg, outlets: &[Outlet]) -> Ended {
        self.retry.asked(&leg.url);
        let ran = self.attempt(template, &leg, outlets).await;
        self.retry.ended(&leg.url, ran.is_ok());
        match ran {
            Ok(()) => Ok(()),
            Err(failure) => self.again(template, leg, failure, outlets).await,
        }
    }

    async fn attempt(&self, template: &Template, leg: &Leg, outlets: &[Outlet]) -> Result<(), Failure> {
        let task = self.retry.start(template, leg, &self.request).await.map_err(Failure::unseen)?;
        self.read(task.rows, outlets, &task.loss).await?;
        drop(task.done);
        self.part.add_figures(task.figures);
        Ok(())
    }

    async fn read(&self, rows: Vec<Batches>, outlets: &[Outlet], loss: &Loss) -> Result<(), Failure> {
        let room = self.retry.room(&self.request.context);
        run(rows, outlets, room, Watched { loss, late: &self.retry.late }).await
    }

    /// Runs a failed leg's segments elsewhere.
    fn again<'a>(
        &'a self,
        template: &'a Template,
        leg: Leg,
        failure: Failure,
        outlets: &'a [Outlet],
    ) -> BoxFuture<'a, Ended> {
        async move {
            let error = match failure {
                Failure::Unseen(error) => error,
                Failure::Seen(error) => return Err(error),
                Failure::Late => {
                    self.retry.silent(&leg);
                    return Ok(());
                }
            };
            let Some(successors) = self.retry.reroute(&leg, &error) else { return Err(error) };
            let legs = successors.into_iter().map(|(url, segments)| {
                let plan = narrow::narrow(&template.plan, &segments)?;
                Ok(Leg { url, hop: leg.hop + 1, segments, plan })
            });
            let legs = legs.collect::<Result<Vec<_>>>()?;
            match template.plan.output_ordering().cloned() {
                Some(order) if legs.len() > 1 => self.merge(template, legs, &order, outlets).await,
                _ => try_join_all(legs.into_iter().map(|leg| self.next(template, leg, outlets)))
                    .await
                    .map(drop),
            }
        }
        .boxed()
    }

    /// Several legs whose rows come in an order: together they come in the same.
    async fn merge(
        &self,
        template: &Template,
        legs: Vec<Leg>,
        order: &LexOrdering,
        outlets: &[Outlet],
    ) -> Ended {
        let mut ways: Vec<Vec<Batches>> = outlets.iter().map(|_| vec![]).collect();
        let mut running = vec![];
        for leg in legs {
            let mut own = vec![];
            for way in &mut ways {
                let (out, rows) = outlet();
                own.push(out);
                way.push(rows.into_stream(()));
            }
            running.push(async move {
                let ended = self.next(template, leg, &own).await;
                join_all(own.iter().map(|outlet| outlet.end(ended.clone()))).await;
                ended
            });
        }
        let merging = ways.into_iter().zip(outlets).map(|(way, outlet)| async move {
            let mut rows = self.merged(template, way, order)?;
            while let Some(batch) = rows.next().await {
                if !outlet.rows(Rows { batches: vec![batch?], room: None }).await {
                    break;
                }
            }
            Ok(())
        });
        try_join(try_join_all(running), try_join_all(merging)).await.map(drop)
    }

    fn merged(
        &self,
        template: &Template,
        rows: Vec<Batches>,
        order: &LexOrdering,
    ) -> Result<SendableRecordBatchStream> {
        let schema = template.plan.schema();
        let stream = |rows| {
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows)) as SendableRecordBatchStream
        };
        let context = &self.request.context;
        StreamingMergeBuilder::new()
            .with_streams(rows.into_iter().map(stream).collect())
            .with_schema(Arc::clone(&schema))
            .with_expressions(order)
            .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
            .with_batch_size(context.session_config().batch_size())
            .with_reservation(MemoryConsumer::new("merging parts").register(context.memory_pool()))
            .build()
    }
}

/// The error of a part that cannot be made good.
fn lost(failure: Failure) -> Arc<DataFusionError> {
    match failure {
        Failure::Unseen(error) | Failure::Seen(error) => error,
        Failure::Late => Arc::new(internal_datafusion_err!("the query's time has passed")),
    }
}
