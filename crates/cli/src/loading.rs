//! Following loads until they have arrived.

mod followed;
mod shown;

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::coordinator::v1::{
    CollectionLoad, GetCoordinatorRequest, ListBrokersRequest, ShowLoadRequest,
};
use tokio::time::Instant;

use self::{followed::Followed, shown::Shown};
use crate::{
    Failure,
    client::{Coordinator, answer, is_passing},
};

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long something that is loaded may lag behind what it should be before it is told what is in the way.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the coordinator may take to publish what it shows.
const SETTLE: Duration = Duration::from_millis(100);

/// Waits until every one of `collections` is served by all of its groups, showing progress per group. Gives their loads.
///
/// # Errors
/// As [`wait_until`].
pub(crate) async fn wait(
    coordinator: &Coordinator,
    collections: &[String],
    deadline: Instant,
) -> anyhow::Result<Vec<CollectionLoad>> {
    wait_until(coordinator, collections, has_arrived, deadline).await
}

/// Waits until every one of `collections` has arrived, showing progress per group. Gives their loads.
///
/// # Errors
/// [`Failure::NotReady`] at the deadline, naming collections, groups and what is in the way there;
/// [`Failure::Failed`] when a load was given up, with the cause; errors of the coordinator that will not pass. A
/// coordinator that is away for a while is waited for.
pub(crate) async fn wait_until(
    coordinator: &Coordinator,
    collections: &[String],
    has_arrived: impl Fn(&CollectionLoad) -> bool,
    deadline: Instant,
) -> anyhow::Result<Vec<CollectionLoad>> {
    let began = Instant::now();
    let mut coordinator = coordinator.clone();
    let mut shown = Shown::new();
    let mut followed = Followed::default();
    loop {
        let loads = match show(&coordinator, collections).await {
            Ok(loads) => loads,
            Err(error) if is_passing(&error) && Instant::now() < deadline => {
                shown.say("waiting for a coordinator");
                tokio::time::sleep(LOOK).await;
                coordinator = coordinator.find_again().await.unwrap_or(coordinator);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        shown.update(&progress(&loads));
        let stands = |load: &&CollectionLoad| load.stalled_ms.is_some() || began.elapsed() >= PATIENCE;
        loads
            .iter()
            .filter(stands)
            .flat_map(|load| &load.obstacles)
            .for_each(|obstacle| shown.remind(obstacle));
        if let Some(why) = followed.given_up(&loads) {
            shown.finish();
            return Err(Failure::Failed(why).into());
        }
        if let Some(name) = followed.vanished(collections, &loads) {
            shown.finish();
            return Err(ended(&coordinator, name).await.into());
        }
        if loads.len() == collections.len() && loads.iter().all(&has_arrived) {
            shown.finish();
            wait_for_brokers(&coordinator, deadline).await;
            return Ok(loads);
        }
        if Instant::now() >= deadline {
            shown.finish();
            return Err(
                Failure::NotReady(format!("not loaded in time: {}", missing(&loads, &has_arrived))).into()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until every broker with a live watch routes by what the coordinator knows now, so that a query right after a load
/// finds it. Not at any price: the load has arrived, and a broker that is behind catches up by itself.
async fn wait_for_brokers(coordinator: &Coordinator, deadline: Instant) {
    while Instant::now() < deadline {
        // What has just arrived is about to be published.
        tokio::time::sleep(SETTLE).await;
        let about = answer(coordinator.cluster().get_coordinator(GetCoordinatorRequest {}).await);
        let brokers = answer(coordinator.cluster().list_brokers(ListBrokersRequest {}).await);
        let (Ok(about), Ok(brokers)) = (about, brokers) else { return };
        if brokers.brokers.iter().all(|broker| broker.applied_version >= about.feed_version) {
            return;
        }
    }
}

/// Loads that are registered, of these collections only; all of them when none are named.
pub(crate) async fn show(
    coordinator: &Coordinator,
    collections: &[String],
) -> Result<Vec<CollectionLoad>, Error> {
    let request = ShowLoadRequest::default();
    let mut loads = answer(coordinator.query_coord().show_load(request).await)?.collections;
    loads.retain(|load| collections.is_empty() || collections.contains(&load.collection));
    Ok(loads)
}

/// Whether queries are answered from everything that was asked for.
pub(crate) fn has_arrived(load: &CollectionLoad) -> bool {
    let partitions = load.partitions.iter().all(|partition| partition.loaded);
    load.serving && partitions && load.groups.iter().all(|group| group.ready && group.percent == 100)
}

/// Why a collection is not loaded any more, as the coordinator tells it.
async fn ended(coordinator: &Coordinator, name: &str) -> Error {
    let request = ShowLoadRequest { collection: name.to_owned(), ..ShowLoadRequest::default() };
    let text = match answer(coordinator.query_coord().show_load(request).await) {
        Err(error) => return coordinator.explain(error, name).await,
        Ok(_) => format!("'{name}' was released and loaded again meanwhile"),
    };
    Error::new(ErrorCode::CollectionNotLoaded, text)
}

/// Segment copies held and wanted per group, over all collections.
fn progress(loads: &[CollectionLoad]) -> BTreeMap<String, (u64, u64)> {
    let mut groups = BTreeMap::new();
    for group in loads.iter().flat_map(|load| &load.groups) {
        let (held, wanted) = groups.entry(group.resource_group.clone()).or_insert((0, 0));
        *held += group.segments_held.min(group.segments_wanted);
        *wanted += group.segments_wanted;
    }
    groups
}

/// What has not arrived, and why.
fn missing(loads: &[CollectionLoad], has_arrived: &impl Fn(&CollectionLoad) -> bool) -> String {
    const SHOWN: usize = 5;
    let mut parts = Vec::new();
    for load in loads.iter().filter(|load| !has_arrived(load)) {
        let known = parts.len();
        for group in load.groups.iter().filter(|group| !(group.ready && group.percent == 100)) {
            let mut part = format!(
                "{} in group {}: {} of {} segments",
                load.collection, group.resource_group, group.segments_held, group.segments_wanted
            );
            if let Some(failure) = group.failures.first() {
                let why = failure.error.as_ref().map_or("unknown cause", |error| error.message.as_str());
                part += &format!(" (node {}, segment {}: {why})", failure.node, failure.segment);
            }
            parts.push(part);
        }
        parts.extend(load.obstacles.iter().cloned());
        if parts.len() == known {
            parts.push(format!("{}: what was loaded is not what queries see yet", load.collection));
        }
    }
    if parts.is_empty() {
        return "the coordinator shows no such load any more".into();
    }
    let more = parts.len().saturating_sub(SHOWN);
    parts.truncate(SHOWN);
    if more > 0 {
        parts.push(format!("and {more} more (`pointsman status` shows all)"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use pointsman_proto::{
        common::v1::Error,
        coordinator::v1::{GroupLoad, LoadFailure, PartitionLoad},
    };

    use super::*;

    fn load(collection: &str, held: u64) -> CollectionLoad {
        let east = GroupLoad {
            resource_group: "east".into(),
            percent: u32::try_from(held * 25).unwrap(),
            segments_wanted: 4,
            segments_held: held,
            ready: held == 4,
            ..GroupLoad::default()
        };
        CollectionLoad {
            collection: collection.into(),
            serving: true,
            groups: vec![east],
            ..CollectionLoad::default()
        }
    }

    #[test]
    fn a_load_has_arrived_when_every_group_is_ready() {
        assert!(has_arrived(&load("orders", 4)));
        assert!(!has_arrived(&load("orders", 3)));
        assert!(!has_arrived(&CollectionLoad { serving: false, ..load("orders", 4) }));
    }

    #[test]
    fn groups_add_up_over_collections() {
        let groups = progress(&[load("orders", 4), load("lineitem", 1)]);
        assert_eq!(groups, BTreeMap::from([("east".into(), (5, 8))]));
    }

    #[test]
    fn what_is_missing_names_collection_group_and_cause() {
        let mut late = load("lineitem", 1);
        late.groups[0].failures.push(LoadFailure {
            node: "n1".into(),
            segment: "a".into(),
            tries: 3,
            error: Some(Error { message: "checksum differs".into(), ..Error::default() }),
        });
        assert_eq!(
            missing(&[load("orders", 4), late], &has_arrived),
            "lineitem in group east: 1 of 4 segments (node n1, segment a: checksum differs)"
        );
        let newer = |load: &CollectionLoad| load.current_version > 3;
        let text = missing(&[load("orders", 4)], &newer);
        assert_eq!(text, "orders: what was loaded is not what queries see yet");
    }

    #[test]
    fn a_partition_that_loads_has_not_arrived() {
        let loads = PartitionLoad { partition: "p".into(), loaded: false, percent: 0 };
        assert!(!has_arrived(&CollectionLoad { partitions: vec![loads], ..load("orders", 4) }));
    }
}
