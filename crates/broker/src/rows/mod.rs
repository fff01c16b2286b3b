//! Requests by shard: a question to all shards of a collection, and one answer of theirs.

mod alike;
mod find;
mod grpc;
mod json;
mod merged;
mod request;
mod said;

use std::{sync::Arc, time::Duration};

use pointsman_clock::{Clock, MonoTime};
use pointsman_engine::rows::Checked;
use pointsman_failure_detector::SuspicionCause;
use pointsman_ids::{
    Error, ErrorCode,
    feed::CollectionEntry,
    request::{Question, Table},
};
use pointsman_program::QueryThreads;
use pointsman_routing::Routing;
use pointsman_settings::QuerySettings;
use pointsman_shard_client::{Answered, CollectionWorkload, Runtime, ShardError};
use tokio::time::timeout;

use crate::{
    metrics::{self, Outcome},
    query::Admission,
    shards::{Ask, ShardAnswer, Shards},
};

pub(crate) use grpc::{MAX_REQUEST, RowsService};
pub(crate) use json::{ErrorBody, RowsBody};
pub(crate) use merged::Merged;
pub(crate) use request::{Kind, Options, from_json};
pub(crate) use said::Coverage;

/// Result of a request by shard: its errors keep what a node or the coordinator said of them.
pub(crate) type Result<T, E = ShardError> = std::result::Result<T, E>;

/// Answers requests by shard. Dropping the future of one stops its work everywhere, and leaves no count behind.
#[derive(Debug)]
pub(crate) struct RowRequests {
    settings: QuerySettings,
    /// Of requests that name none; `""`: none.
    preferred_group: String,
    clock: Arc<dyn Clock>,
    routing: Routing,
    shards: Shards,
    admission: Arc<Admission>,
    threads: QueryThreads,
}

/// What requests by shard stand on.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) settings: QuerySettings,
    /// Resource group that is asked first when a request names none; `""`: none.
    pub(crate) preferred_group: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) routing: Routing,
    pub(crate) shards: Shards,
    /// Shared with queries.
    pub(crate) admission: Arc<Admission>,
    pub(crate) threads: QueryThreads,
}

/// Rows, and who they are from.
#[derive(Debug)]
pub(crate) struct RowsAnswer {
    pub(crate) rows: Merged,
    pub(crate) coverage: Coverage,
}

