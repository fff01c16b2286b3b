//! The client on tokio's clock and threads.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt, ready};
use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use pointsman_shard_client::{
    CollectionWorkload, Connect, Coordinator, Parts, Reply, Request, Result, Settings, ShardClient,
    ShardListing, Visit,
};

use crate::world::{DOCS, listing};

#[derive(Debug, Default)]
struct Cluster {
    calls: AtomicU64,
    opened: AtomicU64,
}

impl Coordinator for Cluster {
    fn shard_leaders(&self, _: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        async {
            // Other threads come by meanwhile.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(vec![listing("a", &[(1, "")]), listing("b", &[(2, "")])])
        }
        .boxed()
    }
}

impl Connect for Cluster {
    type Connection = ();

    fn connect(&self, _: NodeId, _: Arc<str>) -> BoxFuture<'static, Result<()>> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        ready(Ok(())).boxed()
    }

    fn check(&self, (): ()) -> BoxFuture<'static, Result<bool>> {
        ready(Ok(true)).boxed()
    }
}

/// Answers, or never does.
struct Ask {
    hangs: bool,
}

impl Request<()> for Ask {
    type Answer = ();

    fn run<'a>(&'a self, (): (), _: &'a Visit) -> BoxFuture<'a, Result<Reply<()>>> {
        if self.hangs { pending().boxed() } else { ready(Ok(().into())).boxed() }
    }
}

fn workload(hangs: bool) -> CollectionWorkload<Ask> {
    CollectionWorkload {
        database: "default".into(),
        name: "docs".into(),
        collection: DOCS,
        nq: 1,
        request: Arc::new(Ask { hangs }),
        resource_group: "".into(),
        preferred: None,
        preferred_group: "".into(),
    }
}

fn client(cluster: &Arc<Cluster>) -> ShardClient<Cluster> {
    let settings = Settings { connections_per_node: 2, ..Settings::default() };
    ShardClient::new(settings.clone(), Parts::new(&settings, cluster.clone(), cluster.clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_share_one_call_and_one_pool_per_node() {
    let cluster = Arc::new(Cluster::default());
    let client = client(&cluster);
    let requests = (0..1000).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.execute(&workload(false), None).await.map(|answers| answers.len()) })
    });
    for request in requests.collect::<Vec<_>>() {
        assert_eq!(request.await.unwrap().unwrap(), 2);
    }
    assert_eq!(cluster.calls.load(Ordering::SeqCst), 1);
    assert_eq!(cluster.opened.load(Ordering::SeqCst), 4);
    assert!(client.balancer().report(client.now()).iter().all(|report| report.executing == 0));
}

#[tokio::test]
async fn a_node_that_never_answers_ends_with_the_callers_time() {
    let cluster = Arc::new(Cluster::default());
    let client = client(&cluster);
    let maintenance = tokio::spawn(client.maintenance());
    let began = client.now();
    // On a busy machine the first time may be over before anybody was asked.
    while client.blacklist(DOCS).len() < 2 {
        let deadline = client.now() + Duration::from_millis(100);
        let late = client.execute(&workload(true), Some(deadline)).await.unwrap_err();
        assert_eq!(late.code(), ErrorCode::DeadlineExceeded);
        assert!(client.now() >= deadline && client.now() - began < Duration::from_secs(30));
    }
    // Maintenance ends by itself after the last clone.
    drop(client);
    tokio::time::timeout(Duration::from_secs(30), maintenance).await.unwrap().unwrap();
}
