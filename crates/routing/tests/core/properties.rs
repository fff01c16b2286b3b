//! Properties over random clusters and histories.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_failure_detector::Event;
use pointsman_ids::{
    GroupNumber, NodeKey,
    catalog::{Sampler, SelectorKind},
    feed::{Delta, Snapshot},
};
use pointsman_instance_selector::FailOpen;
use pointsman_routing::{Core, CoreSettings, RouteRequest, RoutingTable, Wanted};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::world::{Seg, Shape, World, key, reported, seg, settings, shape};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// One version of a collection: for each name whether it is there, and who should hold it and does.
type Version = Vec<Option<(Vec<usize>, Vec<usize>)>>;

fn version() -> impl Strategy<Value = Version> {
    let nodes = || vec(0..NODES.len(), 0..4);
    vec(proptest::option::weighted(0.7, (nodes(), nodes())), NAMES.len())
}

fn selector() -> impl Strategy<Value = SelectorKind> {
    select(vec![SelectorKind::Balanced, SelectorKind::ReplicaGroup, SelectorKind::StrictReplicaGroup])
}

fn listed(nodes: &[usize]) -> String {
    let nodes: BTreeSet<_> = nodes.iter().map(|node| NODES[*node]).collect();
    nodes.into_iter().collect::<Vec<_>>().join(" ")
}

