//! What the tests of parts share.

use std::{collections::BTreeSet, time::Duration};

use pointsman_ids::{Error, ErrorCode, NodeKey};
use pointsman_scatter::{
    Attempts, Failure, Lacking, Limits, Next, PartNumber, Parts, Pick, Place, RouteAgain,
};

pub(crate) const NOW: Duration = Duration::from_secs(1);

pub(crate) fn node(number: usize) -> NodeKey {
    NodeKey { cluster: "local".parse().unwrap(), node: format!("n{number}").parse().unwrap() }
}

pub(crate) fn nodes(numbers: &[usize]) -> BTreeSet<NodeKey> {
    numbers.iter().map(|number| node(*number)).collect()
}

pub(crate) fn attempts(max_attempts: u32) -> Attempts {
    Attempts::new(Limits { max_attempts, timeout: Duration::from_secs(10) }, Duration::ZERO)
}

/// Parts of one scan of so many segments, each of which moves alone.
pub(crate) fn one_scan(segments: usize) -> Parts {
    let mut parts = Parts::new(attempts(3));
    assert_eq!(parts.add_scan(vec![None; segments]), 0);
    parts
}

pub(crate) fn place(at: usize) -> Place {
    Place { scan: 0, at }
}

pub(crate) fn send(parts: &mut Parts, to: usize, segments: &[usize]) -> PartNumber {
    let picks = segments.iter().map(|at| Pick { place: place(*at), fail_open: false });
    parts.sent(node(to), picks, NOW).unwrap()
}

pub(crate) fn broke_off(number: usize) -> Failure {
    Failure::Node(Error::new(ErrorCode::NodeNotAvailable, format!("node 'n{number}' broke off")))
}

pub(crate) fn lacks(segments: &[usize]) -> Failure {
    let error = Error::new(ErrorCode::SegmentNotLoaded, "the node does not hold all");
    Failure::NotLoaded { error, lacking: Lacking::These(segments.iter().map(|at| place(*at)).collect()) }
}

/// What is to be routed again, and which parts are thrown away.
pub(crate) fn go_on(next: Next) -> (Vec<RouteAgain>, Vec<PartNumber>) {
    match next {
        Next::GoOn { again, discarded } => (again, discarded),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn again(segments: &[usize], without: &[usize]) -> RouteAgain {
    RouteAgain { scan: 0, segments: segments.to_vec(), without: nodes(without) }
}
