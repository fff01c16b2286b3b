//! Connections to nodes: a pool per (node, address), opened by its first use and closed when nobody lists it any more.

mod connections;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use imbl::OrdMap;
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};
use smallvec::SmallVec;

use crate::{
    Result, Runtime, ShardError,
    runtime::{OutOfTime, within},
};
use connections::Pool;

/// A pool that was unused for longer is closed, unless a cached table lists its node at its address.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// Makes connections to nodes.
pub trait Connect: Send + Sync + fmt::Debug + 'static {
    /// A connection, which many calls share. Clones are the same connection.
    type Connection: Clone + Send + Sync + 'static;

    /// Opens a connection. It has to come to an end by itself: callers with little time leave, others wait.
    ///
    /// # Errors
    /// What kept it from being opened.
    fn connect(&self, node: NodeId, address: Arc<str>) -> BoxFuture<'static, Result<Self::Connection>>;

    /// Whether it is known to be dead: it is not handed out then, and another takes its place.
    fn is_closed(&self, _connection: &Self::Connection) -> bool {
        false
    }

    /// Closes it; calls on it may end as they like.
    fn close(&self, _connection: &Self::Connection) {}

    /// Asks the node whether it is healthy.
    ///
    /// # Errors
    /// The call failed, which counts as not healthy.
    fn check(&self, connection: Self::Connection) -> BoxFuture<'static, Result<bool>>;
}

/// Why there is no client.
#[derive(Debug)]
pub(crate) enum NoClient {
    /// The caller's own time was over, which says nothing about the node.
    OutOfTime,
    Failed(ShardError),
}

/// The pools of all nodes. Looking one up takes no lock.
#[derive(Debug)]
pub(crate) struct Pools<K: Connect> {
    connector: Arc<K>,
    runtime: Arc<dyn Runtime>,
    size: usize,
    pools: ArcSwap<OrdMap<NodeId, Addresses<K>>>,
    changing: Mutex<Closed>,
}

/// Whether everything was closed for good.
#[derive(Debug, Default)]
struct Closed(bool);

/// A node's pools; nearly always one.
type Addresses<K> = SmallVec<[Arc<Pool<K>>; 1]>;

impl<K: Connect> Pools<K> {
    /// Pools of `size` connections each.
    pub(crate) fn new(connector: Arc<K>, runtime: Arc<dyn Runtime>, size: usize) -> Self {
        Self { connector, runtime, size, pools: ArcSwap::default(), changing: Mutex::default() }
    }

    pub(crate) fn connector(&self) -> &K {
        &self.connector
    }

    /// A connection to a node at an address.
    pub(crate) async fn get(
        &self,
        node: NodeId,
        address: &Arc<str>,
        deadline: Option<MonoTime>,
    ) -> Result<K::Connection, NoClient> {
        let pool = self.pool(node, address).map_err(NoClient::Failed)?;
        pool.touch(self.runtime.now());
        if let Some(connection) = pool.pick() {
            return Ok(connection);
        }
        let opened = within(&*self.runtime, deadline, pool.opened()).await;
        opened.map_err(|OutOfTime| NoClient::OutOfTime)?.map_err(NoClient::Failed)?;
        pool.pick().ok_or_else(|| NoClient::Failed(closed(node, address)))
    }

    fn pool(&self, node: NodeId, address: &Arc<str>) -> Result<Arc<Pool<K>>> {
        let find = |pools: &OrdMap<NodeId, Addresses<K>>| {
            pools.get(&node)?.iter().find(|pool| pool.address() == &**address).cloned()
        };
        if let Some(pool) = find(&self.pools.load()) {
            return Ok(pool);
        }
        let changing = self.changing.lock();
        if changing.0 {
            return Err(closed(node, address));
        }
        let pools = self.pools.load_full();
        if let Some(pool) = find(&pools) {
            return Ok(pool);
        }
        let pool = Pool::new(self.connector.clone(), self.runtime.clone(), self.size, node, address.clone());
        let mut of_node = pools.get(&node).cloned().unwrap_or_default();
        of_node.push(pool.clone());
        self.pools.store(Arc::new(pools.update(node, of_node)));
        Ok(pool)
    }

    /// Closes pools that nobody has used for an hour, except those that are listed.
    pub(crate) fn purge(&self, listed: &BTreeMap<NodeId, BTreeSet<Arc<str>>>, now: MonoTime) {
        let stays = |pool: &Pool<K>| {
            let is_listed =
                listed.get(&pool.node()).is_some_and(|addresses| addresses.contains(pool.address()));
            is_listed || !pool.is_idle(IDLE, now)
        };
        let _changing = self.changing.lock();
        let mut pools = OrdMap::new();
        for (node, of_node) in self.pools.load().iter() {
            let (kept, gone): (Addresses<K>, Addresses<K>) =
                of_node.iter().cloned().partition(|pool| stays(pool));
            gone.iter().for_each(|pool| pool.close());
            if !kept.is_empty() {
                pools.insert(*node, kept);
            }
        }
        self.pools.store(Arc::new(pools));
    }

    /// Closes everything, for good.
    pub(crate) fn close(&self) {
        self.changing.lock().0 = true;
        let pools = self.pools.swap(Arc::default());
        pools.values().flatten().for_each(|pool| pool.close());
    }

    /// Pools that there are.
    pub(crate) fn len(&self) -> usize {
        self.pools.load().values().map(SmallVec::len).sum()
    }
}

fn closed(node: NodeId, address: &str) -> ShardError {
    let text = format!("the connections to node {node} at {address} are closed");
    ShardError::new(ErrorCode::ServiceUnavailable, text)
}
