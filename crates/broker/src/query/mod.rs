//! A query's way from a request to an answer.

mod admission;
mod broken;
mod calls;
mod collect;
mod in_flight;
mod picture;
mod reports;
mod router;
mod running;
mod tries;

use std::{
    any::Any,
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use pointsman_clock::{Clock, MonoTime};
use pointsman_engine::{Engine, Statement};
use pointsman_ids::{AnswerCode, ClusterName, CollectionName, Error, ErrorClass, ErrorCode, Result};
use pointsman_program::QueryThreads;
use pointsman_routing::{Routing, RoutingView};
use pointsman_scatter::RetryBudget;
use pointsman_settings::QuerySettings;

use crate::{
    answer::{Answer, Exceptions},
    catalogs::Catalogs,
    metrics::{self, Outcome},
    request::{QueryBody, QueryOptions, QueryRequest},
    route::Asked,
};
pub(crate) use admission::{Admission, Place};
use in_flight::InFlight;
use running::Running;

/// How long a call waits for a place at its node.
const PATIENCE: Duration = Duration::from_secs(1);

/// What queries stand on.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Calls that may be under way to one node.
    pub(crate) max_in_flight: usize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) routing: Routing,
    pub(crate) engine: Engine,
    pub(crate) threads: QueryThreads,
    pub(crate) catalogs: Arc<Catalogs>,
    /// Shared with requests by shard.
    pub(crate) admission: Arc<Admission>,
}

/// Answers queries. Dropping the future of one stops its work everywhere.
#[derive(Debug)]
pub(crate) struct Queries {
    name: String,
    settings: QuerySettings,
    clock: Arc<dyn Clock>,
    routing: Routing,
    engine: Engine,
    threads: QueryThreads,
    catalogs: Arc<Catalogs>,
    admission: Arc<Admission>,
    in_flight: Arc<InFlight>,
    budget: Arc<RetryBudget>,
    ids: QueryIds,
}

/// What a statement would ask for.
#[derive(Debug)]
pub(crate) struct Scans {
    /// The view that it would be routed by.
    pub(crate) view: Arc<RoutingView>,
    /// What the client wants besides.
    pub(crate) options: QueryOptions,
    /// Positions of segments, by collection.
    pub(crate) positions: BTreeMap<CollectionName, Vec<u32>>,
}

/// A failure that no rule covers, with the answer that says so.
#[derive(Debug)]
pub(crate) struct Uncaught(pub(crate) Box<Answer>);

impl Queries {
    /// A broker's queries. `name` is the broker's, `seed` tells its query ids from those of other starts.
    pub(crate) fn new(name: String, settings: QuerySettings, parts: Parts, seed: u64) -> Self {
        let Parts { max_in_flight, clock, routing, engine, threads, catalogs, admission } = parts;
        let in_flight = Arc::new(InFlight::new(max_in_flight, PATIENCE));
        let budget = Arc::new(RetryBudget::new(settings.retry_ratio));
        let ids = QueryIds::new(seed);
        Self { name, settings, clock, routing, engine, threads, catalogs, admission, in_flight, budget, ids }
    }

    /// Answers one query, errors included.
    ///
    /// # Errors
    /// [`Uncaught`] when the query panicked.
    pub(crate) async fn answer(&self, body: &QueryBody) -> Result<Answer, Uncaught> {
        let id = self.ids.next();
        let mut ending = Ending::new(Arc::clone(&self.clock));
        let run = AssertUnwindSafe(self.run(&id, ending.started, body)).catch_unwind();
        let caught = run.await;
        let is_panic = caught.is_err();
        let answer = caught.unwrap_or_else(|panic| self.panicked(&id, panic.as_ref()));
        let took = ending.end(outcome(&answer));
        let answer = Answer {
            request_id: id,
            broker_id: self.name.clone(),
            time_used_ms: crate::millis(took),
            ..answer
        };
        log(&answer);
        if is_panic { Err(Uncaught(Box::new(answer))) } else { Ok(answer) }
    }

    /// The answer to a request that holds no query.
    pub(crate) fn refuse(&self, error: &Error) -> Answer {
        Ending::new(Arc::clone(&self.clock)).end(Outcome::Refused);
        Answer { request_id: self.ids.next(), broker_id: self.name.clone(), ..Answer::failed(error.into()) }
    }

    /// What a statement would ask for, after statistics have left out what they can; nothing is routed or run.
    ///
    /// # Errors
    /// Those of reading and planning the statement.
    pub(crate) async fn asked(&self, body: &QueryBody) -> Result<Scans> {
        let request = QueryRequest::parse(body)?;
        let statement = check(&request.sql).await?;
        self.routed(&statement)?;
        let view = self.routing.view();
        let asked = Asked::default();
        self.engine.plan(&statement, &self.catalogs.of(&view), Arc::new(asked.clone())).await?;
        Ok(Scans { view, options: request.options, positions: asked.positions() })
    }

    /// Sets the gauges.
    pub(crate) fn publish_metrics(&self) {
        self.admission.publish();
        metrics::retry_budget_exhausted(self.budget.exhausted());
    }

