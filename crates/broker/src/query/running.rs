//! One query while it runs: attempt after attempt, until there is an answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_engine::{CollectionScan, PlannedQuery, QueryError, Statement};
use pointsman_ids::{Error, ErrorCode, NodeKey, Result, UnavailableCause};
use pointsman_routing::RequestIds;
use pointsman_scatter::{Attempts, Decision, Limits};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    answer::{Answer, CoverageBody, Exceptions, ResultTable},
    metrics,
    request::QueryRequest,
};

use super::{
    Queries,
    broken::{Broken, judge},
    calls::Calls,
    collect::{self, Cut, Rows, collect},
    picture::{self, Picture},
    reports::Charge,
    router::{Asking, AttemptRouter},
    tries::Tries,
};

/// How long an answer waits for the nodes' figures once all rows are there.
const FIGURES_PATIENCE: Duration = Duration::from_millis(20);

/// How long an answer waits, when the deadline has passed, for what becomes of the rows that have come.
const LAST_ROWS: Duration = Duration::from_millis(100);

/// One query, from the moment it has a place.
#[derive(Debug)]
pub(super) struct Running<'a> {
    queries: &'a Queries,
    id: &'a str,
    request: &'a QueryRequest,
    statement: &'a Statement,
    /// One id per collection, for all attempts.
    ids: Arc<RequestIds>,
    tries: Arc<Tries>,
}

/// What an attempt led to.
enum Ended {
    /// This is it.
    Answer(Box<Answer>),
    /// Nodes broke it; the query runs again without them.
    Again,
}

impl<'a> Running<'a> {
    pub(super) fn new(
        queries: &'a Queries,
        id: &'a str,
        request: &'a QueryRequest,
        statement: &'a Statement,
        started: MonoTime,
        timeout: Duration,
    ) -> Self {
        let limits = Limits { max_attempts: queries.settings.max_attempts, timeout };
        let attempts = Attempts::new(limits, started.since_start()).within(Arc::clone(&queries.budget));
        let tries = Arc::new(Tries::new(attempts));
        Self { queries, id, request, statement, ids: Arc::default(), tries }
    }

    /// Runs the query until there is an answer.
    ///
    /// # Errors
    /// The query's own, and those of routing.
    pub(super) async fn run(self) -> Result<Answer> {
        loop {
            if let Ended::Answer(answer) = self.attempt().await? {
                return Ok(*answer);
            }
        }
    }

    /// One attempt with one view, from planning to the last row.
    async fn attempt(&self) -> Result<Ended> {
        let router = Arc::new(self.router());
        let began = Instant::now();
        let planned = match self.plan(&router).await {
            Ok(planned) => Arc::new(planned),
            Err(error) if error.code() == ErrorCode::SegmentsUnavailable => {
                return Ok(Ended::Answer(Box::new(self.unroutable(&router, &error))));
            }
            Err(error) => return Err(error),
        };
        let planning = began.elapsed();
        let picture = self.picture(&planned, &router);
        if picture.is_nobody_to_ask() {
            metrics::no_node_found();
        }
        if picture.is_nobody_to_ask() || (picture.is_partial() && !self.request.options.allow_partial) {
            picture.causes().into_iter().for_each(metrics::partial_answer);
            return Ok(Ended::Answer(Box::new(self.refused(&picture))));
        }
        let scans = planned.scans();
        let together = |scan: &CollectionScan| router.together(scan);
        self.tries.sent(&scans, together, planned.stages() == 1, self.now())?;
        if let Err(refused) = router.calls().begin(picture.nodes()).await {
            return Ok(self.crowded(&picture, refused));
        }
        let limits = collect::Limits::from(&self.queries.settings);
        let running = {
            let planned = Arc::clone(&planned);
            self.queries.threads.spawn(async move { collect(planned.execute()?, limits).await })
        };
        // The deadline is kept here, where nothing computes.
        let rows = async { running.await.unwrap_or_else(|ended| Err(query_ended(ended))) };
        let mut rows = Box::pin(rows);
        let answer = match tokio::time::timeout(self.remaining(), &mut rows).await {
            Ok(Ok(rows)) => {
                // What was routed again stands in the picture as it is now.
                let picture = self.picture(&planned, &router);
                picture.nodes().into_iter().for_each(|node| router.answered(node));
                self.tries.all_ended();
                self.answered(&planned, &picture, rows, Exceptions::default()).await
            }
            Ok(Err(error)) => return self.broken(&planned, &router, error),
            Err(_) => self.silent(&planned, &router, rows).await,
        };
        let trace_info =
            if self.request.trace { self.trace(&planned, planning, began) } else { BTreeMap::new() };
        let answer = Answer { trace_info, ..answer };
        Ok(Ended::Answer(Box::new(answer)))
    }

