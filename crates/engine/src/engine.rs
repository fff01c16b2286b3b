//! The broker's side: from a checked statement to a verified plan.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use datafusion::{
    arrow::{
        array::{RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
    execution::{
        SessionState, SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::{FairSpillPool, TrackConsumersPool},
        object_store::ObjectStoreRegistry,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    logical_expr::LogicalPlan,
    physical_optimizer::optimizer::PhysicalOptimizer,
    physical_plan::ExecutionPlan,
    prelude::SessionConfig,
    sql::parser::Statement as Parsed,
};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, display_plan_ascii};
use pointsman_channels::Channels;
use pointsman_ids::{Error, ErrorCode, Result};

use crate::{
    bounded,
    broadcast::{self, BroadcastJoins},
    catalog::Catalog,
    failure::{QueryError, planning},
    idle::without_idle_tasks,
    logical::{check_constants, check_logical, unites},
    options::QueryScans,
    pace::paced,
    pinning::with_pinning,
    planned::{PlannedQuery, Work},
    planners::Planners,
    retry::Retry,
    router::Router,
    scans::{CollectionScan, Scans},
    statement::{Explain, Statement},
    store::NoStores,
    table::{CATALOG, QueryCatalog, SCHEMA},
    tagging::{FirstLoss, Resolver},
    verify::check_plan,
};

/// Upper bound on tasks per stage; the slots of a query are what counts.
const MAX_TASKS: usize = 1 << 16;

/// Consumers that an error about memory names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);

/// What the engine may use in the broker.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Bytes that all queries of the process may take together.
    pub memory_limit: u64,
    /// Folder for what does not fit into memory; `None`: nothing is written, and such a query fails.
    pub spill_dir: Option<PathBuf>,
    /// Partitions of a stage on one node; at least 2.
    pub target_partitions: usize,
    /// How long planning may take.
    pub planning_timeout: Duration,
    /// Bytes of rows that one query may hold back, so that its parts can be routed again one by one. 0: none; a part
    /// that has given rows cannot be made good alone.
    pub retry_buffer: usize,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            memory_limit: 1 << 30,
            spill_dir: None,
            target_partitions: default_partitions(),
            planning_timeout: Duration::from_secs(2),
            retry_buffer: 16 << 20,
        }
    }
}

/// As many partitions as the process has cores.
pub(crate) fn default_partitions() -> usize {
    std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2)
}

/// Plans and runs statements. Lives as long as the broker; clones share everything.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    template: SessionState,
    channels: Channels,
    planners: Planners,
    retry_buffer: usize,
}

impl Engine {
    /// Builds an engine that reaches nodes through `channels`.
    ///
    /// # Errors
    /// `service_internal` when threads for planning cannot be started or the spill folder cannot be used.
    pub fn new(settings: EngineSettings, channels: Channels) -> Result<Self> {
        let internal = |doing: &str, error: &dyn std::fmt::Display| {
            Error::new(ErrorCode::ServiceInternal, format!("{doing}: {error}"))
        };
        let runtime = runtime_env(settings.memory_limit, settings.spill_dir, Arc::new(NoStores))?;
        let template = template(settings.target_partitions.max(2), runtime)
            .map_err(|error| internal("setting up sessions", &error))?;
        let planners = Planners::new(settings.planning_timeout)
            .map_err(|error| internal("starting threads for planning", &error))?;
        let shared = Shared { template, channels, planners, retry_buffer: settings.retry_buffer };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Plans a statement against one snapshot and one attempt's routing. Takes no longer than the planning timeout
    /// and never touches the network. A plan whose segments are partly unavailable runs over the rest.
    ///
    /// # Errors
    /// [`QueryError::Query`] with `collection_not_found`, `column_not_found`, `sql_invalid`, or whatever the router
    /// says; `service_internal` for a plan that the verifier refuses; `service_too_many_requests` when statements that
    /// are too complex keep every planner busy.
    pub async fn plan(
        &self,
        statement: &Statement,
        catalog: &Arc<Catalog>,
        router: Arc<dyn Router>,
    ) -> Result<PlannedQuery, QueryError> {
        if let Some(name) = statement.collections().iter().find(|name| catalog.table(name).is_none()) {
            let message = format!("there is no collection '{name}'; SHOW TABLES lists those that there are");
            return Err(Error::new(ErrorCode::CollectionNotFound, message).into());
        }
        let job = Job {
            statement: statement.clone(),
            catalog: Arc::clone(catalog),
            router,
            shared: Arc::clone(&self.shared),
        };
        Ok(self.shared.planners.run(job.run()).await?)
    }
}

/// A runtime for queries: bounded memory, and no store but those of the registry.
pub(crate) fn runtime_env(
    memory_limit: u64,
    spill_dir: Option<PathBuf>,
    stores: Arc<dyn ObjectStoreRegistry>,
) -> Result<Arc<RuntimeEnv>> {
    let pool = FairSpillPool::new(usize::try_from(memory_limit).unwrap_or(usize::MAX));
    let spill = match spill_dir {
        Some(folder) => DiskManagerMode::Directories(vec![folder]),
        None => DiskManagerMode::Disabled,
    };
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackConsumersPool::new(pool, NAMED_CONSUMERS)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spill))
        .with_object_store_registry(stores)
        .build_arc()
        .map_err(|error| Error::new(ErrorCode::ServiceInternal, format!("setting up the engine: {error}")))
}