    async fn run(&self, id: &str, started: MonoTime, body: &QueryBody) -> Answer {
        let request = match QueryRequest::parse(body) {
            Ok(request) => request,
            Err(error) => return Answer::failed((&error).into()),
        };
        let ran = self.admit(id, started, &request).await;
        let answer = ran.unwrap_or_else(|error| Answer::failed((&error).into()));
        Answer { client_request_id: request.options.client_request_id, ..answer }
    }

    /// Waits for a place and runs the query in it. Nothing is done for a query that has no place, so that a flood of
    /// them costs little.
    async fn admit(&self, id: &str, started: MonoTime, request: &QueryRequest) -> Result<Answer> {
        let patience = request.options.timeout.unwrap_or(self.settings.timeout);
        let waited = tokio::time::timeout(patience, self.admission.enter()).await;
        let Ok(place) = waited else {
            let message =
                format!("the query's timeout of {patience:?} passed while it waited for a place to run in");
            return Err(Error::new(ErrorCode::DeadlineExceeded, message));
        };
        let _place = place?;
        let statement = check(&request.sql).await?;
        self.routed(&statement)?;
        let timeout = self.timeout(request, &statement);
        Running::new(self, id, request, &statement, started, timeout).run().await
    }

    /// Age of the routing of each cluster whose coordinator is away.
    fn ages(&self) -> BTreeMap<ClusterName, Duration> {
        let away = self.routing.feeds().into_iter();
        away.filter_map(|feed| Some((feed.cluster, feed.age?))).collect()
    }

    /// A broker that knows nothing yet must not call a collection unknown.
    fn routed(&self, statement: &Statement) -> Result<()> {
        if statement.collections().is_empty() || self.routing.is_ready() {
            return Ok(());
        }
        let message = "this broker has no routing yet: no coordinator has answered it, and it has no stored snapshot \
                       that it may use; GET /ready says more";
        Err(Error::new(ErrorCode::CollectionNotFullyLoaded, message))
    }

    /// The option, else the smallest of the collections', else the broker's.
    fn timeout(&self, request: &QueryRequest, statement: &Statement) -> Duration {
        let view = self.routing.view();
        let collections =
            statement.collections().iter().filter_map(|name| view.collection(name)?.query_timeout);
        request.options.timeout.or_else(|| collections.min()).unwrap_or(self.settings.timeout)
    }

    fn panicked(&self, id: &str, panic: &(dyn Any + Send)) -> Answer {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        tracing::error!(query = id, panic = text, "a query panicked");
        let mut exceptions = Exceptions::default();
        exceptions.push_as(
            AnswerCode::ExecutionFailed,
            "the query broke an invariant of the broker; its log says more",
        );
        Answer::failed(exceptions)
    }
}

/// Bytes of a text that is parsed sooner than another thread would wake up.
const SHORT_TEXT: usize = 1024;

/// Parses beside the threads that serve: a long text takes its time.
async fn check(sql: &str) -> Result<Statement> {
    if sql.len() <= SHORT_TEXT {
        return Statement::check(sql);
    }
    let sql = sql.to_owned();
    let checked = tokio::task::spawn_blocking(move || Statement::check(&sql)).await;
    checked.unwrap_or_else(|panicked| {
        Err(Error::new(ErrorCode::ServiceInternal, format!("reading the statement broke off: {panicked}")))
    })
}

/// What an answer counts as.
fn outcome(answer: &Answer) -> Outcome {
    let Some(first) = answer.exceptions.first() else { return Outcome::Complete };
    if answer.result_table.is_some() {
        return Outcome::Partial;
    }
    let is_refused = ErrorCode::ALL.iter().any(|code| {
        code.class() == ErrorClass::Input && AnswerCode::from(*code).number() == first.error_code
    });
    let is_other = first.error_code == AnswerCode::Other.number();
    if is_refused && !is_other { Outcome::Refused } else { Outcome::Failed }
}

/// One line for each query that failed. Texts of errors quote statements, so they stand at debug alone.
fn log(answer: &Answer) {
    let Some(first) = answer.exceptions.first() else { return };
    let (query, code) = (answer.request_id.as_str(), first.error_code);
    tracing::info!(
        query,
        code,
        exceptions = answer.exceptions.len(),
        ms = answer.time_used_ms,
        "query failed"
    );
    tracing::debug!(query, code, message = first.message, "query failed because");
}

/// Counts a query's end, whatever it is: a future that is dropped counts as cancelled.
#[derive(Debug)]
struct Ending {
    clock: Arc<dyn Clock>,
    started: MonoTime,
    outcome: Outcome,
}

impl Ending {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { started: clock.mono(), clock, outcome: Outcome::Cancelled }
    }

    /// Returns how long the query took.
    fn end(&mut self, outcome: Outcome) -> Duration {
        self.outcome = outcome;
        self.clock.mono() - self.started
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        metrics::query_ended(self.outcome, self.clock.mono() - self.started);
    }
}

/// Names of queries: unique in one run of the broker, and told from those of other runs.
#[derive(Debug)]
struct QueryIds {
    run: u32,
    last: AtomicU64,
}

impl QueryIds {
    fn new(seed: u64) -> Self {
        let [.., a, b, c, d] = seed.to_be_bytes();
        Self { run: u32::from_be_bytes([a, b, c, d]), last: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        format!("{:08x}-{}", self.run, self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
