//! The client's own time: a request on 16 shards with a ready cache and open connections, against calling the same 16
//! stubs directly, all at once, over the same connections. Nodes answer at once, so everything else is the client's.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use std::{sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::FuturesUnordered,
};
use pointsman_ids::{CollectionId, NodeId};
use pointsman_shard_client::{
    CollectionWorkload, Connect, Coordinator, Parts, Policy, Reply, Request, Result, Settings, ShardClient,
    ShardListing, Visit,
};

const SHARDS: u64 = 16;
const LEADERS: u64 = 3;

#[derive(Debug)]
struct Cluster;

fn shard(number: u64) -> String {
    format!("documents_{number:02}")
}

impl Coordinator for Cluster {
    fn shard_leaders(&self, _: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
        let listing = |number: u64| {
            let nodes = (0..LEADERS).map(move |leader| (number + leader * 5) % SHARDS);
            ShardListing {
                shard: shard(number),
                node_ids: nodes.clone().collect(),
                node_addrs: nodes.clone().map(|node| format!("10.0.0.{node}:7000")).collect(),
                serviceable: nodes.clone().map(|_| true).collect(),
                resource_groups: nodes
                    .map(|node| ["east", "west"][usize::from(node % 2 == 1)].to_owned())
                    .collect(),
            }
        };
        ready(Ok((0..SHARDS).map(listing).collect())).boxed()
    }
}

impl Connect for Cluster {
    type Connection = Arc<NodeId>;

    fn connect(&self, node: NodeId, _: Arc<str>) -> BoxFuture<'static, Result<Arc<NodeId>>> {
        ready(Ok(Arc::new(node))).boxed()
    }

    fn check(&self, _: Arc<NodeId>) -> BoxFuture<'static, Result<bool>> {
        ready(Ok(true)).boxed()
    }
}

struct Stub;

static STUB: Stub = Stub;

impl Stub {
    fn call(&self, connection: Arc<NodeId>) -> BoxFuture<'_, Result<Reply<u64>>> {
        async move { Ok(connection.0.into()) }.boxed()
    }
}

impl Request<Arc<NodeId>> for Stub {
    type Answer = u64;

    fn run<'a>(&'a self, connection: Arc<NodeId>, _: &'a Visit) -> BoxFuture<'a, Result<Reply<u64>>> {
        self.call(connection)
    }
}

fn execute(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut group = criterion.benchmark_group("execute_on_16_shards");
    group.throughput(Throughput::Elements(SHARDS));

    let connections: Vec<Arc<NodeId>> = (0..SHARDS).map(|node| Arc::new(NodeId(node))).collect();
    group.bench_function("floor", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let mut calls: FuturesUnordered<_> =
                    connections.iter().map(|connection| STUB.call(connection.clone())).collect();
                let mut answers = Vec::with_capacity(connections.len());
                while let Some(answer) = calls.next().await {
                    answers.push(answer.unwrap().answer);
                }
                answers
            })
        });
    });

    for (name, policy, scope) in [
        ("round_robin", Policy::RoundRobin, ""),
        ("look_aside", Policy::LookAside, ""),
        ("look_aside_in_a_scope", Policy::LookAside, "east"),
    ] {
        let settings = Settings { policy, ..Settings::default() };
        let client =
            ShardClient::new(settings.clone(), Parts::new(&settings, Arc::new(Cluster), Arc::new(Cluster)));
        let workload = CollectionWorkload {
            database: "default".into(),
            name: "documents".into(),
            collection: CollectionId(31),
            nq: 1,
            request: Arc::new(Stub),
            resource_group: scope.into(),
            preferred: None,
            preferred_group: "".into(),
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let deadline = Some(client.now() + Duration::from_secs(10));
                runtime.block_on(client.execute(&workload, deadline)).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, execute);
criterion_main!(benches);
