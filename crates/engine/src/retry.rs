//! Parts of a running query that are routed again when their node fails.
//!
//! A part is one task of a stage that scans, whose rows go straight to the broker. It is met where the engine's calls
//! to a worker pass ([`PartChannel`]): the rows of the task are held back until it ended well; when it fails, they
//! are thrown away, the router chooses other nodes for its segments, and the same task runs there over these
//! ([`driver`]). What reads the rows sees one stream that ends well, and knows nothing of all this. Rows that do not
//! fit into the query's buffer are handed over as they come, and then a failure is the query's.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::{
    arrow::record_batch::RecordBatch,
    common::{DataFusionError, Result, runtime::SpawnedTask},
    execution::TaskContext,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, MaybeEncoded, SetPlanRequest, TaskKey,
    WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::{
    StreamExt,
    future::ready,
    stream::{self, BoxStream},
};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use url::Url;

pub(crate) use self::channel::PartChannel;
use self::{
    driver::Request,
    leg::Leg,
    moves::Moves,
    part::{Figures, Loss, Part, Template},
    room::{Buffer, Room},
};
use crate::{
    failure::classify,
    first::First,
    location::SegmentPath,
    router::{Rerouted, Router},
    scans::CollectionScan,
    tagging::Resolver,
};

mod channel;
mod driver;
mod leg;
mod moves;
mod narrow;
mod outlet;
mod part;
mod room;

/// The rows of one partition of a task.
type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Tasks that take the place of others have numbers from here on; no stage has as many of its own.
const FIRST_NUMBER: usize = 1 << 32;

/// All parts of one attempt of one query.
#[derive(Debug)]
pub(crate) struct Retry {
    router: Arc<dyn Router>,
    resolver: Resolver,
    buffer: Arc<Buffer>,
    moves: Mutex<Moves>,
    /// By stage and task.
    parts: Mutex<BTreeMap<(usize, usize), Arc<Part>>>,
    /// The query's time has passed.
    late: First<()>,
    /// Tasks that run, by node.
    running: Mutex<BTreeMap<Url, usize>>,
    next: AtomicUsize,
}

/// A task that takes the place of another.
struct Task {
    rows: Vec<Batches>,
    loss: Arc<Loss>,
    /// Dropping it ends the task on its node.
    done: oneshot::Sender<()>,
    figures: Figures,
}

impl Retry {
    /// The parts of a query that is routed as in `scans`, and may hold back so many bytes. `resolver` leads to the
    /// workers themselves.
    pub(crate) fn new(
        router: Arc<dyn Router>,
        resolver: Resolver,
        scans: Arc<Vec<CollectionScan>>,
        bytes: usize,
    ) -> Self {
        Self {
            router,
            resolver,
            buffer: Buffer::new(bytes),
            moves: Mutex::new(Moves::new(scans)),
            parts: Mutex::default(),
            late: First::default(),
            running: Mutex::default(),
            next: AtomicUsize::new(FIRST_NUMBER),
        }
    }

    /// The routing as it stands.
    pub(crate) fn scans(&self) -> Arc<Vec<CollectionScan>> {
        Arc::clone(self.moves.lock().scans())
    }

    /// Workers with tasks that have not ended.
    pub(crate) fn running(&self) -> BTreeSet<Url> {
        self.running.lock().keys().cloned().collect()
    }

    /// Waits for no part any more: what has not ended counts as silent, and the query goes on without it.
    pub(crate) fn time_is_up(&self) {
        self.late.set(());
    }

    fn silent(&self, leg: &Leg) {
        self.moves.lock().silent(leg);
    }

    fn part(&self, key: TaskKey) -> Arc<Part> {
        Arc::clone(self.parts.lock().entry((key.stage_id, key.task_number)).or_default())
    }

    fn room(&self, context: &TaskContext) -> Room {
        self.buffer.room(context)
    }

    fn asked(&self, node: &Url) {
        *self.running.lock().entry(node.clone()).or_default() += 1;
    }

    fn ended(&self, node: &Url, well: bool) {
        let mut running = self.running.lock();
        let Some(tasks) = running.get_mut(node) else { return };
        *tasks -= 1;
        if *tasks == 0 {
            running.remove(node);
            drop(running);
            if well {
                self.router.answered(node);
            }
        }
    }

    /// Who takes over the segments of a failed leg, by worker; `None`: the failure is the whole query's.
    fn reroute(&self, leg: &Leg, error: &DataFusionError) -> Option<BTreeMap<Url, BTreeSet<SegmentPath>>> {
        let error = classify(error);
        if !error.is_of_node() {
            return None;
        }
        let mut moves = self.moves.lock();
        if let Some(failed) = moves.open(leg, error) {
            let Rerouted::Parts(routed) = self.router.reroute(&failed) else { return None };
            if !moves.record(&failed, routed) {
                return None;
            }
        }
        moves.successors(leg)
    }

    /// Sends a leg's task to its node and asks for its rows.
    async fn start(&self, template: &Template, leg: &Leg, request: &Request) -> Result<Task> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = TaskKey { task_number: number, ..template.key };
        let (done, finished) = oneshot::channel();
        let loss = Arc::new(Loss::default());
        let plan = SetPlanRequest {
            task_key: key,
            task_count: template.task_count,
            plan: MaybeEncoded::Decoded(Arc::clone(&leg.plan)),
            work_unit_feed_declarations: vec![],
            target_worker_url: leg.url.clone(),
            query_start_time_ns: template.query_start_time_ns,
        };
        let client = self.resolver.get_worker_client_for_url(&leg.url).await?;
        let figures = SpawnedTask::spawn(send(client, template, plan, finished, Arc::clone(&loss), request));
        let rows = ExecuteTaskRequest {
            task_key: key,
            target_partition_start: request.partitions.start,
            target_partition_end: request.partitions.end,
            producer_head: request.producer_head.clone(),
        };
        let mut client = self.resolver.get_worker_client_for_url(&leg.url).await?;
        let (headers, metrics) = (request.headers.clone(), request.metrics.clone());
        let rows = client.execute_task(headers, rows, metrics, &request.context).await?;
        Ok(Task { rows, loss, done, figures })
    }
}

/// Sends a plan, keeps the call open until the task is done, and returns the task's figures.
fn send(
    mut client: Box<dyn WorkerChannel>,
    template: &Template,
    plan: SetPlanRequest,
    finished: oneshot::Receiver<()>,
    loss: Arc<Loss>,
    request: &Request,
) -> impl Future<Output = Option<datafusion_distributed::TaskMetrics>> + use<> {
    let (headers, metrics) = (template.headers.clone(), template.metrics.clone());
    let context = Arc::clone(&request.context);
    let messages = stream::iter([CoordinatorToWorkerMsg::WorkUnitEos])
        .chain(stream::once(finished).filter_map(|_| ready(None)))
        .boxed();
    async move {
        let opened = client.coordinator_channel(headers, plan, messages, metrics, &context).await;
        let mut answers = opened.unwrap_or_else(|error| stream::iter([Err(error)]).boxed());
        let mut figures = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(WorkerToCoordinatorMsg::TaskMetrics(all)) => figures = Some(all),
                Ok(_) => {}
                Err(error) => loss.set(Arc::new(error)),
            }
        }
        figures
    }
}