fn with_shape<R>(
    version: &Version,
    selector: SelectorKind,
    promoted: bool,
    run: impl FnOnce(Shape<'_>) -> R,
) -> R {
    let texts: Vec<_> = NAMES
        .iter()
        .zip(version)
        .filter_map(|(name, held)| {
            held.as_ref().map(|(assigned, observed)| (name, listed(assigned), listed(observed)))
        })
        .collect();
    let segments: Vec<Seg<'_>> = texts
        .iter()
        .map(|(name, assigned, observed)| Seg { promoted, ..seg(name, assigned, observed) })
        .collect();
    let mut shape = shape("t", &segments).selector(selector);
    shape.routing.samplers = vec![Sampler { name: "few".to_owned(), first_n: 3 }];
    run(shape)
}

fn fail_open(enabled: bool) -> CoreSettings {
    let fail_open = FailOpen { enabled, multi_stage: false, strict: true };
    CoreSettings { fail_open, ..settings(&["home"]) }
}

/// All that a client could see of two cores differs in nothing.
fn assert_same(one: &Core, other: &Core) {
    for sampler in [None, Some("few")] {
        for id in 0..3 {
            let request = RouteRequest { sampler, ..RouteRequest::all("t", id) };
            let told = |core: &Core| {
                core.view().route(&request).map(|table| seen(&table)).map_err(|error| error.to_string())
            };
            assert_eq!(told(one), told(other));
        }
    }
    let gauges = |core: &Core| {
        let samples = core.view().samples().into_iter();
        samples
            .filter(|sample| sample.name.contains("segments") || sample.name.contains("percent"))
            .collect::<Vec<_>>()
    };
    assert_eq!(gauges(one), gauges(other));
}

fn seen(table: &RoutingTable) -> String {
    let RoutingTable { parts, unavailable, fail_open, new, optional_skipped, unknown, .. } = table;
    format!("{parts:?} {unavailable:?} {fail_open:?} {new:?} {optional_skipped:?} {unknown}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A history of deltas with exclusions in between ends where the last snapshot alone leads.
    #[test]
    fn the_incremental_state_equals_the_one_built_from_nothing(
        versions in vec(version(), 1..6),
        selector in selector(),
        excluded in vec(0..NODES.len(), 0..3),
        enabled in any::<bool>(),
    ) {
        let mut world = World::down(fail_open(enabled));
        let nodes = NODES.map(|node| world.entry("home", node)).to_vec();
        let mut before = Snapshot { nodes, ..Snapshot::empty("home".parse().unwrap()) };
        before.version.0 = 1;
        world.core.apply(before.clone(), world.now).unwrap();
        for (at, version) in versions.iter().enumerate() {
            let entry = with_shape(version, selector, true, |shape| world.shaped("home", shape));
            let mut after = Snapshot { collections: vec![Arc::new(entry)], ..before.clone() };
            after.version.0 += 1;
            after.nodes[at % NODES.len()].pool = GroupNumber(i32::try_from(at).unwrap());
            world.core.apply_delta(&Delta::between(&before, &after), world.now).unwrap();
            if let Some(node) = excluded.get(at) {
                world.mark(NODES[*node]);
            }
            before = after;
        }
        let mut fresh = Core::new(fail_open(enabled)).unwrap();
        fresh.apply(before, world.now).unwrap();
        for key in world.core.view().exclusions().keys() {
            let failed = Event::Failed { key: key.clone(), incarnation: None, evidence: String::new() };
            fresh.handle(failed, world.now);
        }
        assert_same(&world.core, &fresh);
    }

    /// Whole snapshots and deltas make the same of a history, new segments included.
    #[test]
    fn snapshots_and_deltas_make_the_same(versions in vec(version(), 1..6), selector in selector(), minutes in vec(0..4u64, 6)) {
        let (mut world, mut deltas) = (World::down(fail_open(false)), Core::new(fail_open(false)).unwrap());
        let nodes = NODES.map(|node| world.entry("home", node)).to_vec();
        let mut before = Snapshot { nodes, ..Snapshot::empty("home".parse().unwrap()) };
        before.version.0 = 1;
        world.core.apply(before.clone(), world.now).unwrap();
        deltas.apply(before.clone(), world.now).unwrap();
        for (version, minutes) in versions.iter().zip(minutes) {
            world.now += std::time::Duration::from_mins(minutes);
            let entry = with_shape(version, selector, false, |shape| world.shaped("home", shape));
            let mut after = Snapshot { collections: vec![Arc::new(entry)], ..before.clone() };
            after.version.0 += 1;
            deltas.apply_delta(&Delta::between(&before, &after), world.now).unwrap();
            world.core.apply(after.clone(), world.now).unwrap();
            assert_same(&world.core, &deltas);
            before = after;
        }
    }

    /// Every requested segment is in exactly one place of the table.
    #[test]
    fn parts_and_gaps_partition_the_request(
        here in version(),
        there in version(),
        selectors in (selector(), selector()),
        down in (vec(0..NODES.len(), 0..4), vec(0..NODES.len(), 0..2)),
        wanted in vec(0..20u32, 0..24),
        options in (any::<u64>(), any::<bool>(), 1..4i64, any::<bool>()),
    ) {
        let (request_id, enabled, num_replica_groups, promoted) = options;
        let mut world = World::with(CoreSettings { clusters: settings(&["home", "east"]).clusters, ..fail_open(enabled) });
        for (cluster, version, selector) in [("home", &here, selectors.0), ("east", &there, selectors.1)] {
            world.join(cluster, "n1 n2 n3 n4");
            with_shape(version, selector, promoted, |shape| world.put(cluster, Shape { clusters: "home east", ..shape })).unwrap();
        }
        for node in &down.0 {
            world.mark(NODES[*node]);
        }
        let without: BTreeSet<NodeKey> = down.1.iter().map(|node| key("home", NODES[*node])).collect();
        let request = RouteRequest {
            segments: Wanted::Positions(&wanted), num_replica_groups, without: &without, ..RouteRequest::all("t", request_id)
        };
        let table = world.core.view().route(&request).unwrap();
        let mut found: Vec<u32> = table.parts.iter().flat_map(|part| part.segments.iter().chain(&part.optional)).copied().collect();
        found.extend(table.unavailable.iter().map(|gap| gap.segment));
        found.extend(table.new.iter().chain(&table.optional_skipped));
        let known = found.len();
        let distinct: BTreeSet<u32> = found.iter().copied().collect();
        let asked: BTreeSet<u32> = wanted.iter().copied().collect();
        prop_assert_eq!(distinct.len(), known, "no segment stands twice");
        prop_assert!(distinct.is_subset(&asked));
        prop_assert_eq!(known as u64 + table.unknown, asked.len() as u64);
        for part in &table.parts {
            prop_assert!(!part.segments.is_empty() && !without.contains(&part.node.key));
            let fail_open = part.segments.iter().all(|segment| table.fail_open.contains(segment));
            prop_assert!(world.core.view().is_routable(&part.node.key) || fail_open);
        }
    }

    /// Exclusions and inclusions of different nodes may come in any order.
    #[test]
    fn the_order_of_reports_on_different_nodes_does_not_matter(
        here in version(), reports in vec((0..NODES.len(), any::<bool>()), 0..8), seed in any::<u64>(),
    ) {
        let run = |rotated: usize| {
            let mut world = World::with(fail_open(true));
            world.join("home", "n1 n2 n3 n4");
            with_shape(&here, SelectorKind::Balanced, true, |shape| world.put("home", shape)).unwrap();
            // Of each node in the order in which they came, node after node.
            for node in (0..NODES.len()).map(|at| (at + rotated) % NODES.len()) {
                for (_, well) in reports.iter().filter(|(of, _)| *of == node) {
                    let key = reported(NODES[node]);
                    let failed = Event::Failed { key: key.clone(), incarnation: None, evidence: String::new() };
                    world.core.handle(if *well { Event::Recovered { key } } else { failed }, world.now);
                }
            }
            world
        };
        let rotated = usize::try_from(seed % 4).unwrap();
        assert_same(&run(0).core, &run(rotated).core);
    }
}
