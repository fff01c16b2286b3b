//! What states cost in memory. Alone in its process, so that the process's memory is that of the states.
#![cfg(target_os = "linux")]

use std::{fs, time::Duration};

use pointsman_ids::{
    GroupNumber,
    catalog::{RoutingOptions, SelectorKind},
    feed::CopyState,
};
use pointsman_instance_selector::{
    CopyInput, Membership, NodeIndex, NodeTable, Nodes, SegmentInput, States, StatesSettings,
};

const SEGMENTS: u32 = 200_000;
const NODES: u32 = 100;

/// Bytes of this process that lie in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has this line");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}

#[test]
fn a_segment_with_three_replicas_costs_at_most_40_bytes() {
    let mut table = NodeTable::default();
    let names = (0..NODES).map(|at| format!("n{at}").parse().expect("a lawful name"));
    let places: Vec<_> = names.map(|name| table.intern(&name)).collect();
    let member = Membership { enabled: true, pool: GroupNumber(0) };
    let nodes = Nodes::new(table, places.into_iter().map(|node| (node, member)), |_| false);
    let online = Some(CopyState::Online);
    let copies: Vec<_> = (0..NODES)
        .map(|first| {
            [0, 1, 2].map(|copy| CopyInput {
                node: NodeIndex((first + 33 * copy) % NODES),
                group: GroupNumber(7),
                assigned: online,
                observed: online,
            })
        })
        .collect();
    let segments = copies.iter().cycle().take(SEGMENTS as usize).map(|copies| SegmentInput {
        promoted: false,
        age: Duration::MAX,
        copies,
    });
    for selector in [SelectorKind::Balanced, SelectorKind::StrictReplicaGroup] {
        let routing = RoutingOptions { selector, ..RoutingOptions::default() };
        let settings = StatesSettings {
            collection: "orders".parse().expect("a lawful name"),
            routing: &routing,
            replica_groups: Default::default(),
            new_segment_window: Duration::from_secs(300),
            adaptive: false,
        };
        let before = resident();
        let states =
            States::build(&settings, &nodes, segments.clone(), Duration::ZERO).expect("they are lawful");
        let bytes = (resident() - before) as f64 / f64::from(SEGMENTS);
        println!("{selector:?}: {bytes:.1} bytes per segment");
        assert!(bytes <= 40.0, "{bytes:.1} bytes per segment");
        // Kept to the end: what is freed would hide what comes next.
        std::mem::forget(states);
    }
}
