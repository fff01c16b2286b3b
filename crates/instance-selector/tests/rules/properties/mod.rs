//! Properties over random clusters, states and requests.

mod history;
mod requests;

use std::time::Duration;

use pointsman_ids::{
    GroupNumber,
    catalog::{RoutingOptions, SelectorKind},
    feed::CopyState,
};
use pointsman_instance_selector::{CopyInput, Membership, NodeIndex};
use proptest::prelude::*;

use crate::world::{Piece, World, staged};

/// Names in another order than their places.
const NAMES: [&str; 6] = ["n4", "n10", "m9", "n1", "n3", "a7"];

/// A cluster in which every node is enabled, disabled, excluded or not there.
fn world() -> impl Strategy<Value = World> {
    prop::collection::vec((0..8u8, any::<bool>(), -1..3i32), NAMES.len()).prop_map(|nodes| {
        let mut world = World::of("");
        for (name, (kind, excluded, pool)) in NAMES.iter().zip(nodes) {
            let node = world.node(name);
            if kind > 0 {
                let membership = Membership { enabled: kind > 1, pool: GroupNumber(pool) };
                world.members.insert(node, membership);
            }
            if excluded {
                world.unhealthy.insert((*name).to_owned());
            }
        }
        world
    })
}

fn state(often: u32) -> impl Strategy<Value = Option<CopyState>> {
    prop_oneof![
        often => Just(Some(CopyState::Online)),
        1 => Just(Some(CopyState::Consuming)),
        1 => Just(Some(CopyState::Offline)),
        1 => Just(Some(CopyState::Error)),
        1 => Just(None),
    ]
}

fn copy() -> impl Strategy<Value = CopyInput> {
    let node = 0..u32::try_from(NAMES.len()).unwrap();
    (node, 0..2i32, state(8), state(6)).prop_map(|(node, group, assigned, observed)| CopyInput {
        node: NodeIndex(node),
        group: GroupNumber(group),
        assigned,
        observed,
    })
}

/// A segment of any age around the window.
fn piece() -> impl Strategy<Value = Piece> {
    let copies = prop::collection::vec(copy(), 0..6);
    (prop::bool::weighted(0.2), 0..400u64, copies).prop_map(|(promoted, age, copies)| Piece {
        promoted,
        age: Duration::from_secs(age),
        copies,
    })
}

/// Settings that make sense.
fn options() -> impl Strategy<Value = RoutingOptions> {
    let selector = prop::sample::select(vec![
        SelectorKind::Balanced,
        SelectorKind::ReplicaGroup,
        SelectorKind::StrictReplicaGroup,
        SelectorKind::MultiStageReplicaGroup,
    ]);
    (selector, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(selector, consistent, fixed_replica, fail_closed)| RoutingOptions {
            selector,
            consistent_replicas: consistent && selector == SelectorKind::ReplicaGroup,
            fixed_replica,
            fail_closed,
            replica_groups: staged(&[(1, "n4,n10|m9"), (5, "n1|n3")]).replica_groups,
            samplers: vec![],
        },
    )
}
