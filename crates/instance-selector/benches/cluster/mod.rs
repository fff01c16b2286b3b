//! Clusters and collections of any size.

use std::time::Duration;

use pointsman_ids::{
    GroupNumber,
    catalog::{RoutingOptions, SelectorKind},
    feed::CopyState,
};
use pointsman_instance_selector::{
    CopyInput, Membership, NodeIndex, NodeTable, Nodes, SegmentInput, States, StatesSettings,
};

/// Nodes `n0000`, `n0001`, ... that are all enabled.
pub(crate) fn nodes(count: u32) -> Nodes {
    let mut table = NodeTable::default();
    for at in 0..count {
        let name = format!("n{at:04}").parse().expect("a lawful name");
        table.intern(&name);
    }
    let member = Membership { enabled: true, pool: GroupNumber(0) };
    Nodes::new(table, (0..count).map(|node| (NodeIndex(node), member)), |_| false)
}

/// The three copies of a segment, spread over the nodes.
pub(crate) fn copies(segment: u32, nodes: u32) -> [CopyInput; 3] {
    let online = Some(CopyState::Online);
    let first = segment.wrapping_mul(2_654_435_761) >> 7;
    [0, 1, 2].map(|copy| CopyInput {
        node: NodeIndex((first + copy * (nodes / 3)) % nodes),
        group: GroupNumber(0),
        assigned: online,
        observed: online,
    })
}

/// A collection of loaded segments.
pub(crate) fn states(selector: SelectorKind, segments: u32, nodes: &Nodes) -> States {
    let routing = RoutingOptions { selector, ..RoutingOptions::default() };
    let settings = StatesSettings {
        collection: "orders".parse().expect("a lawful name"),
        routing: &routing,
        replica_groups: Default::default(),
        new_segment_window: Duration::from_secs(300),
        adaptive: false,
    };
    let count = u32::try_from(nodes.len()).expect("few nodes");
    let all: Vec<_> = (0..segments).map(|segment| copies(segment, count)).collect();
    let inputs = all.iter().map(|copies| SegmentInput { promoted: true, age: Duration::ZERO, copies });
    States::build(&settings, nodes, inputs, Duration::ZERO).expect("lawful settings")
}
