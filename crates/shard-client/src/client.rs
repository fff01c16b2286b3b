//! The client: what it is made of, and what its owner asks it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use futures::future::BoxFuture;
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, NodeId};

use crate::{
    AllRoutable, Balancer, Connect, LeaderTable, NodeView, Result, Runtime, Sample, Settings, ShardListing,
    Standing, TokioRuntime, balancer, blacklist::Blacklist, cache::LeaderCache, counters::Counters,
    pool::Pools, warnings::Limited,
};

/// Who knows the shard leaders.
pub trait Coordinator: Send + Sync + fmt::Debug + 'static {
    /// GetShardLeaders in its loose form: every shard of the collection, with leaders that cannot answer yet among them.
    ///
    /// # Errors
    /// What the coordinator answered, or kept it from answering. `collection_not_loaded` is final.
    fn shard_leaders(&self, collection: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>>;
}

/// What a client works with.
#[derive(Clone, Debug)]
pub struct Parts<K> {
    /// Who knows the leaders.
    pub coordinator: Arc<dyn Coordinator>,
    /// Makes connections.
    pub connector: Arc<K>,
    /// Chooses among leaders.
    pub balancer: Arc<dyn Balancer>,
    /// What else is known about nodes.
    pub view: Arc<dyn NodeView>,
    /// Time and tasks.
    pub runtime: Arc<dyn Runtime>,
}

impl<K: Connect> Parts<K> {
    /// With the balancer of the settings, nothing known against any node, and tokio.
    pub fn new(settings: &Settings, coordinator: Arc<dyn Coordinator>, connector: Arc<K>) -> Self {
        Self {
            coordinator,
            connector,
            balancer: balancer::balancer(settings),
            view: Arc::new(AllRoutable),
            runtime: Arc::new(TokioRuntime::default()),
        }
    }
}

/// Brings requests by shard to the nodes that lead the shards. Cheap to clone; clones share everything.
#[derive(Debug)]
pub struct ShardClient<K: Connect> {
    pub(crate) inner: Arc<Inner<K>>,
}

impl<K: Connect> Clone for ShardClient<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// What clones of a client share.
#[derive(Debug)]
pub(crate) struct Inner<K: Connect> {
    pub(crate) settings: Settings,
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) cache: Arc<LeaderCache>,
    pub(crate) pools: Pools<K>,
    pub(crate) balancer: Arc<dyn Balancer>,
    pub(crate) blacklist: Blacklist,
    pub(crate) view: Arc<dyn NodeView>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) counters: Counters,
    pub(crate) warnings: Limited,
}

impl<K: Connect> ShardClient<K> {
    /// A client that knows nothing yet. Its owner runs [`ShardClient::maintenance`] beside it.
    pub fn new(settings: Settings, parts: Parts<K>) -> Self {
        let Parts { coordinator, connector, balancer, view, runtime } = parts;
        let inner = Inner {
            cache: Arc::default(),
            pools: Pools::new(connector, runtime.clone(), settings.connections()),
            blacklist: Blacklist::new(settings.blacklist),
            settings,
            coordinator,
            balancer,
            view,
            runtime,
            counters: Counters::default(),
            warnings: Limited::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The time on the clock of the client's runtime, for deadlines.
    pub fn now(&self) -> MonoTime {
        self.inner.runtime.now()
    }

    /// Drops what is cached about these collections; unknown ones are fine. What was asked for before is not cached any
    /// more.
    pub fn invalidate(&self, collections: &[CollectionId]) {
        self.inner.cache.invalidate(collections);
    }

    /// Drops everything that is cached, as for all collections at once.
    pub fn invalidate_all(&self) {
        self.inner.cache.invalidate_all();
    }

    /// What is cached about a collection; `None`: nothing. Looking is no use of the entry, and never asks anybody.
    pub fn cached_leaders(&self, collection: CollectionId) -> Option<Arc<LeaderTable>> {
        self.inner.cache.peek(collection)
    }

    /// The nodes, with their addresses, that tables list which were read within the last ten minutes. Others are dropped.
    pub fn locations(&self) -> BTreeMap<NodeId, BTreeSet<Arc<str>>> {
        self.inner.cache.locations(self.now())
    }

    /// For each shard of a collection, the nodes that are avoided, and until when.
    pub fn blacklist(&self, collection: CollectionId) -> BTreeMap<Arc<str>, BTreeMap<NodeId, MonoTime>> {
        self.inner.blacklist.listed(collection, self.now())
    }

    /// Lets the node be asked for the shard again. Says whether it was avoided.
    pub fn pardon(&self, collection: CollectionId, shard: &str, node: NodeId) -> bool {
        self.inner.blacklist.remove(collection, shard, node, self.now())
    }

    /// What the owner of the client knows about a node.
    pub fn standing(&self, node: NodeId) -> Standing {
        self.inner.view.standing(node)
    }

    /// The balancer.
    pub fn balancer(&self) -> &Arc<dyn Balancer> {
        &self.inner.balancer
    }

    /// What has been counted.
    pub fn samples(&self) -> Vec<Sample> {
        self.inner.counters.samples()
    }

    /// Pools of connections that there are, one per node and address.
    pub fn pools(&self) -> usize {
        self.inner.pools.len()
    }

    /// Closes all connections for good. Requests fail from now on.
    pub fn close(&self) {
        self.inner.pools.close();
    }
}
