//! Running a request on one shard, on all, or on any.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt, stream::FuturesUnordered};
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, ErrorCode, NodeId};

use crate::{
    Answered, CollectionWorkload, Connect, Leader, LeaderTable, Reply, Request, Result, ShardClient,
    ShardError, ShardWorkload, Visit,
    candidates::outside_scope,
    causes::Seen,
    counters::{Caller, add},
    one_shard::{Blame, OneShard},
    pool::NoClient,
    retry::{Limits, Retry},
    runtime::{OutOfTime, within},
    view,
};

/// More shards than a person reads about.
const MOST_SHARDS: usize = 8;

/// An attempt that failed.
struct Failed {
    error: ShardError,
    /// No other attempt can help.
    is_final: bool,
    /// The node that was asked, for logs.
    node: Option<NodeId>,
}

impl From<ShardError> for Failed {
    fn from(error: ShardError) -> Self {
        Self { error, is_final: false, node: None }
    }
}

impl<K: Connect> ShardClient<K> {
    /// Runs a request on every shard that the collection has, at the same time, and waits for all. The answers come by
    /// name of the shard; there is one for each shard, or an error: never a part of them. Dropping the future ends the
    /// request and leaves no trace in any books.
    ///
    /// # Errors
    /// That of the shard that failed first; `collection_not_loaded` when no shard is listed.
    pub async fn execute<R: Request<K::Connection>>(
        &self,
        workload: &CollectionWorkload<R>,
        deadline: Option<MonoTime>,
    ) -> Result<Vec<Answered<R::Answer>>> {
        let limits = self.limits(deadline);
        let table = self.read(Caller::List, workload.collection, false, limits).await?;
        let shards: Vec<_> = table.names().map(|shard| self.shard_workload(workload, shard)).collect();
        match &shards[..] {
            [] => Err(no_shard(workload, ErrorCode::CollectionNotLoaded)),
            [only] => Ok(vec![self.run(only, limits).await?]),
            all => self.fan_out(all, limits).await,
        }
    }

    async fn fan_out<R: Request<K::Connection>>(
        &self,
        shards: &[ShardWorkload<R>],
        limits: Limits,
    ) -> Result<Vec<Answered<R::Answer>>> {
        let run = async |at: usize, shard| (at, self.run(shard, limits).await);
        let mut running: FuturesUnordered<_> =
            shards.iter().enumerate().map(|(at, shard)| run(at, shard)).collect();
        let mut answers: Vec<Option<Answered<R::Answer>>> = shards.iter().map(|_| None).collect();
        let mut first: Option<((MonoTime, usize), ShardError)> = None;
        while let Some((at, outcome)) = running.next().await {
            match outcome {
                Ok(answer) => {
                    if let Some(place) = answers.get_mut(at) {
                        *place = Some(answer);
                    }
                }
                Err(error) => {
                    let when = (self.now(), at);
                    if first.as_ref().is_none_or(|(earliest, _)| when < *earliest) {
                        first = Some((when, error));
                    }
                }
            }
        }
        match first {
            Some((_, error)) => Err(error),
            None => Ok(answers.into_iter().flatten().collect()),
        }
    }

    /// Runs a request that any shard can answer: without a scope on the first shard by name, whatever comes of it; in a
    /// scope on the first of the shards with a leader there that is not refused for want of one.
    ///
    /// # Errors
    /// That of the shard; `service_unavailable` when no shard is listed, which passes; `collection_not_fully_loaded` when
    /// no shard has a leader in the scope.
    pub async fn execute_one_shard<R: Request<K::Connection>>(
        &self,
        workload: &CollectionWorkload<R>,
        deadline: Option<MonoTime>,
    ) -> Result<Answered<R::Answer>> {
        let limits = self.limits(deadline);
        if workload.resource_group.is_empty() {
            let table = self.read(Caller::List, workload.collection, false, limits).await?;
            let first = table.names().next();
            let shard = first.ok_or_else(|| no_shard(workload, ErrorCode::ServiceUnavailable))?;
            return self.run(&self.shard_workload(workload, shard), limits).await;
        }
        let table = self.read(Caller::Table, workload.collection, true, limits).await?;
        let group = &*workload.resource_group;
        let mut refusal = None;
        for (shard, leaders) in table.shards() {
            if !view::enabled(&*self.inner.view, leaders.clone()).iter().any(|leader| leader.is_in(group)) {
                continue;
            }
            match self.run(&self.shard_workload(workload, shard), limits).await {
                Err(error) if error.code() == ErrorCode::CollectionNotFullyLoaded => refusal = Some(error),
                outcome => return outcome,
            }
        }
        Err(refusal.unwrap_or_else(|| self.nobody_in_scope(workload, &table)))
    }

