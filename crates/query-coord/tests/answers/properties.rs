//! Random worlds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, ReplicaId};
use pointsman_query_coord::{
    LoadStatus, Wired,
    answers::{
        Entry, Form, Readiness, ReplicaProgress, ServerState, ShardLeaders, health_check, load_percentage,
        readiness, replica_percentages, replica_progress, shard_leaders, show_load, show_loads,
    },
};
use proptest::{prelude::*, sample::subsequence};

use crate::{
    model::{Code, Listed, Verdict},
    world::{Copy, Failed, Lead, Missing, Registration, Wish, World},
};

const COLLECTIONS: [u64; 2] = [1, 2];
const GROUPS: [&str; 3] = ["default", "east", "west"];
/// By name 10 and 11 come before 2 and 9.
const NODES: [u64; 5] = [2, 9, 10, 11, 12];
const SHARDS: [&str; 3] = ["Z", "a", "b"];
const ASKED: [Option<&str>; 6] = [None, Some(""), Some("default"), Some("east"), Some("west"), Some("wset")];

fn registration() -> impl Strategy<Value = Registration> {
    let percentage = prop_oneof![Just(100), Just(99), Just(0), 0..=100_u8];
    (any::<bool>(), prop::collection::vec(percentage, 0..3), 0..10_u64)
        .prop_map(|(loaded, percentages, updated_at)| Registration { loaded, percentages, updated_at })
}

fn wish() -> impl Strategy<Value = Wish> {
    let shards =
        prop_oneof![4 => subsequence(SHARDS.to_vec(), 1..=3), 1 => subsequence(SHARDS.to_vec(), 0..=3)];
    let segments = prop::collection::btree_map(0..12_u64, prop::sample::select(SHARDS.to_vec()), 0..10);
    (1..4_u64, shards, segments).prop_flat_map(|(version, shards, segments)| {
        let segments: Vec<_> = segments.into_iter().collect();
        let shards: BTreeSet<_> = shards.into_iter().collect();
        Just(segments).prop_shuffle().prop_map(move |segments| Wish {
            version,
            shards: shards.clone(),
            segments,
        })
    })
}

