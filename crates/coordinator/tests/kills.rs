//! PostgreSQL is killed at random moments under pushes, replacements, loads and changes of groups: what was acknowledged is there
//! afterwards, and nothing is there by half.
//!
//! Ten times as a rule; `POINTSMAN_TEST_KILLS=100` says another number. The moments follow from a seed.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use cluster::*;
use pointsman_ids::Error;
use pointsman_metastore::{OpenOptions, SharedMetastore};
use pointsman_proto::{coordinator::v1 as pb, error};
use pointsman_settings::CoordinatorSettings;
use pointsman_testkit::Postgres;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Kills, unless a variable says another number.
const KILLS: u32 = 10;

/// Segments of a push: more than fit into one statement's batch are tested elsewhere, enough to be cut in the middle are here.
const PUSHED: u32 = 400;

/// Whether an operation was acknowledged. Without, it was done or not, and nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Unknown,
}

/// What was asked for, each under a name of its own.
#[derive(Debug, Default)]
struct Asked {
    pushes: BTreeMap<String, Fate>,
    /// The push whose segments took the place of this one's. It is among the pushes too.
    replaced: BTreeMap<String, String>,
    loads: BTreeMap<String, Fate>,
    releases: BTreeMap<String, Fate>,
    groups: BTreeMap<String, Fate>,
    drops: BTreeMap<String, Fate>,
}

/// Works until the first call fails, which is what becomes unknown.
struct Worker {
    catalog: String,
    /// What it pushes, but for the name.
    segment: pb::Segment,
    cluster: Arc<Cluster>,
    coordinator: Arc<Coordinator>,
    asked: Asked,
    /// Makes names that nobody had before.
    count: u32,
}

fn said<T>(answer: Result<tonic::Response<T>, tonic::Status>) -> Result<(), Error> {
    answer.map(drop).map_err(|status| error(&status))
}

impl Worker {
    fn name(&self, kind: &str) -> String {
        format!("{kind}-{}-{:06}", self.catalog, self.count)
    }

    /// Does one thing after the other. The call that fails must be one that may be tried again.
    async fn work(&mut self) {
        loop {
            self.count += 1;
            let done = match self.count % 8 {
                1 | 5 => self.push().await,
                2 | 6 => self.load().await,
                3 => self.group().await,
                7 => self.replace().await,
                _ => self.release_and_drop().await,
            };
            if let Err(refused) = done {
                assert!(refused.is_retriable(), "{refused}");
                return;
            }
        }
    }

    /// The segments of a push.
    fn segments(&self, push: &str) -> Vec<pb::Segment> {
        let named = |number| pb::Segment { name: format!("{push}.{number}"), ..self.segment.clone() };
        (0..PUSHED).map(named).collect()
    }

    async fn push(&mut self) -> Result<(), Error> {
        let push = self.name("push");
        self.asked.pushes.insert(push.clone(), Fate::Unknown);
        self.coordinator.push(&self.catalog, self.segments(&push)).await?;
        self.asked.pushes.insert(push, Fate::Acknowledged);
        Ok(())
    }

    /// Puts a new push in the place of the newest one that was acknowledged.
    async fn replace(&mut self) -> Result<(), Error> {
        let mut there =
            self.asked.pushes.iter().filter(|(push, fate)| {
                **fate == Fate::Acknowledged && !self.asked.replaced.contains_key(*push)
            });
        let Some(old) = there.next_back().map(|(push, _)| push.clone()) else { return Ok(()) };
        let new = self.name("push");
        self.asked.pushes.insert(new.clone(), Fate::Unknown);
        self.asked.replaced.insert(old.clone(), new.clone());
        let request = pb::ReplaceSegmentsRequest {
            collection: self.catalog.clone(),
            old: self.segments(&old).into_iter().map(|segment| segment.name).collect(),
            new: self.segments(&new),
            check_only: false,
        };
        said(self.coordinator.catalog().replace_segments(request).await)?;
        self.asked.pushes.insert(new, Fate::Acknowledged);
        Ok(())
    }