    /// The request to one shard, with the node that is preferred there.
    pub fn shard_workload<R>(&self, workload: &CollectionWorkload<R>, shard: &Arc<str>) -> ShardWorkload<R> {
        let preferred = workload.preferred.as_ref().map(|preferred| preferred.get(shard).copied());
        if preferred == Some(None) {
            add(&self.inner.counters.preferred_miss, 1);
        }
        workload.for_shard(shard, preferred.flatten())
    }

    /// Runs a request on a leader of one shard, and on others while that fails and attempts are left.
    ///
    /// # Errors
    /// What the last node said, or why none could be asked. An input error comes at once and as the node said it.
    pub async fn execute_shard<R: Request<K::Connection>>(
        &self,
        workload: &ShardWorkload<R>,
        deadline: Option<MonoTime>,
    ) -> Result<Answered<R::Answer>> {
        self.run(workload, self.limits(deadline)).await
    }

    /// The limits of a request that begins now.
    pub(crate) fn limits(&self, deadline: Option<MonoTime>) -> Limits {
        let retry_time = self.inner.settings.retry_time;
        Limits { deadline, retries: (!retry_time.is_zero()).then(|| self.now() + retry_time) }
    }

    async fn run<R: Request<K::Connection>>(
        &self,
        workload: &ShardWorkload<R>,
        limits: Limits,
    ) -> Result<Answered<R::Answer>> {
        let (leaders, _) = self.read_shard(workload.collection, &workload.shard, false, limits).await?;
        let attempts = self.inner.settings.attempts(leaders.len());
        let mut retry = Retry::new(attempts, limits.deadline, self.now())?.until(limits.retries);
        let mut request = OneShard::new(leaders);
        loop {
            let looking = if retry.failures() == 0 { limits } else { limits.of_a_retry() };
            let attempt = self.attempt(workload, &mut request, looking, limits.deadline);
            let Failed { error, is_final, node } = match attempt.await {
                Ok(answered) => return Ok(answered),
                Err(failed) => failed,
            };
            tracing::debug!(
                database = %workload.database, collection = %workload.name, shard = %workload.shard, ?node,
                attempt = retry.failures() + 1, left_out = ?request.out, code = %error.code(), %error,
                "an attempt failed"
            );
            let now = self.now();
            let pause = retry.failed(error, is_final, now);
            let pause = pause.map_err(|error| self.with_causes(error, workload, &request))?;
            self.inner.runtime.sleep_until(now + pause).await;
        }
    }

    /// One attempt: whom to ask is found out within the limits, and the node answers within the deadline.
    async fn attempt<R: Request<K::Connection>>(
        &self,
        workload: &ShardWorkload<R>,
        request: &mut OneShard,
        looking: Limits,
        deadline: Option<MonoTime>,
    ) -> Result<Answered<R::Answer>, Failed> {
        let (collection, shard, group) = (workload.collection, &workload.shard, &*workload.resource_group);
        if request.wants_fresh_leaders(group) {
            let read = self.read_shard(collection, shard, true, looking).await;
            let (leaders, _) = read.map_err(|error| request.not_refreshed(error))?;
            request.refreshed(leaders, group);
        }
        let mut excluded: BTreeSet<NodeId> = request.out.keys().copied().collect();
        self.inner.blacklist.extend(&mut excluded, collection, shard, || self.now());
        let selected = self.select(workload, &mut excluded, looking).await;
        // Work at the balancer ends with the attempt, whichever way that ends.
        let selected = selected.map_err(|error| request.not_selected(error, group))?;
        let node = selected.leader.node;
        let visit = workload.visit(&selected.leader, deadline);
        let begun = self.now();
        let visited = self.visit(workload, &visit).await;
        workload.request.ended(&visit, visited.as_ref().err().map(|(error, _)| error), self.now() - begun);
        let (error, blame) = match visited {
            Ok(Reply { answer, cost }) => {
                if let Some(cost) = cost {
                    self.inner.balancer.report_cost(node, cost, self.now());
                }
                self.ended(node, false);
                let fell_back = workload.falls_back(&selected.leader);
                return Ok(Answered { shard: shard.clone(), node, fell_back, answer });
            }
            Err(failed) => failed,
        };
        match blame {
            Some(Blame::Request) => return Err(Failed { error, is_final: true, node: Some(node) }),
            Some(Blame::LeaveOut) => drop(request.out.insert(node, error.code())),
            Some(Blame::Blacklist) => self.inner.blacklist.add(collection, shard, node, self.now()),
            None => {}
        }
        if blame.is_some() {
            self.ended(node, true);
        }
        let shows_stale_table =
            matches!(error.code(), ErrorCode::CollectionNotLoaded | ErrorCode::ChannelMisrouted);
        if self.inner.settings.invalidate_on_misrouted && shows_stale_table {
            self.inner.cache.invalidate(&[collection]);
        }
        Err(Failed { error: request.failed(error, shard, node), is_final: false, node: Some(node) })
    }