    /// A router for the next attempt, with the view of the moment.
    fn router(&self) -> AttemptRouter {
        let view = self.queries.routing.view();
        let deadline = self.now().saturating_add(self.remaining());
        let (in_flight, clock) = (Arc::clone(&self.queries.in_flight), Arc::clone(&self.queries.clock));
        let asking = Asking {
            query: self.id,
            ids: Arc::clone(&self.ids),
            tries: Arc::clone(&self.tries),
            options: &self.request.options,
            collections: self.statement.collections(),
        };
        let calls = Calls::new(in_flight, clock, Arc::clone(&view), deadline);
        AttemptRouter::new(asking, self.queries.routing.clone(), calls, view)
    }

    fn picture(&self, planned: &PlannedQuery, router: &AttemptRouter) -> Picture {
        Picture::new(planned, router, self.queries.ages())
    }

    async fn plan(&self, router: &Arc<AttemptRouter>) -> Result<PlannedQuery> {
        let catalog = self.queries.catalogs.of(router.view());
        let planning = self.queries.engine.plan(self.statement, &catalog, Arc::clone(router) as _);
        match tokio::time::timeout(self.remaining(), planning).await {
            Ok(planned) => planned.map_err(Error::from),
            Err(_) => Err(self.tries.attempts().deadline_exceeded(self.now())),
        }
    }

    /// All rows are there, or as many as the limits allow.
    async fn answered(
        &self,
        planned: &PlannedQuery,
        picture: &Picture,
        rows: Rows,
        mut exceptions: Exceptions,
    ) -> Answer {
        let mut answer = self.blank();
        if let Some(missing) = picture.fill_asked(&mut answer, &self.tries) {
            exceptions.push(&missing);
            picture.causes().into_iter().for_each(metrics::partial_answer);
        }
        self.blame(picture, self.tries.not_made_good(), &mut exceptions);
        miss_clusters(picture, &mut exceptions);
        answer.broker_reduce_time_ms =
            rows.first_at.map(|at| crate::millis(at.elapsed())).unwrap_or_default();
        if let Some(cut) = rows.cut {
            self.cut(&mut answer, &mut exceptions, cut);
        } else {
            let scanned = planned.scanned_rows(FIGURES_PATIENCE.min(self.remaining())).await;
            answer.num_docs_scanned = scanned.unwrap_or_default();
        }
        let is_wanted = exceptions.is_empty() || self.request.options.allow_partial;
        if is_wanted && !picture.is_nobody_to_ask() {
            answer.result_table = ResultTable::new(planned.schema(), rows.batches);
            answer.num_rows_result_set = answer.result_table.as_ref().map_or(0, |table| table.rows() as u64);
        }
        answer.exceptions = exceptions.into_list();
        answer
    }

    fn cut(&self, answer: &mut Answer, exceptions: &mut Exceptions, cut: Cut) {
        metrics::answer_cut();
        answer.partial_result = true;
        exceptions.push(&Error::new(ErrorCode::QueryMemoryLimit, cut.to_string()));
    }

