//! The connections to one node at one address.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use futures::{
    FutureExt,
    channel::oneshot::{self, Canceled},
    future::{Shared, join_all},
};
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};

use super::{Connect, closed};
use crate::{
    Result, Runtime, ShardError,
    cache::{nanos, nanos_of},
};

/// Connections that are handed out in turn.
pub(super) struct Pool<K: Connect> {
    connector: Arc<K>,
    runtime: Arc<dyn Runtime>,
    size: usize,
    node: NodeId,
    address: Arc<str>,
    turn: AtomicUsize,
    /// Nanoseconds since the start.
    used: AtomicU64,
    /// `None`: the next use opens them.
    open: ArcSwapOption<Vec<K::Connection>>,
    /// Held for every change of the connections.
    filling: Mutex<Filling>,
}

/// Whether connections are being opened.
#[derive(Debug, Default)]
enum Filling {
    #[default]
    No,
    /// By a task of its own, so that a caller who leaves spoils nothing for the others.
    Yes(Filled),
    /// The pool is closed for good.
    Closed,
}

type Filled = Shared<oneshot::Receiver<Result<()>>>;

impl<K: Connect> Pool<K> {
    pub(super) fn new(
        connector: Arc<K>,
        runtime: Arc<dyn Runtime>,
        size: usize,
        node: NodeId,
        address: Arc<str>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connector,
            runtime,
            size,
            node,
            address,
            turn: AtomicUsize::default(),
            used: AtomicU64::default(),
            open: ArcSwapOption::empty(),
            filling: Mutex::default(),
        })
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn touch(&self, now: MonoTime) {
        self.used.fetch_max(nanos(now), Ordering::Relaxed);
    }

    pub(super) fn is_idle(&self, longer_than: Duration, now: MonoTime) -> bool {
        nanos(now).saturating_sub(self.used.load(Ordering::Relaxed)) > nanos_of(longer_than)
    }

    /// The connection whose turn it is; a dead one is stepped over, and another is opened in its place.
    pub(super) fn pick(self: &Arc<Self>) -> Option<K::Connection> {
        let open = self.open.load();
        let connections = open.as_deref()?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let start = turn.checked_rem(connections.len())?;
        let (before, after) = connections.split_at_checked(start)?;
        let mut in_turn = after.iter().chain(before);
        let first = in_turn.next()?;
        if !self.connector.is_closed(first) {
            return Some(first.clone());
        }
        let alive = in_turn.find(|connection| !self.connector.is_closed(connection)).cloned();
        if alive.is_some() {
            drop(self.fill());
        }
        alive
    }

    /// Waits until connections were opened.
    pub(super) async fn opened(self: &Arc<Self>) -> Result<()> {
        let filled = self.fill().ok_or_else(|| closed(self.node, &self.address))?;
        filled.await.unwrap_or_else(|Canceled| {
            Err(ShardError::new(ErrorCode::ServiceUnavailable, "opening the connections was broken off"))
        })
    }

    /// Opens what is missing, unless somebody does already. `None`: the pool is closed.
    fn fill(self: &Arc<Self>) -> Option<Filled> {
        let mut filling = self.filling.lock();
        match &*filling {
            Filling::Yes(filled) => return Some(filled.clone()),
            Filling::Closed => return None,
            Filling::No => {}
        }
        let (sender, receiver) = oneshot::channel();
        let filled = receiver.shared();
        *filling = Filling::Yes(filled.clone());
        let task = FillTask { pool: self.clone() };
        self.runtime.spawn(Box::pin(async move {
            let outcome = task.pool.open_missing().await;
            drop(task);
            // All who waited may have left.
            let _ = sender.send(outcome);
        }));
        Some(filled)
    }

    async fn open_missing(&self) -> Result<()> {
        let is_alive = |connection: &K::Connection| !self.connector.is_closed(connection);
        let alive = |all: Option<Arc<Vec<K::Connection>>>| -> Vec<K::Connection> {
            all.iter().flat_map(|all| all.iter()).filter(|connection| is_alive(connection)).cloned().collect()
        };
        let missing = self.size.saturating_sub(alive(self.open.load_full()).len());
        let opening = (0..missing).map(|_| self.connector.connect(self.node, self.address.clone()));
        let (opened, failed): (Vec<_>, Vec<_>) = join_all(opening).await.into_iter().partition(Result::is_ok);
        let opened: Vec<K::Connection> = opened.into_iter().flatten().collect();
        if let Some(Err(error)) = failed.into_iter().next() {
            opened.iter().for_each(|connection| self.connector.close(connection));
            return Err(error);
        }
        let filling = self.filling.lock();
        if matches!(*filling, Filling::Closed) {
            drop(filling);
            opened.iter().for_each(|connection| self.connector.close(connection));
            return Err(closed(self.node, &self.address));
        }
        let mut all = alive(self.open.load_full());
        all.extend(opened);
        self.open.store(Some(Arc::new(all)));
        Ok(())
    }

    pub(super) fn close(&self) {
        *self.filling.lock() = Filling::Closed;
        let open = self.open.swap(None);
        open.iter().flat_map(|open| open.iter()).for_each(|connection| self.connector.close(connection));
    }
}

/// Lets the next use open connections again, however the task ended.
struct FillTask<K: Connect> {
    pool: Arc<Pool<K>>,
}

impl<K: Connect> Drop for FillTask<K> {
    fn drop(&mut self) {
        let mut filling = self.pool.filling.lock();
        if matches!(*filling, Filling::Yes(_)) {
            *filling = Filling::No;
        }
    }
}

impl<K: Connect> fmt::Debug for Pool<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("node", &self.node)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
