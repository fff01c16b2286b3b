//! Collections that cannot be queried.

use std::time::Duration;

use pointsman_clock::WallTime;
use pointsman_ids::ErrorCode;
use pointsman_query_coord::answers::health_check;

use crate::world::{Missing, Registration, World, lead, two_groups};

const AFTER: Duration = Duration::from_nanos(300);

fn unqueryable(world: &World, now: u64) -> Vec<(u64, ErrorCode)> {
    let found = health_check(&world.build().wired(), WallTime(now), AFTER).unwrap();
    found.iter().map(|each| (each.collection.0, each.error.code())).collect()
}

#[test]
fn told_once_it_has_not_been_updated_for_a_while() {
    let mut world = two_groups();
    world.registrations.get_mut(&1).unwrap().updated_at = 100;
    assert_eq!(unqueryable(&world, 399), []);
    assert_eq!(unqueryable(&world, 400), [(1, ErrorCode::ChannelNotAvailable)]);
    world.registrations.insert(1, Registration::at(40));
    assert_eq!(unqueryable(&world, 400), [(1, ErrorCode::CollectionNotFullyLoaded)]);
    world.registrations.insert(1, Registration::at(100));
    world.current.clear();
    assert_eq!(unqueryable(&world, 400), [(1, ErrorCode::CollectionOnRecovering)]);
    world.registrations.insert(1, Registration { percentages: Vec::new(), ..Registration::at(0) });
    assert_eq!(unqueryable(&world, 400), [], "it is not registered any more");
}

#[test]
fn invisible_replicas_count() {
    let mut world = two_groups();
    world.replicas[0].visible = false;
    world.leaders = vec![lead(1)];
    assert_eq!(unqueryable(&world, 1000), []);
}

#[test]
fn without_stores_nothing_is_known() {
    let world = World { missing: Missing::Nodes, ..two_groups() };
    let error = health_check(&world.build().wired(), WallTime(1000), AFTER).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceNotReady);
}
