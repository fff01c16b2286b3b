//! Refreshes under way: who waits for which, and whose answer may be kept.

use std::{collections::BTreeMap, sync::Arc};

use futures::{
    FutureExt,
    channel::oneshot::{self, Canceled},
    future::Shared,
};
use pointsman_clock::MonoTime;
use pointsman_ids::CollectionId;

use super::LeaderCache;
use crate::{LeaderTable, ShardError};

/// What a refresh brings.
pub(crate) type Refreshed = Result<Arc<LeaderTable>, ShardError>;

/// Waits for a refresh. [`Canceled`]: its task ended without an answer.
pub(crate) type Waiting = Shared<oneshot::Receiver<Refreshed>>;

type Token = u64;

#[derive(Debug, Default)]
pub(super) struct Flights {
    taken_off: Token,
    /// The newest refresh of a collection, as long as it is under way and nothing was invalidated.
    newest: BTreeMap<CollectionId, Token>,
    /// Refreshes that readers may join, by collection and whether they are past the cache.
    open: BTreeMap<(CollectionId, bool), (Token, Waiting)>,
}

impl Flights {
    /// The refresh to wait for; with the token and the sender of a new one, which the caller has to start.
    pub(super) fn join_or_take_off(
        &mut self,
        collection: CollectionId,
        forced: bool,
    ) -> (Waiting, Option<(Token, oneshot::Sender<Refreshed>)>) {
        if let Some((_, waiting)) = self.open.get(&(collection, forced)) {
            return (waiting.clone(), None);
        }
        self.taken_off += 1;
        let token = self.taken_off;
        let (sender, receiver) = oneshot::channel();
        let waiting = receiver.shared();
        self.newest.insert(collection, token);
        self.open.insert((collection, forced), (token, waiting.clone()));
        (waiting, Some((token, sender)))
    }

    /// Ends a refresh; whether it was the newest.
    pub(super) fn land(&mut self, collection: CollectionId, forced: bool, token: Token) -> bool {
        if self.open.get(&(collection, forced)).is_some_and(|(open, _)| *open == token) {
            self.open.remove(&(collection, forced));
        }
        let is_newest = self.newest.get(&collection) == Some(&token);
        if is_newest {
            self.newest.remove(&collection);
        }
        is_newest
    }

    /// No refresh that is under way is the newest any more, and none is joined.
    pub(super) fn invalidate(&mut self, collection: CollectionId) {
        self.newest.remove(&collection);
        self.open.remove(&(collection, false));
        self.open.remove(&(collection, true));
    }

    /// The same for all collections.
    pub(super) fn invalidate_all(&mut self) {
        self.newest.clear();
        self.open.clear();
    }
}

/// The right and the duty to refresh a collection. Dropped before its end, it lets the next reader start anew.
#[derive(Debug)]
pub(crate) struct Ticket {
    cache: Arc<LeaderCache>,
    pub(crate) collection: CollectionId,
    pub(super) forced: bool,
    pub(super) token: Token,
    sender: Option<oneshot::Sender<Refreshed>>,
}

impl Ticket {
    pub(super) fn new(
        cache: Arc<LeaderCache>,
        collection: CollectionId,
        forced: bool,
        token: Token,
        sender: oneshot::Sender<Refreshed>,
    ) -> Self {
        Self { cache, collection, forced, token, sender: Some(sender) }
    }

    /// Hands the answer to those who wait for it, and to the cache if it may keep it.
    pub(crate) fn finish(mut self, answer: Refreshed, now: MonoTime) {
        if let Some(sender) = self.sender.take() {
            self.cache.land(&self, answer.as_ref().ok(), now);
            // All who waited may have left.
            let _ = sender.send(answer);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.cache.land(self, None, MonoTime::default());
        }
    }
}

/// What a waiter is told when the task of its refresh was ended.
pub(crate) fn refreshed(answer: Result<Refreshed, Canceled>) -> Refreshed {
    answer.unwrap_or_else(|Canceled| {
        let code = pointsman_ids::ErrorCode::ServiceUnavailable;
        Err(ShardError::new(code, "the call to the coordinator was broken off"))
    })
}
