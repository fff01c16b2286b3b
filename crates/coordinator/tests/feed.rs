//! The routing feed: deltas, resuming, acknowledging.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::time::Duration;

use cluster::*;
use pointsman_ids::{
    Error, ErrorCode, FeedVersion,
    feed::{CollectionDelta, CollectionEntry, Delta, LeaderDrops, Snapshot},
};
use pointsman_proto::{broker::v1 as pb, collection_digest, coordinator::v1 as coordinator, error};
use pointsman_settings::CoordinatorSettings;
use tokio_stream::StreamExt as _;
use tonic::{Streaming, transport::Channel};

const PATIENCE: Duration = Duration::from_secs(20);

/// A broker that reads deltas, and acknowledges when it is told to.
struct Broker {
    name: String,
    snapshot: Snapshot,
    client: pb::routing_feed_client::RoutingFeedClient<Channel>,
    stream: Streaming<pb::WatchResponse>,
    watch: u64,
}

/// What came in one message.
#[derive(Debug)]
enum Came {
    Nothing,
    Snapshot,
    Delta(Box<Delta>),
}

impl Broker {
    async fn new(coordinator: &Coordinator, name: &str) -> Self {
        let nothing = Snapshot::empty("local".parse().unwrap());
        Self::resume(coordinator, name, nothing).await.unwrap()
    }

    /// Watches as a broker that has a snapshot.
    async fn resume(coordinator: &Coordinator, name: &str, has: Snapshot) -> Result<Self, Error> {
        Self::over(coordinator.feed(), name, has).await
    }

    async fn over(
        mut client: pb::routing_feed_client::RoutingFeedClient<Channel>,
        name: &str,
        snapshot: Snapshot,
    ) -> Result<Self, Error> {
        let digest = |entry: &std::sync::Arc<_>| pb::CollectionDigest {
            name: pointsman_ids::feed::CollectionEntry::clone(entry).name.to_string(),
            digest: collection_digest(entry).to_vec(),
        };
        let holding = pb::Holding {
            nodes: snapshot.nodes.iter().map(|node| node.name.to_string()).collect(),
            collections: snapshot.collections.iter().map(digest).collect(),
        };
        let request = pb::WatchRequest {
            broker: name.into(),
            version: snapshot.version.0,
            epoch_seen: 0,
            holding: Some(holding),
            reads_columns: true,
        };
        let stream = client.watch(request).await.map_err(|status| error(&status))?.into_inner();
        Ok(Self { name: name.into(), snapshot, client, stream, watch: 0 })
    }

    async fn next(&mut self) -> Result<Came, Error> {
        let answer = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("a word in time");
        let answer = answer.expect("a watch that goes on").map_err(|status| error(&status))?;
        self.watch = answer.watch;
        Ok(match (answer.snapshot, answer.delta) {
            (Some(snapshot), None) => {
                self.snapshot = Snapshot::try_from(snapshot).unwrap();
                Came::Snapshot
            }
            (None, Some(delta)) => {
                let delta = Delta::try_from(delta).unwrap();
                self.snapshot = self.snapshot.apply(&delta).unwrap();
                Came::Delta(Box::new(delta))
            }
            (None, None) => Came::Nothing,
            both => panic!("two at once: {both:?}"),
        })
    }

    /// The next word that is news.
    async fn news(&mut self) -> Came {
        loop {
            match self.next().await.unwrap() {
                Came::Nothing => {}
                came => return came,
            }
        }
    }

    /// Reads on until `wanted` holds, and gives everything that came.
    async fn until(&mut self, wanted: impl Fn(&Snapshot) -> bool) -> Vec<Came> {
        let mut came = vec![];
        while !wanted(&self.snapshot) {
            came.push(self.news().await);
        }
        came
    }

    async fn acknowledge(&mut self, version: FeedVersion) -> Result<(), Error> {
        let request =
            pb::AcknowledgeRequest { broker: self.name.clone(), watch: self.watch, version: version.0 };
        self.client.acknowledge(request).await.map(drop).map_err(|status| error(&status))
    }
}