    /// A new collection with a replica in each group.
    async fn load(&mut self) -> Result<(), Error> {
        let name = self.name("load");
        self.coordinator.create(&name).await?;
        self.coordinator.push(&name, vec![self.cluster.segment(&name, "a", 1)]).await?;
        self.asked.loads.insert(name.clone(), Fate::Unknown);
        self.coordinator.load(&name, &["east", "west"]).await?;
        self.asked.loads.insert(name, Fate::Acknowledged);
        Ok(())
    }

    async fn group(&mut self) -> Result<(), Error> {
        let name = self.name("group");
        self.asked.groups.insert(name.clone(), Fate::Unknown);
        let request = pb::CreateResourceGroupRequest { name: name.clone(), ..Default::default() };
        said(self.coordinator.groups().create_resource_group(request).await)?;
        self.asked.groups.insert(name, Fate::Acknowledged);
        Ok(())
    }

    /// Takes back the load that was acknowledged first, and drops its collection.
    async fn release_and_drop(&mut self) -> Result<(), Error> {
        let loaded =
            self.asked.loads.iter().find(|(name, fate)| {
                **fate == Fate::Acknowledged && !self.asked.releases.contains_key(*name)
            });
        let Some(name) = loaded.map(|(name, _)| name.clone()) else { return Ok(()) };
        self.asked.releases.insert(name.clone(), Fate::Unknown);
        let request = pb::ReleaseCollectionRequest { collection: name.clone() };
        said(self.coordinator.loads().release_collection(request).await)?;
        self.asked.releases.insert(name.clone(), Fate::Acknowledged);
        self.asked.drops.insert(name.clone(), Fate::Unknown);
        let request = pb::DropCollectionRequest { name: name.clone() };
        said(self.coordinator.catalog().drop_collection(request).await)?;
        self.asked.drops.insert(name, Fate::Acknowledged);
        Ok(())
    }
}

/// What the database holds, by name.
#[derive(Debug)]
struct Stored {
    collections: BTreeSet<String>,
    /// Segments by push.
    pushed: BTreeMap<String, u32>,
    /// Replicas by loaded collection; one without any is there as well.
    loads: BTreeMap<String, usize>,
    groups: BTreeSet<String>,
}

impl Stored {
    async fn read(metastore: &SharedMetastore) -> Self {
        let collections = metastore.collections().await.unwrap();
        let mut pushed = BTreeMap::new();
        for collection in &collections {
            for segment in metastore.segments(collection.id).await.unwrap() {
                let push = segment.content.name.as_str().split('.').next().unwrap().to_owned();
                *pushed.entry(push).or_default() += 1;
            }
        }
        let names: BTreeMap<_, _> =
            collections.into_iter().map(|collection| (collection.id, collection.name.to_string())).collect();
        let registered = metastore.loads().await.unwrap();
        let mut loads: BTreeMap<_, _> =
            registered.iter().map(|load| (names[&load.collection].clone(), 0)).collect();
        for replica in metastore.replicas().await.unwrap() {
            *loads.get_mut(&names[&replica.collection]).expect("a replica of a load") += 1;
        }
        for target in metastore.current_targets().await.unwrap() {
            assert!(loads.contains_key(&names[&target.collection]), "a target without a load");
        }
        let groups = metastore.groups().await.unwrap();
        let groups = groups.into_iter().map(|group| group.name.to_string()).collect();
        Self { collections: names.into_values().collect(), pushed, loads, groups }
    }

    /// Whether a push is there, or was and gave its place to another.
    fn was_pushed(&self, asked: &Asked, push: &str) -> bool {
        self.pushed.contains_key(push)
            || asked.replaced.get(push).is_some_and(|new| self.was_pushed(asked, new))
    }

