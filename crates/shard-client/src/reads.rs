//! Reads of the leader cache, and the refreshes that they wait for.

use std::{sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, ErrorCode};

use crate::{
    Connect, Leader, LeaderTable, Result, ShardClient, ShardError, ShardListing,
    answer::read_answer,
    cache::{Look, Ticket, refreshed},
    counters::{Caller, add},
    retry::{Limits, Retry},
    runtime::{OutOfTime, within},
    view,
};

/// A call to the coordinator ends after so long, for all who still wait.
const REFRESH_LIMIT: Duration = Duration::from_secs(10);
/// Tries of a read. Against a coordinator that fails at once they take 18 s.
const READ_ATTEMPTS: u64 = 10;

impl<K: Connect> ShardClient<K> {
    /// The leaders of a shard, whatever their scope; an unknown shard has none. One read, without retries.
    ///
    /// # Errors
    /// The coordinator's error, or `deadline_exceeded` when the caller's time is over first.
    pub async fn get_shard(
        &self,
        collection: CollectionId,
        shard: &str,
        with_cache: bool,
        deadline: Option<MonoTime>,
    ) -> Result<Arc<[Leader]>> {
        let table = self.read_once(Caller::Shard, collection, !with_cache, deadline).await?;
        Ok(table.leaders(shard))
    }

    /// The names of a collection's shards, ascending. One read, without retries.
    ///
    /// # Errors
    /// As [`ShardClient::get_shard`].
    pub async fn get_shard_list(
        &self,
        collection: CollectionId,
        with_cache: bool,
        deadline: Option<MonoTime>,
    ) -> Result<Vec<Arc<str>>> {
        let table = self.read_once(Caller::List, collection, !with_cache, deadline).await?;
        Ok(table.names().cloned().collect())
    }

    /// All shards with their leaders. One read, without retries.
    ///
    /// # Errors
    /// As [`ShardClient::get_shard`].
    pub async fn get_shard_table(
        &self,
        collection: CollectionId,
        with_cache: bool,
        deadline: Option<MonoTime>,
    ) -> Result<Arc<LeaderTable>> {
        self.read_once(Caller::Table, collection, !with_cache, deadline).await
    }

    /// A read as requests make it: repeated after a failure, unless the collection is not loaded.
    pub(crate) async fn read(
        &self,
        caller: Caller,
        collection: CollectionId,
        forced: bool,
        Limits { deadline, retries }: Limits,
    ) -> Result<Arc<LeaderTable>> {
        let now = self.now();
        let mut retry = Retry::new(READ_ATTEMPTS, deadline, now)?.until(retries);
        if let Some(table) = self.cached(caller, collection, forced, now) {
            return Ok(table);
        }
        loop {
            let error = match self.read_once(caller, collection, forced, deadline).await {
                Ok(table) => return Ok(table),
                Err(error) => error,
            };
            let is_final = error.code() == ErrorCode::CollectionNotLoaded;
            tracing::debug!(%collection, attempt = retry.failures() + 1, %error, "no shard leaders");
            let now = self.now();
            let pause = retry.failed(error, is_final, now)?;
            self.inner.runtime.sleep_until(now + pause).await;
        }
    }

    /// The leaders of a shard on enabled nodes, and how many stand on disabled ones.
    pub(crate) async fn read_shard(
        &self,
        collection: CollectionId,
        shard: &str,
        forced: bool,
        limits: Limits,
    ) -> Result<(Arc<[Leader]>, usize)> {
        let table = self.read(Caller::Shard, collection, forced, limits).await?;
        let listed = table.leaders(shard);
        let count = listed.len();
        let enabled = view::enabled(&*self.inner.view, listed);
        let disabled = count - enabled.len();
        Ok((enabled, disabled))
    }

    /// The entry of the cache, for a read that may take it.
    fn cached(
        &self,
        caller: Caller,
        collection: CollectionId,
        forced: bool,
        now: MonoTime,
    ) -> Option<Arc<LeaderTable>> {
        let table = if forced { None } else { self.inner.cache.touch(collection, now) }?;
        self.inner.counters.read(caller, true);
        Some(table)
    }

    async fn read_once(
        &self,
        caller: Caller,
        collection: CollectionId,
        forced: bool,
        deadline: Option<MonoTime>,
    ) -> Result<Arc<LeaderTable>> {
        let now = self.now();
        if let Some(table) = self.cached(caller, collection, forced, now) {
            return Ok(table);
        }
        self.inner.counters.read(caller, self.inner.cache.has(collection));
        let (answer, start) = match self.inner.cache.look(collection, forced, now) {
            Look::Table(table) => return Ok(table),
            Look::Wait { answer, start } => (answer, start),
        };
        if let Some(ticket) = start {
            let client = self.clone();
            self.inner.runtime.spawn(Box::pin(async move { client.refresh(ticket).await }));
        }
        match within(&*self.inner.runtime, deadline, answer).await {
            Ok(answer) => refreshed(answer),
            Err(OutOfTime) => Err(ShardError::deadline("the coordinator has not told the shard leaders yet")),
        }
    }

    /// The call belongs to nobody, so it runs in a task of its own.
    async fn refresh(&self, ticket: Ticket) {
        let collection = ticket.collection;
        let limit = self.now() + REFRESH_LIMIT;
        let answer =
            within(&*self.inner.runtime, Some(limit), self.inner.coordinator.shard_leaders(collection)).await;
        let answer = answer.unwrap_or_else(|OutOfTime| {
            Err(ShardError::deadline(format_args!("the coordinator did not answer within {REFRESH_LIMIT:?}")))
        });
        let answer = answer.map(|listings| self.table(collection, listings));
        ticket.finish(answer, self.now());
    }

    fn table(&self, collection: CollectionId, listings: Vec<ShardListing>) -> Arc<LeaderTable> {
        let mut led = listings.iter().filter(|listing| !listing.node_ids.is_empty()).peekable();
        if led.peek().is_some() {
            self.inner.counters.tags(led.any(|listing| !listing.resource_groups.is_empty()));
        }
        let answer = read_answer(listings);
        let (misaligned, malformed) = (&answer.misaligned_tags, &answer.malformed_lists);
        add(&self.inner.counters.misaligned_tags, misaligned.len());
        add(&self.inner.counters.malformed_lists, malformed.len());
        if !(misaligned.is_empty() && malformed.is_empty()) && self.inner.warnings.may_warn(self.now()) {
            tracing::warn!(
                %collection, ?misaligned, ?malformed,
                "the coordinator's lists of shard leaders do not fit together: the groups of misaligned shards are \
                 unknown, malformed shards have no leader"
            );
        }
        Arc::new(answer.table)
    }
}