    fn ended(&self, node: NodeId, failed: bool) {
        if self.inner.settings.failures_as_cost {
            self.inner.balancer.ended(node, failed);
        }
    }

    /// Adds to a refusal what was seen of the shard's leaders, where that is wanted.
    fn with_causes<R>(
        &self,
        error: ShardError,
        workload: &ShardWorkload<R>,
        request: &OneShard,
    ) -> ShardError {
        let refused =
            matches!(error.code(), ErrorCode::CollectionNotFullyLoaded | ErrorCode::ChannelNotAvailable);
        if !self.inner.settings.causes || !refused || error.is_input() {
            return error;
        }
        let (collection, shard) = (workload.collection, &workload.shard);
        let table = self.inner.cache.touch(collection, self.now()).unwrap_or_default();
        let leaders = table.leaders(shard);
        error.because(self.seen(collection, shard, &leaders, &workload.resource_group, &request.out))
    }

    /// The refusal of a scope in which nobody leads any shard.
    fn nobody_in_scope<R>(&self, workload: &CollectionWorkload<R>, table: &LeaderTable) -> ShardError {
        let (collection, group) = (workload.collection, &*workload.resource_group);
        let refusal = outside_scope(&workload.name, collection, None, group);
        if !self.inner.settings.causes {
            return refusal;
        }
        let seen = |(shard, leaders): (&Arc<str>, &Arc<[Leader]>)| {
            format!("shard '{shard}': {}", self.seen(collection, shard, leaders, group, &BTreeMap::new()))
        };
        let mut texts: Vec<String> = table.shards().take(MOST_SHARDS).map(seen).collect();
        let more = table.names().len() - texts.len();
        texts.extend((more > 0).then(|| format!("and {more} more shards")));
        if texts.is_empty() {
            refusal.because("no shard is listed")
        } else {
            refusal.because(texts.join("; "))
        }
    }

    fn seen(
        &self,
        collection: CollectionId,
        shard: &str,
        leaders: &[Leader],
        group: &str,
        out: &BTreeMap<NodeId, ErrorCode>,
    ) -> String {
        let now = self.now();
        let blacklisted = self.inner.blacklist.listed(collection, now);
        let (blacklisted, view) = (blacklisted.get(shard), &*self.inner.view);
        Seen { leaders, group, out, blacklisted, view, now }.text()
    }

    /// Asks a node. Its error comes with who is to blame; nobody is when the caller's time was over before it was asked.
    async fn visit<R: Request<K::Connection>>(
        &self,
        workload: &ShardWorkload<R>,
        visit: &Visit,
    ) -> Result<Reply<R::Answer>, (ShardError, Option<Blame>)> {
        let connection = match self.inner.pools.get(visit.node, &visit.address, visit.deadline).await {
            Ok(connection) => connection,
            Err(NoClient::OutOfTime) => {
                return Err((ShardError::deadline("no connection could be had in time"), None));
            }
            Err(NoClient::Failed(cause)) => {
                let text = format!("no client to {}: {cause}", visit.address);
                let error = ShardError::new(ErrorCode::NodeNotAvailable, text);
                return Err((error, Some(Blame::Blacklist)));
            }
        };
        let answer =
            within(&*self.inner.runtime, visit.deadline, workload.request.run(connection, visit)).await;
        let answer =
            answer.unwrap_or_else(|OutOfTime| Err(ShardError::deadline("the node has not answered")));
        answer.map_err(|error| {
            let blame = Blame::of(&error);
            (error, Some(blame))
        })
    }
}

fn no_shard<R>(workload: &CollectionWorkload<R>, code: ErrorCode) -> ShardError {
    let text = format!("no shard of collection '{}' ({}) is listed", workload.name, workload.collection);
    ShardError::new(code, text)
}