/// The session that each query's is cloned from.
fn template(target_partitions: usize, runtime: Arc<RuntimeEnv>) -> datafusion::error::Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_target_partitions(target_partitions)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true)
        .with_repartition_file_scans(false);
    config.options_mut().execution.collect_statistics = false;
    // An answer counts the rows that nodes delivered: a count from statistics would hide that a node is gone.
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| rule.name() != "aggregate_statistics");
    let joins = rules.iter().position(|rule| rule.name() == broadcast::AFTER);
    rules.insert(joins.map_or(rules.len(), |at| at + 1), Arc::new(BroadcastJoins));
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_physical_optimizer_rules(rules)
        .with_distributed_planner()
        .with_distributed_children_isolator_unions(false)?
        .with_distributed_max_tasks_per_stage(MAX_TASKS)?;
    let mut session = with_pinning(builder).build();
    bounded::register(&mut session)?;
    Ok(session)
}

/// Planning of one statement.
struct Job {
    statement: Statement,
    catalog: Arc<Catalog>,
    router: Arc<dyn Router>,
    shared: Arc<Shared>,
}

impl Job {
    async fn run(self) -> Result<PlannedQuery> {
        let invalid = |error: datafusion::error::DataFusionError| planning(&error, ErrorCode::SqlInvalid);
        let gather = self.router.stage_nodes().is_empty();
        let scans = Arc::new(Scans::new(Arc::clone(&self.router), gather));
        let loss = Arc::new(FirstLoss::default());
        let mut session = self.session(&scans, &loss);
        let logical =
            session.statement_to_plan(Parsed::clone(&self.statement.query)).await.map_err(invalid)?;
        check_logical(&logical)?;
        let logical = session.optimize(&logical).map_err(invalid)?;
        check_constants(&logical)?;
        let query = QueryScans { scans: Arc::clone(&scans), unites: unites(&logical).map_err(invalid)? };
        session.config_mut().options_mut().extensions.insert(query);
        let planner = Arc::clone(session.query_planner());
        let plan = planner.create_physical_plan(&logical, &session).await.map_err(invalid)?;
        let plan = without_idle_tasks(plan).map_err(invalid)?;
        let assignment = scans.assignment();
        let stages = check_plan(&plan, &assignment)?;
        let collections = Arc::new(scans.collections());
        let retry = (stages == 1).then(|| self.retry(&collections));
        if let Some(retry) = &retry {
            let resolver = Resolver::with_retry(self.shared.channels.clone(), Arc::clone(retry));
            session.config_mut().set_distributed_channel_resolver(resolver);
        }
        if scans.stay_on_host() {
            // Compression saves nothing but a network.
            session.config_mut().set_distributed_compression(None).map_err(invalid)?;
        }
        // Nodes pace their own stages.
        let plan = if stages == 0 { paced(plan).map_err(invalid)? } else { plan };
        let work = match self.statement.explain {
            Explain::No => Work::Plan(plan),
            Explain::Plan => Work::Rows(explain(&logical, plan.as_ref())?),
            Explain::Analyze => Work::Analyze(plan),
        };
        Ok(PlannedQuery::new(
            work,
            session.task_ctx(),
            collections,
            assignment.slots.clone(),
            stages,
            loss,
            retry,
        ))
    }

    /// What makes failed parts good, where the broker itself reads what nodes scan.
    fn retry(&self, scans: &Arc<Vec<CollectionScan>>) -> Arc<Retry> {
        let resolver = Resolver::new(self.shared.channels.clone(), None);
        let (router, scans) = (Arc::clone(&self.router), Arc::clone(scans));
        Arc::new(Retry::new(router, resolver, scans, self.shared.retry_buffer))
    }

    fn session(&self, scans: &Arc<Scans>, loss: &Arc<FirstLoss>) -> SessionState {
        let mut session = self.shared.template.clone();
        session.mark_start_execution();
        let resolver = Resolver::new(self.shared.channels.clone(), Some(Arc::clone(loss)));
        session.config_mut().set_distributed_channel_resolver(resolver);
        let catalog = QueryCatalog { catalog: Arc::clone(&self.catalog), scans: Arc::clone(scans) };
        session.register_catalog_list(Arc::new(catalog));
        session
    }
}

/// The rows of EXPLAIN.
fn explain(logical: &LogicalPlan, physical: &dyn ExecutionPlan) -> Result<RecordBatch> {
    let schema = Schema::new(vec![
        Field::new("plan_type", DataType::Utf8, false),
        Field::new("plan", DataType::Utf8, false),
    ]);
    let kinds = StringArray::from(vec!["logical_plan", "physical_plan"]);
    let plans =
        StringArray::from(vec![logical.display_indent().to_string(), display_plan_ascii(physical, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(kinds), Arc::new(plans)])
        .map_err(|error| Error::new(ErrorCode::ServiceInternal, error.to_string()))
}
