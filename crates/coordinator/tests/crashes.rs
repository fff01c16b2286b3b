//! A coordinator dies between any two writes of whatever it was asked for: the next one finds a lawful state, and goes on.
//! What is asked, and when it dies, follows from a seed.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod faulty;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cluster::*;
use faulty::{Fault, Faulty};
use pointsman_metastore::SharedMetastore;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::LoadStatus;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Coordinators that die.
const CRASHES: u64 = 12;

/// Asks for one thing about collection `t`; whether it is granted says nothing here.
async fn ask(coordinator: &Coordinator, what: u32) {
    let collection = || "t".to_owned();
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (mut loads, mut catalog) = (coordinator.loads(), coordinator.catalog());
    let load = |names: &[&str], partitions: &[&str]| pb::LoadCollectionRequest {
        collection: collection(),
        resource_groups: groups(names),
        partitions: groups(partitions),
        ..Default::default()
    };
    let _granted = match what {
        0 => loads.load_collection(load(&["east"], &[])).await.map(drop),
        1 => loads.load_collection(load(&["east", "west"], &[])).await.map(drop),
        2 => loads.load_collection(load(&["west"], &["p1"])).await.map(drop),
        3 | 4 => {
            let resource_groups = if what == 3 { groups(&["west"]) } else { groups(&["east", "west"]) };
            let replicas = u32::try_from(resource_groups.len()).unwrap();
            let collections = vec![collection()];
            let request =
                pb::UpdateLoadConfigRequest { collections, replicas, resource_groups, ..Default::default() };
            loads.update_load_config(request).await.map(drop)
        }
        5 => {
            let request =
                pb::ReleasePartitionsRequest { collection: collection(), partitions: groups(&["p2"]) };
            loads.release_partitions(request).await.map(drop)
        }
        6 => {
            let request = pb::ReleaseCollectionRequest { collection: collection() };
            loads.release_collection(request).await.map(drop)
        }
        _ => {
            let request = pb::DropSegmentsRequest { collection: collection(), names: groups(&["p1.0"]) };
            catalog.drop_segments(request).await.map(drop)
        }
    };
}

/// Everything that is stored of loads goes together.
async fn is_lawful(metastore: &SharedMetastore, seed: u64) {
    let loads = metastore.loads().await.unwrap();
    let replicas = metastore.replicas().await.unwrap();
    let targets = metastore.current_targets().await.unwrap();
    for load in &loads {
        let own: Vec<_> = replicas.iter().filter(|replica| replica.collection == load.collection).collect();
        assert_eq!(own.len(), usize::try_from(load.replicas).unwrap(), "{seed}: {load:?}");
        let nodes: Vec<_> = own.iter().flat_map(|replica| replica.all_nodes()).collect();
        assert_eq!(
            nodes.len(),
            nodes.iter().collect::<BTreeSet<_>>().len(),
            "{seed}: a node in two replicas"
        );
        assert!(!load.partitions.is_empty(), "{seed}: {load:?}");
        assert_eq!(load.status == LoadStatus::Loaded, load.percent == 100, "{seed}: {load:?}");
        let served = targets.iter().any(|target| target.collection == load.collection);
        assert!(served || load.status == LoadStatus::Loading, "{seed}: loaded, and nothing is served");
    }
    let known = |collection| loads.iter().any(|load| load.collection == collection);
    assert!(replicas.iter().all(|replica| known(replica.collection)), "{seed}: {replicas:?}");
    assert!(targets.iter().all(|target| known(target.collection)), "{seed}");
}

async fn nodes(coordinator: &Coordinator, incarnation: u64) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (name, group) in [("n1", "east"), ("n2", "west")] {
        let hello = Hello { incarnation, ..Hello::new(name, group) };
        nodes.push(hello.connect(coordinator).await.unwrap());
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_was_asked_and_whenever_it_dies_the_next_one_finds_a_lawful_state_and_goes_on() {
    for seed in 0..CRASHES {
        let mut random = StdRng::seed_from_u64(seed);
        let cluster = Cluster::new();
        let faulty = Faulty::new(cluster.metastore().await);
        let coordinator = cluster.start_over(cluster.settings("c1"), Arc::new(faulty.clone())).await;
        coordinator.is_active().await;
        let former = nodes(&coordinator, 1).await;
        coordinator.create("t").await.unwrap();
        let segment = |partition: &str, at: u32| pb::Segment {
            partition: partition.into(),
            ..cluster.segment("t", &format!("{partition}.{at}"), 3)
        };
        let segments = ["p1", "p2"].map(|partition| [segment(partition, 0), segment(partition, 1)]).concat();
        coordinator.push("t", segments).await.unwrap();
        let fault = if random.random_bool(0.5) { Fault::Away } else { Fault::Cut };
        faulty.fail_after(random.random_range(0..12), fault);
        let asked = async {
            ask(&coordinator, random.random_range(0..3)).await;
            loop {
                tokio::time::sleep(Duration::from_millis(random.random_range(0..120))).await;
                ask(&coordinator, random.random_range(0..8)).await;
            }
        };
        tokio::select! {
            () = asked => {}
            () = until("the fault", || async { faulty.is_used_up().then_some(()) }) => {}
        }
        for node in former {
            node.kill().await;
        }
        coordinator.kill().await;
        cluster.end_lease().await;
        is_lawful(&cluster.metastore().await, seed).await;

        let coordinator = cluster.active().await;
        let _nodes = nodes(&coordinator, 2).await;
        coordinator.load("t", &["east", "west"]).await.unwrap();
        let whole = || async {
            let shown = coordinator.show("t").await.ok()?;
            (shown.loaded && shown.groups.len() == 2).then_some(())
        };
        until("a finished load in both groups", whole).await;
        is_lawful(&cluster.metastore().await, seed).await;
        coordinator.stop().await.unwrap();
    }
}