fn copies() -> impl Strategy<Value = Vec<Copy>> {
    let copy = (
        prop::sample::select(COLLECTIONS.to_vec()),
        prop::sample::select(GROUPS.to_vec()),
        subsequence(NODES.to_vec(), 0..=3),
        0..4_usize,
        prop::bool::weighted(0.8),
    );
    prop::collection::vec(copy, 0..6).prop_map(|copies| {
        // Numbers fall, so that the order of creation is not that of the numbers.
        let numbered = (1..10_u64).rev().zip(copies);
        let copy = |(id, (collection, group, nodes, drained, visible)): (
            u64,
            (u64, &'static str, Vec<u64>, usize, bool),
        )| {
            let (ro_nodes, nodes) = nodes.split_at(drained.min(nodes.len()));
            let set = |ids: &[u64]| ids.iter().copied().collect();
            Copy { id, collection, group, nodes: set(nodes), ro_nodes: set(ro_nodes), visible }
        };
        numbered.map(copy).collect()
    })
}

fn leads() -> impl Strategy<Value = Vec<Lead>> {
    let key = (
        prop::sample::select(NODES.to_vec()),
        prop::sample::select(COLLECTIONS.to_vec()),
        prop::sample::select(SHARDS.to_vec()),
    );
    let said =
        (1..4_u64, prop::bool::weighted(0.7), 0..4_u64, subsequence((0..12_u64).collect::<Vec<_>>(), 0..=12));
    prop::collection::btree_map(key, said, 0..20).prop_flat_map(|leads| {
        let lead = |((node, collection, shard), (version, serviceable, target_version, segments))| Lead {
            node,
            collection,
            shard,
            version,
            serviceable,
            target_version,
            segments,
        };
        Just(leads.into_iter().map(lead).collect::<Vec<_>>()).prop_shuffle()
    })
}

fn failures() -> impl Strategy<Value = Vec<Failed>> {
    let codes = [ErrorCode::ServiceNotReady, ErrorCode::SegmentLoadFailed, ErrorCode::ParameterInvalid];
    let failed = (prop::sample::select(codes.to_vec()), 1..3_u64, 0..3_u64);
    prop::collection::vec(failed.prop_map(|(code, count, last)| Failed { code, count, last }), 0..3)
}

fn missing() -> impl Strategy<Value = Missing> {
    use Missing::{
        Distribution, Everything, FailedLoads, Groups, Nodes, Nothing, Registrations, Replicas, Targets,
    };
    let some = [Everything, Registrations, Replicas, Groups, Targets, Distribution, Nodes, FailedLoads];
    prop_oneof![9 => Just(Nothing), 1 => prop::sample::select(some.to_vec())]
}

fn by_collection<T: std::fmt::Debug>(
    each: impl Strategy<Value = T>,
) -> impl Strategy<Value = BTreeMap<u64, T>> {
    prop::collection::btree_map(prop::sample::select(COLLECTIONS.to_vec()), each, 0..=2)
}

prop_compose! {
    fn world()(
        registrations in prop_oneof![3 => by_collection(registration()), 1 => Just(BTreeMap::new())],
        groups in subsequence(GROUPS.to_vec(), 0..=3),
        replicas in copies(),
        current in by_collection(wish()),
        next in by_collection(wish()),
        leaders in leads(),
        known in subsequence(NODES.to_vec(), 2..=5).prop_shuffle(),
        failed in by_collection(failures()),
        missing in missing(),
    ) -> World {
        let groups = groups.into_iter().collect();
        let restarted = BTreeSet::new();
        World { registrations, groups, replicas, current, next, leaders, known, restarted, failed, missing }
    }
}

fn code<T>(result: Result<T, Error>) -> Result<T, Code> {
    result.map_err(|error| error.code().number())
}

fn as_verdict(readiness: &Readiness) -> Verdict {
    let known = |name: &str| SHARDS.into_iter().find(|shard| *shard == name).unwrap();
    Verdict {
        reason: readiness.reason.as_str(),
        error: readiness.error.as_ref().map(|error| error.code().number()),
        total: readiness.total_shards,
        unready: readiness.unready_shards.iter().map(|unready| known(unready.shard.as_str())).collect(),
        behind: readiness.behind.iter().map(|shard| known(shard.as_str())).collect(),
    }
}

fn as_listed(shards: Vec<ShardLeaders>) -> Listed {
    let known =
        |names: &[&'static str], name: &str| names.iter().copied().find(|each| *each == name).unwrap();
    let leaders = |shard: &ShardLeaders| {
        let leader = |leader: &pointsman_query_coord::answers::ListedLeader| {
            assert_eq!(
                leader.address,
                format!("n{}:7000", leader.node),
                "the address is that of the same leader"
            );
            (leader.node_id.0, leader.serviceable, known(&GROUPS, leader.group.as_str()))
        };
        shard.leaders.iter().map(leader).collect()
    };
    shards.iter().map(|shard| (known(&SHARDS, shard.shard.as_str()), leaders(shard))).collect()
}

/// Everything that can be asked about a world, in words.
fn all_answers(stores: &Wired<'_>) -> Vec<String> {
    let mut answers = Vec::new();
    for collection in COLLECTIONS.map(CollectionId) {
        for group in ASKED {
            answers.push(format!("{:?}", replica_progress(stores, collection, group)));
            answers.push(format!("{:?}", readiness(stores, collection, group)));
        }
        for form in [Form::Strict, Form::Loose] {
            answers.push(format!("{:?}", shard_leaders(stores, collection, form)));
        }
        answers.push(format!("{:?}", show_load(stores, collection)));
    }
    answers.push(format!("{:?}", health_check(stores, WallTime(10), Duration::from_nanos(3))));
    answers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_that_of_the_rules(world in world()) {
        let built = world.build();
        let stores = built.wired();
        for id in COLLECTIONS {
            let collection = CollectionId(id);
            for group in ASKED {
                let figures = world.percentages(id, group);
                let told = code(replica_percentages(&stores, collection, group));
                let told = told.map(|map| map.into_iter().map(|(id, figure)| (id.0, figure)).collect());
                prop_assert_eq!(&told, &figures, "{:?}", group);
                let least = figures.map(|map| map.into_values().min());
                prop_assert_eq!(code(load_percentage(&stores, collection, group)), least);
                prop_assert_eq!(as_verdict(&readiness(&stores, collection, group)), world.verdict(id, group));
            }
            for form in [Form::Strict, Form::Loose] {
                let told = code(shard_leaders(&stores, collection, form)).map(as_listed);
                prop_assert_eq!(told, world.listed(id, form == Form::Strict));
            }
            let shown = code(show_load(&stores, collection));
            let shown = shown.map(|shown| (i64::from(shown.percentage), shown.status == LoadStatus::Loaded));
            prop_assert_eq!(shown, world.shown(id));
        }
        let unhealthy = code(health_check(&stores, WallTime(10), Duration::from_nanos(3)));
        let unhealthy = unhealthy.map(|all| all.iter().map(|each| (each.collection.0, each.error.code().number())).collect());
        prop_assert_eq!(unhealthy, world.unqueryable(10, 3));
    }

    #[test]
    fn the_ends_are_never_rounded(world in world()) {
        let built = world.build();
        for id in COLLECTIONS {
            let Ok(replicas) = replica_progress(&built.wired(), CollectionId(id), None) else { continue };
            for (progress, copy) in replicas.iter().zip(world.replicas.iter().filter(|copy| copy.collection == id)) {
                let (carried, total) = world.carries(copy);
                prop_assert_eq!(progress.percentage() == 0, carried == 0);
                prop_assert_eq!(progress.percentage() == 100, carried == total && total > 0);
            }
        }
    }

    #[test]
    fn a_figure_is_rounded_down_between_its_ends(total in 1..=3_000_000_u64, part in 0.0..=1.0_f64, off in 0..3_u64) {
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any number will do")]
        let near = (part * total as f64) as u64;
        for carried in [near, off, total.saturating_sub(off)].map(|carried| carried.min(total)) {
            let (replica, group) = (ReplicaId(1), GroupName::default_group());
            let figure = u64::from(ReplicaProgress { replica, group, carried, total }.percentage());
            prop_assert_eq!(figure == 0, carried == 0);
            prop_assert_eq!(figure == 100, carried == total);
            prop_assert!(figure * total <= carried * 100 || figure == 1);
            prop_assert!((figure + 1) * total > carried * 100);
        }
    }

    #[test]
    fn the_order_in_which_things_came_says_nothing(world in world(), turn in any::<prop::sample::Index>()) {
        let mut other = world.clone();
        other.leaders.reverse();
        other.known.reverse();
        if !other.leaders.is_empty() {
            let turn = turn.index(other.leaders.len());
            other.leaders.rotate_left(turn);
        }
        for wish in other.current.values_mut().chain(other.next.values_mut()) {
            wish.segments.reverse();
        }
        // Replicas of one collection keep their order, which is that of their creation.
        other.replicas.sort_by_key(|copy| std::cmp::Reverse(copy.collection));
        prop_assert_eq!(all_answers(&world.build().wired()), all_answers(&other.build().wired()));
    }

    #[test]
    fn where_a_group_is_ready_each_shard_has_a_leader_of_it(world in world()) {
        let built = world.build();
        let stores = built.wired();
        for collection in COLLECTIONS.map(CollectionId) {
            for group in ASKED {
                let verdict = readiness(&stores, collection, group);
                if !verdict.is_ready() {
                    continue;
                }
                let group = group.filter(|group| !group.is_empty());
                for form in [Form::Strict, Form::Loose] {
                    // The strict form may still be behind the gate of the whole collection, or of another group's shard.
                    let Ok(listed) = shard_leaders(&stores, collection, form) else {
                        prop_assert_eq!(form, Form::Strict);
                        continue;
                    };
                    prop_assert_eq!(listed.len(), verdict.total_shards);
                    for shard in listed {
                        let serves = |leader: &pointsman_query_coord::answers::ListedLeader| {
                            leader.serviceable && group.is_none_or(|group| leader.group.as_str() == group)
                        };
                        prop_assert!(shard.leaders.iter().any(serves), "{:?}", shard);
                    }
                }
            }
        }
    }

    #[test]
    fn before_the_server_is_healthy_nothing_is_answered(world in world(), stopping in any::<bool>()) {
        let built = world.build();
        let state = if stopping { ServerState::Stopping } else { ServerState::Initializing };
        let entry = Entry { state, stores: built.wired() };
        let healthy = Entry { state: ServerState::Healthy, ..entry };
        for collection in COLLECTIONS.map(CollectionId) {
            for group in ASKED {
                prop_assert_eq!(code(entry.load_percentage(collection, group)), Err(1));
                prop_assert_eq!(code(entry.replica_percentages(collection, group)), Err(1));
                prop_assert_eq!(code(entry.replica_progress(collection, group)), Err(1));
                let verdict = entry.readiness(collection, group);
                prop_assert_eq!(verdict.reason.as_str(), "coordinator_not_ready");
                prop_assert_eq!(verdict.error.map(|error| error.code().number()), Some(1));
                let through = healthy.readiness(collection, group);
                prop_assert_eq!(through, readiness(&built.wired(), collection, group));
                let through = healthy.load_percentage(collection, group);
                prop_assert_eq!(through, load_percentage(&built.wired(), collection, group));
            }
            prop_assert_eq!(code(entry.shard_leaders(collection, Form::Loose)), Err(1));
            prop_assert_eq!(code(entry.show_load(collection)), Err(1));
            prop_assert_eq!(code(entry.show_partitions(collection, &[])), Err(1));
            let through = healthy.shard_leaders(collection, Form::Strict);
            prop_assert_eq!(through, shard_leaders(&built.wired(), collection, Form::Strict));
        }
        prop_assert_eq!(code(entry.show_loads()), Err(1));
        prop_assert_eq!(code(entry.health_check(WallTime(0), Duration::ZERO)), Err(1));
        prop_assert_eq!(healthy.show_loads(), show_loads(&built.wired()));
    }
}
