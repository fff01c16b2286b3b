//! One query while it runs: attempt after attempt, until there is an answer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_engine::{PlannedQuery, QueryError, Statement};
use pointsman_ids::{Error, ErrorCode, NodeKey, Result, UnavailableCause};
use pointsman_routing::RequestIds;
use pointsman_scatter::{Attempts, Decision, Limits};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    answer::{Answer, Exceptions, ResultTable},
    metrics,
    request::QueryRequest,
};

use super::{
    Queries,
    broken::{Broken, judge},
    calls::Calls,
    collect::{self, Cut, Rows, collect},
    picture::Picture,
    reports::Charge,
    router::AttemptRouter,
};

/// How long an answer waits for the nodes' figures once all rows are there.
const FIGURES_PATIENCE: Duration = Duration::from_millis(20);

/// One query, from the moment it has a place.
#[derive(Debug)]
pub(super) struct Running<'a> {
    queries: &'a Queries,
    id: &'a str,
    request: &'a QueryRequest,
    statement: &'a Statement,
    /// One id per collection, for all attempts.
    ids: Arc<RequestIds>,
    attempts: Attempts,
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
        let attempts = Attempts::new(limits, started.since_start());
        Self { queries, id, request, statement, ids: Arc::default(), attempts }
    }

    /// Runs the query until there is an answer.
    ///
    /// # Errors
    /// The query's own, and those of routing.
    pub(super) async fn run(mut self) -> Result<Answer> {
        loop {
            if let Ended::Answer(answer) = self.attempt().await? {
                return Ok(*answer);
            }
        }
    }

    /// One attempt with one view, from planning to the last row.
    async fn attempt(&mut self) -> Result<Ended> {
        let router = Arc::new(self.router());
        let began = Instant::now();
        let planned = Arc::new(self.plan(&router).await?);
        let planning = began.elapsed();
        let picture = self.picture(&planned, &router);
        if picture.is_nobody_to_ask() {
            metrics::no_node_found();
        }
        if picture.is_nobody_to_ask() || (picture.is_partial() && !self.request.options.allow_partial) {
            picture.causes().into_iter().for_each(metrics::partial_answer);
            return Ok(Ended::Answer(Box::new(self.refused(&picture))));
        }
        if let Err(refused) = router.calls().begin(picture.nodes()).await {
            return self.crowded(&picture, refused);
        }
        let limits = collect::Limits::from(&self.queries.settings);
        let running = {
            let planned = Arc::clone(&planned);
            self.queries.threads.spawn(async move { collect(planned.execute()?, limits).await })
        };
        // The deadline is kept here, where nothing computes.
        let rows = async { running.await.unwrap_or_else(|ended| Err(query_ended(ended))) };
        let answer = match tokio::time::timeout(self.remaining(), rows).await {
            Ok(Ok(rows)) => {
                picture.nodes().into_iter().for_each(|node| router.answered(node));
                self.answered(&planned, &picture, rows).await
            }
            Ok(Err(error)) => return self.broken(&router, &picture, error),
            Err(_) => self.silent(&planned, &router, &picture),
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
        AttemptRouter::new(
            self.id,
            self.queries.routing.clone(),
            Calls::new(in_flight, clock, Arc::clone(&view), deadline),
            view,
            Arc::clone(&self.ids),
            self.attempts.failed_nodes().clone(),
            &self.request.options,
            self.statement.collections(),
        )
    }

    fn picture(&self, planned: &PlannedQuery, router: &AttemptRouter) -> Picture {
        Picture::new(planned, router, self.queries.ages())
    }

    async fn plan(&self, router: &Arc<AttemptRouter>) -> Result<PlannedQuery> {
        let catalog = self.queries.catalogs.of(router.view());
        let planning = self.queries.engine.plan(self.statement, &catalog, Arc::clone(router) as _);
        match tokio::time::timeout(self.remaining(), planning).await {
            Ok(planned) => planned.map_err(Error::from),
            Err(_) => Err(self.attempts.deadline_exceeded(self.now())),
        }
    }

    /// All rows are there, or as many as the limits allow.
    async fn answered(&self, planned: &PlannedQuery, picture: &Picture, rows: Rows) -> Answer {
        let mut answer = self.blank();
        let mut exceptions = Exceptions::default();
        if let Some(missing) = picture.fill_answered(&mut answer, self.attempts.failed_nodes()) {
            exceptions.push(&missing);
            picture.causes().into_iter().for_each(metrics::partial_answer);
        }
        self.blame(picture, &mut exceptions);
        picture.missing_clusters().iter().for_each(|missing| exceptions.push(missing));
        answer.broker_reduce_time_ms =
            rows.first_at.map(|at| crate::millis(at.elapsed())).unwrap_or_default();
        if let Some(cut) = rows.cut {
            self.cut(&mut answer, &mut exceptions, cut);
        } else {
            let scanned = planned.scanned_rows(FIGURES_PATIENCE.min(self.remaining())).await;
            answer.num_docs_scanned = scanned.unwrap_or_default();
        }
        if exceptions.is_empty() || self.request.options.allow_partial {
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
    fn crowded(&mut self, picture: &Picture, refused: Vec<(NodeKey, Error)>) -> Result<Ended> {
        let now = self.now();
        match self.attempts.failed(refused, now) {
            Decision::Again => {
                metrics::query_retried();
                Ok(Ended::Again)
            }
            Decision::GiveUp(error) => {
                let exceptions = Exceptions::from(&error);
                let answer = self.unanswered(picture, UnavailableCause::RetriesUsedUp, exceptions);
                Ok(Ended::Answer(Box::new(answer)))
            }
        }
    }

    /// The deadline passed. What the nodes owe is missing; without nodes it was the broker that took too long.
    fn silent(&self, planned: &PlannedQuery, router: &AttemptRouter, picture: &Picture) -> Answer {
        let silent = planned.running();
        if silent.is_empty() || planned.stages() == 0 {
            let error = self.attempts.deadline_exceeded(self.now());
            return Answer { exceptions: Exceptions::from(&error).into_list(), ..self.blank() };
        }
        let nodes: Vec<_> = silent.iter().filter_map(|url| router.node(url)).collect();
        let charge = Charge::of_silence(silent.len());
        for node in &nodes {
            router.failed(node, charge, "did not answer within a query's deadline");
        }
        let names: Vec<_> = nodes.iter().map(|node| node.key.node.to_string()).collect();
        let text = format!("{} nodes [{}] did not answer", names.len(), names.join(", "));
        let exceptions = Exceptions::from(&Error::new(ErrorCode::NodeSilent, text));
        self.unanswered(picture, UnavailableCause::NodeSilent, exceptions)
    }

    /// An error came instead of rows.
    fn broken(&mut self, router: &AttemptRouter, picture: &Picture, error: QueryError) -> Result<Ended> {
        let broken = judge(router, error)?;
        for node in &broken.nodes {
            router.failed(node, broken.charge, broken.error.message());
        }
        match self.decide(&broken) {
            Decision::Again => {
                self.announce(&broken);
                Ok(Ended::Again)
            }
            Decision::GiveUp(error) => {
                let answer =
                    self.unanswered(picture, UnavailableCause::RetriesUsedUp, Exceptions::from(&error));
                Ok(Ended::Answer(Box::new(answer)))
            }
        }
    }

    /// Asks whether to go on.
    fn decide(&mut self, broken: &Broken) -> Decision {
        let now = self.now();
        if broken.nodes.is_empty() {
            return self.attempts.lagged(broken.error.clone(), now);
        }
        let failed = broken.nodes.iter().map(|node| (node.key.clone(), broken.error.clone()));
        self.attempts.failed(failed, now)
    }

    fn announce(&self, broken: &Broken) {
        metrics::query_retried();
        let nodes: Vec<_> = broken.nodes.iter().map(|node| node.key.to_string()).collect();
        let (nodes, attempt) = (nodes.join(", "), self.attempts.number());
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

    /// The answer when nobody is asked, though segments are missing.
    fn refused(&self, picture: &Picture) -> Answer {
        let mut answer = self.blank();
        let missing = picture.fill_refused(&mut answer, self.attempts.failed_nodes());
        let mut exceptions = missing.as_ref().map(Exceptions::from).unwrap_or_default();
        self.blame(picture, &mut exceptions);
        picture.missing_clusters().iter().for_each(|missing| exceptions.push(missing));
        answer.exceptions = exceptions.into_list();
        answer
    }

    /// An answer without rows: what was asked of nodes is missing, for this cause.
    fn unanswered(&self, picture: &Picture, cause: UnavailableCause, mut exceptions: Exceptions) -> Answer {
        metrics::partial_answer(cause);
        let mut answer = self.blank();
        if let Some(missing) = picture.fill_unanswered(&mut answer, self.attempts.failed_nodes(), cause) {
            exceptions.push(&missing);
        }
        self.blame(picture, &mut exceptions);
        picture.missing_clusters().iter().for_each(|missing| exceptions.push(missing));
        answer.exceptions = exceptions.into_list();
        answer
    }

    /// Nodes that failed and left segments without anybody else stand in the answer.
    fn blame(&self, picture: &Picture, exceptions: &mut Exceptions) {
        let failures = self.attempts.failures();
        let used_up = picture.used_up(self.attempts.failed_nodes());
        used_up.into_iter().filter_map(|node| failures.get(node)).for_each(|error| exceptions.push(error));
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
            ("attempts", json!(self.attempts.number())),
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
        self.attempts.remaining(self.now())
    }
}

/// What became of a query whose task ended without a result: a panic goes on to where panics of queries are caught.
fn query_ended(ended: tokio::task::JoinError) -> QueryError {
    match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => QueryError::Cancelled,
    }
}