    /// Nodes have no place to give: they are out for this query, and charged with nothing.
    fn crowded(&self, picture: &Picture, refused: Vec<(NodeKey, Error)>) -> Ended {
        let (nodes, mut errors): (Vec<_>, Vec<_>) = refused.into_iter().unzip();
        let full = || Error::new(ErrorCode::ServiceTooManyRequests, "nodes have no place to give");
        let error = errors.pop().unwrap_or_else(full);
        let decision = self.tries.broke(nodes, &error, self.now());
        if decision == Decision::Again {
            metrics::query_retried();
        }
        self.decided(decision, picture)
    }

    fn decided(&self, decision: Decision, picture: &Picture) -> Ended {
        match decision {
            Decision::Again => Ended::Again,
            Decision::GiveUp(error) => {
                let exceptions = Exceptions::from(&error);
                let answer = self.unanswered(picture, UnavailableCause::RetriesUsedUp, exceptions);
                Ended::Answer(Box::new(answer))
            }
        }
    }

    /// The deadline passed. What nodes owe is missing, and what the others gave is the answer if it comes of itself;
    /// without nodes it was the broker that took too long.
    async fn silent(
        &self,
        planned: &PlannedQuery,
        router: &AttemptRouter,
        rows: impl Future<Output = Result<Rows, QueryError>>,
    ) -> Answer {
        let silent = planned.running();
        if silent.is_empty() || planned.stages() == 0 {
            let error = self.tries.attempts().deadline_exceeded(self.now());
            return Answer { exceptions: Exceptions::from(&error).into_list(), ..self.blank() };
        }
        let nodes: Vec<_> = silent.iter().filter_map(|url| router.node(url)).collect();
        let running = nodes.iter().map(|node| node.key.clone()).collect();
        let silence = self.tries.time_is_up(&planned.scans(), &running);
        let charge = Charge::of_silence(silent.len());
        for node in &nodes {
            router.failed(node, charge, "did not answer within a query's deadline");
        }
        let mut names: Vec<_> = nodes.iter().map(|node| node.key.node.to_string()).collect();
        names.sort_unstable();
        let text = format!("{} nodes [{}] did not answer", names.len(), names.join(", "));
        let exceptions = Exceptions::from(&Error::new(ErrorCode::NodeSilent, text));
        let is_answer = silence.rows_count && self.request.options.allow_partial;
        planned.time_is_up();
        let rows = if is_answer { tokio::time::timeout(LAST_ROWS, rows).await.ok() } else { None };
        let picture = self.picture(planned, router);
        match rows {
            Some(Ok(rows)) => self.answered(planned, &picture, rows, exceptions).await,
            _ => self.unanswered(&picture, UnavailableCause::NodeSilent, exceptions),
        }
    }

    /// An error came instead of rows.
    fn broken(&self, planned: &PlannedQuery, router: &AttemptRouter, error: QueryError) -> Result<Ended> {
        let broken = judge(router, error)?;
        let decision = self.tries.verdict().unwrap_or_else(|| self.decide(router, &broken));
        if decision == Decision::Again {
            self.announce(&broken);
        }
        Ok(self.decided(decision, &self.picture(planned, router)))
    }

    /// Tells of the nodes that failed, and asks whether to go on.
    fn decide(&self, router: &AttemptRouter, broken: &Broken) -> Decision {
        for node in &broken.nodes {
            router.failed(node, broken.charge, &broken.evidence);
        }
        let nodes = broken.nodes.iter().map(|node| node.key.clone()).collect();
        self.tries.broke(nodes, &broken.error, self.now())
    }