fn has(name: &str) -> impl Fn(&Snapshot) -> bool {
    move |snapshot| snapshot.collection(name).is_some()
}

/// A coordinator with a node and a loaded collection `t` of two segments.
async fn loaded(cluster: &Cluster, settings: CoordinatorSettings) -> (Coordinator, Node) {
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    (coordinator, node)
}

fn serves(snapshot: &Snapshot) -> bool {
    servers(snapshot, "t", "a").len() == 1 && servers(snapshot, "t", "b").len() == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_first_snapshot_changes_alone_are_sent_and_lead_to_the_same() {
    let cluster = Cluster::new();
    let (coordinator, _node) = loaded(&cluster, cluster.settings("c1")).await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    assert!(matches!(broker.news().await, Came::Snapshot));
    broker.until(serves).await;
    coordinator.create("u").await.unwrap();
    let came = broker.until(has("u")).await;
    let Came::Delta(delta) = came.last().unwrap() else { panic!("{came:?}") };
    assert!(delta.nodes.is_empty() && delta.groups.is_none() && delta.config.is_none(), "{delta:?}");
    assert!(
        matches!(&delta.collections[..], [CollectionDelta::Whole(u)] if u.name.as_str() == "u"),
        "{delta:?}"
    );
    // A copy comes: the segment is not told again.
    let _second = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    broker
        .until(|s| servers(s, "t", "a").len() + servers(s, "t", "b").len() == 2 && s.nodes.len() == 2)
        .await;
    let mut whole = coordinator.watch("b2", 0).await.unwrap();
    let newest = whole.next().await.unwrap();
    broker.until(|s| s.version >= newest.version).await;
    let newest = if broker.snapshot.version == newest.version { newest } else { whole.next().await.unwrap() };
    assert_eq!(broker.snapshot, newest);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_back_gets_what_it_missed_as_one_change() {
    let cluster = Cluster::new();
    let (coordinator, _node) = loaded(&cluster, cluster.settings("c1")).await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    let mut other = Broker::new(&coordinator, "b2").await;
    broker.until(serves).await;
    let kept = broker.snapshot.clone();
    drop(broker);
    for name in ["u", "v"] {
        coordinator.create(name).await.unwrap();
        other.until(has(name)).await;
    }
    let mut broker = Broker::resume(&coordinator, "b1", kept.clone()).await.unwrap();
    let Came::Delta(delta) = broker.news().await else { panic!("not a delta") };
    assert_eq!(delta.before, kept.version);
    let told: Vec<&str> = delta.collections.iter().map(|told| told.name().as_str()).collect();
    assert_eq!(told, ["u", "v"]);
    assert_eq!(broker.snapshot, other.snapshot);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_history_only_collections_that_differ_are_sent() {
    let cluster = Cluster::new();
    let settings = CoordinatorSettings { feed_history: 1, ..cluster.settings("c1") };
    let (coordinator, _node) = loaded(&cluster, settings).await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    let mut other = Broker::new(&coordinator, "b2").await;
    broker.until(serves).await;
    let kept = broker.snapshot.clone();
    drop(broker);
    for name in ["u", "v", "w"] {
        coordinator.create(name).await.unwrap();
        other.until(has(name)).await;
    }
    let mut broker = Broker::resume(&coordinator, "b1", kept.clone()).await.unwrap();
    let Came::Delta(delta) = broker.news().await else { panic!("not a delta") };
    let whole = delta.collections.iter().filter(|told| matches!(told, CollectionDelta::Whole(_)));
    assert_eq!(whole.map(|told| told.name().as_str()).collect::<Vec<_>>(), ["u", "v", "w"]);
    assert_eq!(broker.snapshot, other.snapshot);
    // One that does not say what it holds gets everything.
    let mut silent = coordinator.watch_from("b3", kept.version.0, 0).await.unwrap();
    assert_eq!(silent.next().await.unwrap(), other.snapshot);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_coordinator_sends_what_differs_from_what_brokers_kept() {
    let cluster = Cluster::new();
    let (coordinator, node) = loaded(&cluster, cluster.settings("c1")).await;
    coordinator.create("u").await.unwrap();
    coordinator.create("gone").await.unwrap();
    let mut broker = Broker::new(&coordinator, "b1").await;
    broker.until(|s| serves(s) && has("u")(s) && has("gone")(s)).await;
    let kept = broker.snapshot.clone();
    let (held, leads) = (node.wanted(), node.leads.borrow().clone());
    coordinator.stop().await.unwrap();

    let coordinator = cluster.active().await;
    let drop_it = coordinator::DropCollectionRequest { name: "gone".into() };
    coordinator.catalog().drop_collection(drop_it).await.unwrap();
    coordinator.push("u", vec![cluster.segment("u", "a", 1)]).await.unwrap();
    let _node = Hello { held, leads, ..Hello::new("n1", "") }.connect(&coordinator).await.unwrap();
    let resume = || async { Broker::resume(&coordinator, "b1", kept.clone()).await.ok() };
    let mut broker = until("a watch", resume).await;
    let dropped = broker.until(|s| !has("gone")(s)).await;
    let Came::Delta(first) = &dropped[0] else { panic!("{dropped:?}") };
    assert_eq!(first.before, kept.version);
    let settled = |s: &Snapshot| s.collection("t").unwrap().version > kept.version;
    let came = dropped.into_iter().chain(broker.until(settled).await);
    for came in came {
        let Came::Delta(delta) = came else { panic!("a snapshot") };
        let t = delta.collections.iter().find(|told| told.name().as_str() == "t");
        assert!(matches!(t, None | Some(CollectionDelta::Changed(_))), "{t:?}");
        if let Some(CollectionDelta::Changed(change)) = t {
            assert!(change.segments.is_empty() && change.copies.is_empty(), "{change:?}");
        }
    }
    let mut whole = coordinator.watch("b2", 0).await.unwrap();
    assert_eq!(whole.until(|s| s.version >= broker.snapshot.version).await, broker.snapshot);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_reads_slowly_gets_several_changes_as_one() {
    let cluster = Cluster::new();
    let (coordinator, _node) = loaded(&cluster, cluster.settings("c1")).await;
    // So little room that one message fills it.
    let narrow = Channel::from_shared(coordinator.grpc.clone()).unwrap();
    let narrow = narrow.initial_stream_window_size(200).initial_connection_window_size(200).connect_lazy();
    let nothing = Snapshot::empty("local".parse().unwrap());
    let client = pb::routing_feed_client::RoutingFeedClient::new(narrow);
    let mut slow = Broker::over(client, "slow", nothing).await.unwrap();
    let mut quick = Broker::new(&coordinator, "quick").await;
    let mut changes = 0;
    for at in 0..12 {
        let name = format!("a-collection-with-a-long-name-{}-{at}", "x".repeat(60));
        coordinator.create(&name).await.unwrap();
        changes += quick.until(has(&name)).await.len();
    }
    let newest = quick.snapshot.version;
    let came = slow.until(|s| s.version >= newest).await;
    assert!(changes >= 12 && came.len() <= 5, "{} of {changes}", came.len());
    assert_eq!(slow.snapshot, quick.snapshot);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_applied_when_every_live_broker_has_acknowledged_it() {
    let cluster = Cluster::new();
    let (coordinator, _node) = loaded(&cluster, cluster.settings("c1")).await;
    let mut one = Broker::new(&coordinator, "b1").await;
    let mut two = Broker::new(&coordinator, "b2").await;
    one.until(serves).await;
    two.until(serves).await;
    let newest = coordinator.describe().await.unwrap().feed_version;
    for broker in [&mut one, &mut two] {
        assert!(!coordinator.describe().await.unwrap().feed_applied, "not before all have acknowledged");
        broker.until(|s| s.version.0 >= newest).await;
        broker.acknowledge(broker.snapshot.version).await.unwrap();
    }
    assert!(coordinator.describe().await.unwrap().feed_applied);
    let brokers = coordinator.cluster().list_brokers(coordinator::ListBrokersRequest {}).await.unwrap();
    let applied: Vec<_> =
        brokers.into_inner().brokers.into_iter().map(|b| (b.name, b.applied_version)).collect();
    assert_eq!(applied, [("b1".to_owned(), newest), ("b2".to_owned(), newest)]);
    let foreign = pb::AcknowledgeRequest { broker: "b2".into(), watch: one.watch, version: newest };
    let refused = coordinator.feed().acknowledge(foreign).await.unwrap_err();
    assert_eq!(error(&refused).code(), ErrorCode::ServiceNotReady);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_says_nothing_is_not_waited_for_any_longer_than_its_lease() {
    let cluster = Cluster::new();
    let settings =
        CoordinatorSettings { broker_lease_ttl: Duration::from_millis(400), ..cluster.settings("c1") };
    let (coordinator, _node) = loaded(&cluster, settings).await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    broker.until(serves).await;
    // As long as it says that it lives, it is counted, whatever it routes by.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        broker.acknowledge(FeedVersion(0)).await.unwrap();
    }
    assert!(!coordinator.describe().await.unwrap().feed_applied);
    let ended = async {
        loop {
            if let Err(error) = broker.next().await {
                return error;
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await.unwrap();
    assert!(ended.message().contains("coordinator.broker_lease_ttl"), "{ended}");
    assert!(coordinator.describe().await.unwrap().feed_applied, "nobody else is live");
    assert!(broker.acknowledge(FeedVersion(0)).await.unwrap_err().is_retriable());
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn switches_count_at_once_and_what_is_not_known_yet_stays_as_brokers_have_it() {
    let cluster = Cluster::new();
    let mut settings = cluster.settings("c1");
    settings.resource_groups.insert("spare".into(), 0);
    let (coordinator, n1) = loaded(&cluster, settings).await;
    let n2 = Hello::new("n2", "west").connect(&coordinator).await.unwrap();
    coordinator.create("u").await.unwrap();
    coordinator.push("u", vec![cluster.segment("u", "a", 1)]).await.unwrap();
    coordinator.load("u", &["west"]).await.unwrap();
    coordinator.loaded("u").await;
    let _n3 = Hello::new("n3", "spare").connect(&coordinator).await.unwrap();
    let mut broker = Broker::new(&coordinator, "b1").await;
    broker.until(|s| serves(s) && servers(s, "u", "a").contains("n2") && s.nodes.len() == 3).await;
    let kept = broker.snapshot.clone();
    let (held1, held2) = (n1.wanted(), n2.wanted());
    coordinator.stop().await.unwrap();

    // Long enough for everything below.
    let settings = CoordinatorSettings { node_lease_ttl: Duration::from_secs(3), ..cluster.settings("c1") };
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let off = coordinator::SetNodeEnabledRequest { nodes: vec!["n3".into()], enabled: false };
    coordinator.cluster().set_node_enabled(off).await.unwrap();
    let resume = || async { Broker::resume(&coordinator, "b1", kept.clone()).await.ok() };
    let mut broker = until("a watch", resume).await;
    // Nobody was heard yet.
    broker.until(|s| s.nodes.iter().any(|node| node.name.as_str() == "n3" && !node.enabled)).await;
    assert_eq!(broker.snapshot.collections, kept.collections);
    assert_eq!(broker.snapshot.nodes[..2], kept.nodes[..2]);
    // One of two collections can be told, and it has not changed.
    let _n1 = Hello { held: held1, ..Hello::new("n1", "") }.connect(&coordinator).await.unwrap();
    let told = |name| {
        let before = kept.collection(name).unwrap().version;
        move |s: &Snapshot| s.collection(name).unwrap().version > before
    };
    broker.until(told("t")).await;
    assert!(serves(&broker.snapshot) && !told("u")(&broker.snapshot));
    let fresh = tokio::time::timeout(Duration::from_millis(200), async {
        coordinator.watch("b2", 0).await.unwrap().next().await
    });
    assert!(fresh.await.is_err(), "a broker that has nothing is not told a part");
    let _n2 = Hello { held: held2, ..Hello::new("n2", "") }.connect(&coordinator).await.unwrap();
    broker.until(told("u")).await;
    assert!(servers(&broker.snapshot, "u", "a").contains("n2"));
    // Who does not come has gone.
    assert_eq!(broker.snapshot.nodes.len(), 3);
    broker.until(|s| s.nodes.len() == 2).await;
    let mut whole = coordinator.watch("b2", 0).await.unwrap();
    assert_eq!(whole.until(|s| s.version >= broker.snapshot.version).await, broker.snapshot);
    coordinator.stop().await.unwrap();
}

/// It may be the one that nobody reaches.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_coordinator_that_hears_nobody_takes_nothing_away_and_waits_for_those_who_come_late() {
    let cluster = Cluster::new();
    let (coordinator, n1) = loaded(&cluster, cluster.settings("c1")).await;
    let n2 = Hello::new("n2", "west").connect(&coordinator).await.unwrap();
    coordinator.create("u").await.unwrap();
    coordinator.push("u", vec![cluster.segment("u", "a", 1)]).await.unwrap();
    coordinator.load("u", &["west"]).await.unwrap();
    coordinator.loaded("u").await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    broker.until(|s| serves(s) && servers(s, "u", "a").contains("n2")).await;
    let kept = broker.snapshot.clone();
    let (held1, held2) = (n1.wanted(), n2.wanted());
    coordinator.stop().await.unwrap();

    let coordinator = cluster.active().await;
    let resume = || async { Broker::resume(&coordinator, "b1", kept.clone()).await.ok() };
    let mut broker = until("a watch", resume).await;
    let suspects = || async { coordinator.describe().await?.mass_loss.then_some(()) };
    until("the suspicion", suspects).await;
    tokio::time::sleep(NODE_LEASE).await;
    let same = |broker: &Broker| broker.snapshot.collections == kept.collections;
    while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(100), broker.next()).await {}
    assert!(same(&broker) && broker.snapshot.nodes == kept.nodes, "{:?}", broker.snapshot);

    // One of two is back, which ends the suspicion. The other one has as long for it as it would have had.
    let _n1 = Hello { held: held1, ..Hello::new("n1", "") }.connect(&coordinator).await.unwrap();
    let over = || async { (!coordinator.describe().await?.mass_loss).then_some(()) };
    until("the end of the suspicion", over).await;
    tokio::time::sleep(NODE_LEASE / 2).await;
    let _n2 = Hello { held: held2, ..Hello::new("n2", "") }.connect(&coordinator).await.unwrap();
    let told = |name| {
        let before = kept.collection(name).unwrap().version;
        move |s: &Snapshot| s.collection(name).unwrap().version > before
    };
    while !(told("t")(&broker.snapshot) && told("u")(&broker.snapshot)) {
        broker.news().await;
        assert!(serves(&broker.snapshot) && servers(&broker.snapshot, "u", "a").contains("n2"));
    }
    coordinator.stop().await.unwrap();
}

/// A new coordinator has no history, and everybody comes at once.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_brokers_that_come_back_together_are_sent_what_differs_alone() {
    let cluster = Cluster::new();
    let (coordinator, node) = loaded(&cluster, cluster.settings("c1")).await;
    coordinator.create("v").await.unwrap();
    let settled = |s: &Snapshot| serves(s) && !s.collection("t").unwrap().finished_groups.is_empty();
    let mut kept = Vec::new();
    for number in 0..20 {
        let mut broker = Broker::new(&coordinator, &format!("b{number:02}")).await;
        broker.until(|s| settled(s) && has("v")(s)).await;
        kept.push((broker.name, broker.snapshot));
    }
    let (held, leads) = (node.wanted(), node.leads.borrow().clone());
    coordinator.stop().await.unwrap();

    let coordinator = cluster.active().await;
    coordinator.create("u").await.unwrap();
    let back = kept.into_iter().map(|(name, kept)| {
        let coordinator = &coordinator;
        async move {
            let resume = || async { Broker::resume(coordinator, &name, kept.clone()).await.ok() };
            let mut broker = until("a watch", resume).await;
            let before = kept.collection("t").unwrap().version;
            let told = |s: &Snapshot| has("u")(s) && s.collection("t").unwrap().version > before;
            (kept, broker.until(told).await, broker.snapshot)
        }
    });
    let back = futures::future::join_all(back);
    let node = Hello { held, leads, ..Hello::new("n1", "") }.connect(&coordinator);
    let (back, _node) = tokio::join!(back, node);
    let mut spared = 0;
    for (kept, came, snapshot) in back {
        assert!(serves(&snapshot));
        for came in came {
            let Came::Delta(delta) = came else { panic!("everything was sent") };
            match delta.collections.iter().find(|told| told.name().as_str() == "t") {
                None => {}
                Some(CollectionDelta::Changed(_)) => spared += 1,
                Some(CollectionDelta::Whole(t)) => {
                    let kept = kept.collection("t").unwrap();
                    let same = CollectionEntry { version: kept.version, ..CollectionEntry::clone(t) };
                    assert_ne!(same, **kept, "it was held as it is");
                }
            }
        }
    }
    assert!(spared > 0, "all held something else");
    coordinator.stop().await.unwrap();
}

/// Reads on until somebody says that leaders of a collection are to be asked for again.
async fn drops(broker: &mut Broker, collection: &str) -> (FeedVersion, Box<Delta>) {
    let id = broker.snapshot.collection(collection).unwrap().id;
    loop {
        let Came::Delta(delta) = broker.news().await else { continue };
        if let LeaderDrops::Of(drops) = &delta.leader_drops
            && let Some(version) = drops.get(&id)
        {
            return (*version, delta);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_are_dropped_with_whatever_changes_them_and_nothing_else() {
    let cluster = Cluster::new();
    let (coordinator, _node) = loaded(&cluster, cluster.settings("c1")).await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    let settled = |s: &Snapshot| serves(s) && !s.collection("t").unwrap().finished_groups.is_empty();
    broker.until(settled).await;
    coordinator.create("u").await.unwrap();
    let came = broker.until(has("u")).await;
    let Came::Delta(delta) = came.last().unwrap() else { panic!("{came:?}") };
    let u = broker.snapshot.collection("u").unwrap().id;
    assert_eq!(delta.leader_drops, LeaderDrops::at(delta.after, [u].into()), "{delta:?}");

    // A replica that queries do not see yet changes nothing that is listed.
    let mut resumes = Broker::new(&coordinator, "b2").await;
    assert!(matches!(resumes.news().await, Came::Snapshot));
    let kept = resumes.snapshot.clone();
    drop(resumes);
    let wider = coordinator::UpdateLoadConfigRequest {
        collections: vec!["t".into()],
        replicas: 2,
        resource_groups: vec!["east".into(), "west".into()],
        wait_for_groups: true,
        ..Default::default()
    };
    coordinator.loads().update_load_config(wider).await.unwrap();
    let (version, delta) = drops(&mut broker, "t").await;
    assert_eq!((version, delta.collections.len()), (delta.after, 0), "{delta:?}");
    coordinator.create("v").await.unwrap();
    broker.until(has("v")).await;

    let mut resumed = Broker::resume(&coordinator, "b2", kept).await.unwrap();
    let (missed, delta) = drops(&mut resumed, "t").await;
    assert_eq!(missed, version, "{delta:?}");
    assert!(has("v")(&resumed.snapshot), "what was missed came as one");
    coordinator.release("t").await;
    drops(&mut broker, "t").await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_without_history_has_all_leaders_dropped() {
    let cluster = Cluster::new();
    let (coordinator, _node) = loaded(&cluster, cluster.settings("c1")).await;
    let mut broker = Broker::new(&coordinator, "b1").await;
    broker.until(serves).await;
    let kept = broker.snapshot;
    coordinator.stop().await.unwrap();
    let coordinator = cluster.active().await;
    let resume = || async { Broker::resume(&coordinator, "b1", kept.clone()).await.ok() };
    let mut broker = until("a watch", resume).await;
    let Came::Delta(delta) = broker.news().await else { panic!("a snapshot") };
    assert_eq!(delta.leader_drops, LeaderDrops::All);
    coordinator.stop().await.unwrap();
}
