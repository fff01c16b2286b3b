//! The stored snapshot.

use std::{fs, sync::Arc, time::Duration};

use pointsman_clock::{Clock, MonoTime, SystemClock, WallTime};
use pointsman_routing::RouteRequest;

use crate::{
    coordinator::{Broker, Feed, Process, anywhere},
    values::{collection, nodes, snapshot, until},
};

/// The machine's clock, with a wall clock that is ahead.
#[derive(Debug, Default)]
struct Ahead(SystemClock, Duration);

impl Clock for Ahead {
    fn mono(&self) -> MonoTime {
        self.0.mono()
    }

    fn wall(&self) -> WallTime {
        WallTime(self.0.wall().0 + u64::try_from(self.1.as_nanos()).unwrap())
    }
}

/// A folder in which a broker that heard version 1 has left its snapshot, and a coordinator's address where nobody
/// listens any more.
async fn stored() -> (tempfile::TempDir, Process) {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::new(5, snapshot(1, nodes(2), vec![collection("t", 1, 2, &[1, 2])]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    broker.stop().await;
    (folder, coordinator)
}

/// Somebody who is no coordinator.
async fn away() -> Process {
    Process::node_at(anywhere()).await
}

#[tokio::test]
async fn a_broker_starts_from_it_and_tells_its_age_while_the_coordinator_is_away() {
    let (folder, _) = stored().await;
    let nobody = away().await;
    let ahead = |start: &mut (_, Arc<dyn Clock>)| {
        start.1 = Arc::new(Ahead(SystemClock::default(), Duration::from_secs(600)));
    };
    let broker = Broker::start_with(folder.path(), &[&nobody], ahead).await;
    assert!(broker.routing.is_ready(), "ready before anything else happens");
    let view = broker.routing.view();
    assert_eq!(view.route(&RouteRequest::all("t", 0)).unwrap().parts[0].segments.len(), 1);
    let state = broker.routing.feed();
    assert!(!state.connected && state.refused.is_none());
    let age = state.age.unwrap();
    assert!(age >= Duration::from_secs(600) && age < Duration::from_secs(660), "{age:?}");
    // A second stop keeps when the coordinator was heard.
    broker.stop().await;
    let again = |start: &mut (_, Arc<dyn Clock>)| {
        start.1 = Arc::new(Ahead(SystemClock::default(), Duration::from_secs(1200)));
    };
    let broker = Broker::start_with(folder.path(), &[&nobody], again).await;
    assert!(broker.routing.feed().age.unwrap() >= Duration::from_secs(1200));
}

#[tokio::test]
async fn one_that_is_too_old_is_refused_until_the_coordinator_is_heard() {
    let (folder, former) = stored().await;
    let address = former.kill().await;
    let nobody = away().await;
    let ahead = |start: &mut (pointsman_routing::Settings, Arc<dyn Clock>)| {
        start.0.local.coordinators.push(format!("http://{address}").parse().unwrap());
        start.1 = Arc::new(Ahead(SystemClock::default(), Duration::from_secs(3700)));
    };
    let broker = Broker::start_with(folder.path(), &[&nobody], ahead).await;
    assert!(!broker.routing.is_ready());
    let why = broker.routing.feed().refused.unwrap();
    assert!(why.contains("max_snapshot_age"), "{why}");
    let _coordinator = Feed::new(6, snapshot(2, nodes(1), vec![])).serve_at(address).await;
    until("the coordinator is heard", || broker.routing.is_ready()).await;
    assert_eq!(broker.routing.feed().refused, None);
}

#[tokio::test]
async fn a_damaged_one_is_set_aside() {
    let (folder, _) = stored().await;
    let path = folder.path().join("routing-snapshot");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let broker = Broker::start(folder.path(), &[&away().await]).await;
    assert!(!broker.routing.is_ready());
    let why = broker.routing.feed().refused.unwrap();
    assert!(why.contains("damaged") && why.contains("routing-snapshot.corrupt"), "{why}");
    assert!(!path.exists() && folder.path().join("routing-snapshot.corrupt").exists());
}

#[tokio::test]
async fn one_of_another_cluster_is_refused() {
    let (folder, _) = stored().await;
    let elsewhere =
        |start: &mut (pointsman_routing::Settings, _)| start.0.local.name = "far".parse().unwrap();
    let broker = Broker::start_with(folder.path(), &[&away().await], elsewhere).await;
    assert!(!broker.routing.is_ready());
    assert!(broker.routing.feed().refused.unwrap().contains("'local'"));
}

#[tokio::test]
async fn the_epoch_outlives_a_restart() {
    let (folder, former) = stored().await;
    let address = former.kill().await;
    let _older = Feed::new(4, snapshot(99, nodes(9), vec![])).serve_at(address).await;
    let newer = Feed::new(5, snapshot(2, nodes(3), vec![])).serve().await;
    let both = |start: &mut (pointsman_routing::Settings, _)| {
        start.0.local.coordinators.insert(0, format!("http://{address}").parse().unwrap());
    };
    let broker = Broker::start_with(folder.path(), &[&newer], both).await;
    until("a coordinator is believed", || broker.version() != 1).await;
    assert_eq!(broker.version(), 2);
}

#[tokio::test]
async fn the_first_snapshot_is_stored_at_once_and_survives_a_broker_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Feed::new(1, snapshot(1, nodes(2), vec![])).serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("it is stored", || folder.path().join("routing-snapshot").exists()).await;
    drop(broker);
    let broker = Broker::start(folder.path(), &[&away().await]).await;
    assert_eq!(broker.version(), 1);
}