    fn announce(&self, broken: &Broken) {
        metrics::query_retried();
        let nodes: Vec<_> = broken.nodes.iter().map(|node| node.key.to_string()).collect();
        let (nodes, attempt) = (nodes.join(", "), self.tries.attempts().number());
        let code = broken.error.code().name();
        tracing::warn!(
            query = self.id,
            attempt,
            nodes,
            code,
            "nodes failed under a query; it runs again without them"
        );
        tracing::debug!(query = self.id, message = broken.error.message(), "nodes failed because");
    }

    /// The answer when routing refused all that was asked for, since some of it has nobody.
    fn unroutable(&self, router: &AttemptRouter, error: &Error) -> Answer {
        metrics::no_node_found();
        let (coverage, causes) = picture::unroutable(router.noted().refused, self.queries.ages());
        causes.into_iter().for_each(metrics::partial_answer);
        let coverage = CoverageBody::from(&coverage);
        let exceptions = Exceptions::from(error).into_list();
        Answer { partial_result: true, coverage, exceptions, ..self.blank() }
    }

    /// The answer when nobody is asked, though segments are missing.
    fn refused(&self, picture: &Picture) -> Answer {
        let mut answer = self.blank();
        let missing = picture.fill_refused(&mut answer, &self.tries);
        let mut exceptions = missing.as_ref().map(Exceptions::from).unwrap_or_default();
        self.blame(picture, BTreeMap::new(), &mut exceptions);
        miss_clusters(picture, &mut exceptions);
        answer.exceptions = exceptions.into_list();
        answer
    }

    /// An answer without rows: what was asked of nodes is missing, for this cause.
    fn unanswered(&self, picture: &Picture, cause: UnavailableCause, mut exceptions: Exceptions) -> Answer {
        metrics::partial_answer(cause);
        let mut answer = self.blank();
        if let Some(missing) = picture.fill_asked(&mut answer, &self.tries) {
            exceptions.push(&missing);
        }
        self.blame(picture, BTreeMap::new(), &mut exceptions);
        miss_clusters(picture, &mut exceptions);
        answer.exceptions = exceptions.into_list();
        answer
    }

    /// Nodes that failed and left segments without anybody else stand in the answer.
    fn blame(&self, picture: &Picture, mut failed: BTreeMap<NodeKey, Error>, exceptions: &mut Exceptions) {
        let attempts = self.tries.attempts();
        for node in picture.used_up(attempts.failed_nodes()) {
            failed.extend(attempts.failures().get(node).map(|error| (node.clone(), error.clone())));
        }
        failed.values().for_each(|error| exceptions.push(error));
    }

    fn blank(&self) -> Answer {
        Answer { tables_queried: self.statement.collections().iter().cloned().collect(), ..Answer::default() }
    }

    /// How the last attempt went.
    fn trace(
        &self,
        planned: &PlannedQuery,
        planning: Duration,
        began: Instant,
    ) -> BTreeMap<&'static str, Value> {
        BTreeMap::from([
            ("attempts", json!(self.tries.attempts().number())),
            ("planning_us", json!(planning.as_micros())),
            ("attempt_us", json!(began.elapsed().as_micros())),
            ("stages", json!(planned.stages())),
            ("workers", planned.nodes().iter().map(|url| json!(url.as_str())).collect()),
        ])
    }

    fn now(&self) -> Duration {
        self.queries.clock.mono().since_start()
    }

    fn remaining(&self) -> Duration {
        self.tries.attempts().remaining(self.now())
    }
}

/// Tells of clusters that are missing without a segment that tells of them.
fn miss_clusters(picture: &Picture, exceptions: &mut Exceptions) {
    let missing = picture.missing_clusters();
    missing.iter().for_each(|missing| exceptions.push(missing));
    let causes: BTreeSet<_> = missing.iter().map(Error::code).collect();
    causes.into_iter().for_each(metrics::partial_cluster);
}

/// What became of a query whose task ended without a result: a panic goes on to where panics of queries are caught.
fn query_ended(ended: tokio::task::JoinError) -> QueryError {
    match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => QueryError::Cancelled,
    }
}