    /// Everything acknowledged is there, nothing is there by half, and nothing that was taken back is there.
    fn check(&self, asked: &Asked) {
        for (push, fate) in &asked.pushes {
            let new = asked.replaced.get(push);
            match self.pushed.get(push) {
                Some(&PUSHED) => {
                    assert!(!new.is_some_and(|new| self.was_pushed(asked, new)), "{push} and {new:?}")
                }
                None => match new {
                    Some(new) => assert!(self.was_pushed(asked, new), "neither {push} nor {new} is there"),
                    None => assert_eq!(*fate, Fate::Unknown, "{push} is lost"),
                },
                Some(part) => panic!("{part} of {PUSHED} segments of {push} are there"),
            }
        }
        for (load, fate) in &asked.loads {
            let released = asked.releases.get(load);
            match (self.loads.get(load), released) {
                (Some(2), None | Some(Fate::Unknown)) => {}
                (None, Some(_)) => {}
                (None, None) => assert_eq!(*fate, Fate::Unknown, "{load} is lost"),
                other => panic!("{load}: {other:?}"),
            }
            if asked.drops.get(load) == Some(&Fate::Acknowledged) {
                assert!(!self.collections.contains(load), "{load} was dropped");
            }
        }
        for (group, fate) in &asked.groups {
            assert!(*fate == Fate::Unknown || self.groups.contains(group), "{group} is lost");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_postgresql_killed_at_any_moment() {
    let kills = std::env::var_os("POINTSMAN_TEST_KILLS")
        .map_or(KILLS, |number| number.to_str().unwrap().parse().expect("a number of kills"));
    let mut random = StdRng::seed_from_u64(20_261_130);
    let mut server = Postgres::start_durable().unwrap();
    let cluster = Arc::new(Cluster::new());
    let options = OpenOptions {
        acquire: Duration::from_secs(2),
        statement: Duration::from_secs(5),
        ..OpenOptions::default()
    };
    let open = async || pointsman_metastore::open(&server.url(), options).await.unwrap();
    // Every kill costs it one.
    let active_lease_ttl = Duration::from_millis(1500);
    let settings = CoordinatorSettings { active_lease_ttl, ..cluster.settings("c1") };
    let coordinator = Arc::new(cluster.start_over(settings, open().await).await);
    coordinator.is_active().await;
    // Loads make progress, which is written as well.
    let _nodes = [
        Hello::new("n1", "east").connect(&coordinator).await.unwrap(),
        Hello::new("n2", "west").connect(&coordinator).await.unwrap(),
    ];
    let mut workers = Vec::new();
    for number in 0..3 {
        let catalog = format!("c{number}");
        coordinator.create(&catalog).await.unwrap();
        let segment = cluster.segment(&catalog, "all", 1);
        let (cluster, coordinator) = (Arc::clone(&cluster), Arc::clone(&coordinator));
        workers.push(Worker { catalog, segment, cluster, coordinator, asked: Asked::default(), count: 0 });
    }
    let mut acknowledged = 0;
    for kill in 0..kills {
        let working = workers.into_iter().map(|mut worker| {
            tokio::spawn(async move {
                worker.work().await;
                worker
            })
        });
        let working: Vec<_> = working.collect();
        tokio::time::sleep(Duration::from_millis(random.random_range(20..700))).await;
        server.kill().unwrap();
        workers = Vec::new();
        for worker in working {
            workers.push(worker.await.unwrap());
        }
        server.start_again().unwrap();
        let metastore = pointsman_metastore::open(&server.url(), options).await.unwrap();
        // A write of this round takes its turn after those that were cut off: their fate is decided.
        let name = format!("round-{kill}");
        until("a coordinator that writes", || async { coordinator.create(&name).await.ok() }).await;
        let stored = Stored::read(&metastore).await;
        workers.iter().for_each(|worker| stored.check(&worker.asked));
        acknowledged = workers.iter().map(|worker| worker.asked.pushes.len()).sum();
        // The coordinator knows what is stored, also of that which it could not acknowledge.
        let listed = coordinator.catalog().list_collections(pb::ListCollectionsRequest {}).await.unwrap();
        let listed = listed.into_inner().collections;
        let names: BTreeSet<String> = listed.iter().map(|collection| collection.name.clone()).collect();
        assert_eq!(names, stored.collections);
        let segments: u64 = listed.iter().map(|collection| collection.segments).sum();
        assert_eq!(segments, stored.pushed.values().map(|count| u64::from(*count)).sum::<u64>());
    }
    assert!(acknowledged >= kills as usize, "{acknowledged} pushes in {kills} rounds");
}
