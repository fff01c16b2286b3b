//! The node's side: runs the tasks of plans over the segments that it holds, and nothing else.

use std::{any::Any, path::PathBuf, sync::Arc};

use datafusion::{
    common::{DataFusionError, Result as DataFusionResult},
    execution::{SessionState, SessionStateBuilder, runtime_env::RuntimeEnv},
};
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
};
use parking_lot::Mutex;
use pointsman_channels::Channels;
use pointsman_ids::{Error, ErrorCode, Result};
use tonic::service::Routes;

use crate::{
    bounded,
    engine::{default_partitions, runtime_env},
    location::SegmentPath,
    pace::paced,
    store::{OnlySegments, SegmentStore, Segments, not_loaded},
    tagging::Resolver,
    verify::check_task,
    watch::watch,
};

/// What queries may use on a node.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Bytes that all queries may take together.
    pub memory_limit: u64,
    /// Folder for what does not fit into memory; `None`: nothing is written, and such a query fails.
    pub spill_dir: Option<PathBuf>,
    /// Partitions where a plan leaves the choice to the node; at least 1.
    pub target_partitions: usize,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { memory_limit: 1 << 30, spill_dir: None, target_partitions: default_partitions() }
    }
}

/// The engine's gRPC service over what `store` holds. Other workers are reached through `channels`.
///
/// # Errors
/// `service_internal` when the spill folder cannot be used.
pub fn worker_routes(
    store: Arc<dyn SegmentStore>,
    channels: Channels,
    settings: WorkerSettings,
) -> Result<Routes> {
    let segments = Arc::new(Segments::new(Arc::clone(&store)));
    let runtime = runtime_env(settings.memory_limit, settings.spill_dir, Arc::new(OnlySegments(segments)))?;
    let template = template(Arc::clone(&runtime)).map_err(|error| {
        Error::new(ErrorCode::ServiceInternal, format!("setting up sessions of the worker: {error}"))
    })?;
    let sessions = Sessions {
        template,
        store,
        resolver: Resolver::new(channels, None),
        target_partitions: settings.target_partitions.max(1),
    };
    let worker = Worker::from_session_builder(move |context| {
        let session = sessions.build(context);
        async move { Ok(session) }
    });
    let worker = worker.with_runtime_env(runtime).with_version(env!("CARGO_PKG_VERSION"));
    Ok(Routes::new(worker.into_worker_server()))
}

/// Files that a task may read, held until its session ends.
type Holds = Mutex<Vec<Arc<dyn Any + Send + Sync>>>;

/// What the sessions of all tasks have in common. Naming a few hundred functions takes longer than a small task.
fn template(runtime: Arc<RuntimeEnv>) -> DataFusionResult<SessionState> {
    let mut session = SessionStateBuilder::new().with_default_features().with_runtime_env(runtime).build();
    bounded::register(&mut session)?;
    Ok(session)
}

/// Makes the sessions of tasks.
struct Sessions {
    template: SessionState,
    store: Arc<dyn SegmentStore>,
    resolver: Resolver,
    target_partitions: usize,
}

impl Sessions {
    /// A session with the task's configuration, which is all that tells one task's session from another's.
    fn build(&self, mut context: WorkerQueryContext) -> SessionState {
        let store = Arc::clone(&self.store);
        let mut config = context.builder.config().take().unwrap_or_default();
        config.set_distributed_channel_resolver(self.resolver.clone());
        config.set_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent<'_>| {
            admit(&store, event)
        });
        let mut session = self.template.clone();
        *session.config_mut() =
            config.with_target_partitions(self.target_partitions).with_extension(Arc::new(Holds::default()));
        session
    }
}

/// Lets a task in only if it reads segments and the node holds them all, before its first row.
fn admit(
    store: &Arc<dyn SegmentStore>,
    event: WorkerPlanRewriteEvent<'_>,
) -> DataFusionResult<WorkerPlanRewriteEventResponse> {
    let segments = check_task(&event.plan).map_err(|error| DataFusionError::Plan(error.message().into()))?;
    let mut missing: Vec<SegmentPath> = vec![];
    let mut held = vec![];
    for segment in segments {
        match store.open(segment.id) {
            Some(file) => held.extend(file.hold),
            None => missing.push(segment),
        }
    }
    if !missing.is_empty() {
        return Err(DataFusionError::Execution(not_loaded(&missing)));
    }
    if let Some(holds) = event.session_config.get_extension::<Holds>() {
        holds.lock().extend(held);
    }
    Ok(WorkerPlanRewriteEventResponse::new(paced(watch(event.plan, store)?)?))
}
