//! Groups that still serve a former target.

use pointsman_ids::CollectionId;
use pointsman_query_coord::answers::readiness;

use crate::world::{Lead, World, lead, shard, two_groups};

fn behind(world: &World, group: Option<&str>) -> (bool, usize) {
    let verdict = readiness(&world.build().wired(), CollectionId(1), group);
    assert!(verdict.behind.iter().all(|name| *name == shard("a")));
    (verdict.is_ready(), verdict.behind.len())
}

#[test]
fn a_leader_with_an_older_target_serves_and_is_behind() {
    let mut world = two_groups();
    world.leaders = vec![Lead { target_version: 4, ..lead(1) }, lead(2)];
    assert_eq!(behind(&world, Some("east")), (true, 1));
    assert_eq!(behind(&world, Some("west")), (true, 0));
    // Over all groups somebody serves what is new.
    assert_eq!(behind(&world, None), (true, 0));
}

#[test]
fn a_leader_ahead_of_the_current_target_is_not_behind() {
    let mut world = two_groups();
    world.leaders = vec![Lead { target_version: 6, ..lead(1) }];
    assert_eq!(behind(&world, Some("east")), (true, 0));
}

#[test]
fn a_shard_that_nobody_serves_is_not_behind_but_unready() {
    let mut world = two_groups();
    world.leaders = vec![Lead { target_version: 4, serviceable: false, ..lead(1) }];
    assert_eq!(behind(&world, Some("east")), (false, 0));
}