impl RowRequests {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { settings, preferred_group, clock, routing, shards, admission, threads } = parts;
        Self { settings, preferred_group, clock, routing, shards, admission, threads }
    }

    /// The shard client, for people.
    pub(crate) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Answers a question about the rows of a collection. `question` is made once the collection is known.
    ///
    /// # Errors
    /// `collection_not_found`, `resource_group_not_found`, and what the question itself does wrong;
    /// `service_too_many_requests`; those of [`pointsman_shard_client::ShardClient::execute`];
    /// `collection_not_fully_loaded` when shards do not come to one target; `parameter_too_large` for an answer over the
    /// broker's limits.
    pub(crate) async fn answer(
        &self,
        kind: Kind,
        collection: &str,
        options: &Options,
        question: impl FnOnce(&CollectionEntry) -> pointsman_ids::Result<Question> + Send,
    ) -> Result<RowsAnswer> {
        let mut ending =
            Ending { kind, outcome: Outcome::Cancelled, started: self.clock.mono(), clock: &*self.clock };
        let answered = self.run(collection, options, question).await;
        ending.outcome = match &answered {
            Ok(_) => Outcome::Complete,
            Err(error) if error.is_input() || error.code() == ErrorCode::CollectionNotFound => {
                Outcome::Refused
            }
            Err(_) => Outcome::Failed,
        };
        if let Err(error) = &answered {
            tracing::info!(kind = kind.as_str(), code = %error.code(), "a request by shard failed");
            tracing::debug!(kind = kind.as_str(), collection, %error, "a request by shard failed because");
        }
        answered
    }

    async fn run(
        &self,
        collection: &str,
        options: &Options,
        question: impl FnOnce(&CollectionEntry) -> pointsman_ids::Result<Question> + Send,
    ) -> Result<RowsAnswer> {
        let view = self.routing.view();
        let entry = find::collection(&view, self.routing.is_ready(), collection)?;
        find::scope(&view, entry, options.resource_group.as_ref())?;
        let preferred_group = match &options.preferred_group {
            Some(group) => find::group(&view, group)?.name.as_str(),
            None => &*self.preferred_group,
        };
        let limit = options.timeout.or(entry.query_timeout).unwrap_or(self.settings.timeout);
        let deadline = self.shards.runtime.now() + limit;
        let _place = self.admit(limit).await?;
        let (table, question) = (Table::from(&**entry), question(entry)?);
        let (checked, ask) = self.check(table, question).await?;
        let workload = CollectionWorkload {
            database: view.cluster().as_str().into(),
            name: entry.name.as_str().into(),
            collection: entry.id,
            nq: i64::try_from(ask.nq).unwrap_or(i64::MAX),
            request: Arc::new(ask.ask),
            resource_group: options
                .resource_group
                .as_ref()
                .map(|group| group.as_str())
                .unwrap_or_default()
                .into(),
            preferred: None,
            preferred_group: preferred_group.into(),
        };
        let answered = self.ask(&workload, deadline).await?;
        let coverage = Coverage::of(&view, entry, &self.shards.nodes, &answered);
        coverage.groups().for_each(metrics::shard_answered);
        let rows = answered.into_iter().map(|shard| (shard.shard, shard.answer.rows)).collect();
        Ok(RowsAnswer { rows: self.merge(checked, rows).await?, coverage })
    }

    /// Waits for a place, which queries take as well.
    async fn admit(&self, limit: Duration) -> Result<crate::query::Place> {
        match timeout(limit, self.admission.enter()).await {
            Ok(place) => Ok(place?),
            Err(_) => {
                let text = format!(
                    "the request's timeout of {limit:?} passed while it waited for a place to run in"
                );
                Err(ShardError::new(ErrorCode::DeadlineExceeded, text))
            }
        }
    }

    /// Checks the question where queries compute: a condition is parsed and planned.
    async fn check(&self, table: Table, question: Question) -> Result<(Checked, Asked)> {
        let shards = self.shards.clone();
        let checking = self.threads.spawn(async move {
            let asked = Asked { nq: question.nq(), ask: Ask::new(&shards, &table, &question) };
            let checked = Checked::new(question, &table)?;
            Ok::<_, Error>((checked, asked))
        });
        Ok(checking.await.map_err(broke_off)??)
    }

    /// Asks all shards, until all have answered from one target.
    async fn ask(
        &self,
        workload: &CollectionWorkload<Ask>,
        deadline: MonoTime,
    ) -> Result<Vec<Answered<ShardAnswer>>> {
        let answered = match self.shards.client.execute(workload, Some(deadline)).await {
            Ok(answered) => alike::alike(&self.shards.client, workload, answered, deadline).await,
            Err(error) => Err(error),
        };
        if answered.is_err()
            && let Some(node) = workload.request.only_silent()
        {
            self.shards.nodes.report_suspicious(
                node,
                SuspicionCause::Silent,
                "no answer within a request's time",
            );
        }
        answered
    }

    /// Makes one answer of those of the shards, where queries compute.
    async fn merge(&self, checked: Checked, rows: Vec<(Arc<str>, Vec<u8>)>) -> Result<Merged> {
        let limits = (self.settings.max_result_rows, self.settings.max_result_bytes.as_usize());
        let merging = self.threads.spawn(async move { Merged::of(&checked, rows, limits) });
        Ok(merging.await.map_err(broke_off)??)
    }
}

/// A question on its way, with the measure of its work.
struct Asked {
    nq: usize,
    ask: Ask,
}

fn broke_off(error: tokio::task::JoinError) -> ShardError {
    tracing::error!(%error, "work on a request by shard broke off");
    ShardError::new(
        ErrorCode::ServiceInternal,
        "the request broke an invariant of the broker; its log says more",
    )
}

/// Counts a request's end, whatever it is: a future that is dropped counts as cancelled.
struct Ending<'a> {
    kind: Kind,
    outcome: Outcome,
    started: MonoTime,
    clock: &'a dyn Clock,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        metrics::shard_request_ended(self.kind.as_str(), self.outcome, self.clock.mono() - self.started);
    }
}
