//! What the tests of the detector share.

use std::time::Duration;

use pointsman_failure_detector::{Action, Detector, Event, Key, Outcome, Probe, Settings, SuspicionCause};
use pointsman_ids::{Incarnation, NodeKey};

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn node(name: &str) -> NodeKey {
    NodeKey { cluster: "east".parse().unwrap(), node: name.parse().unwrap() }
}

/// The node of this name in another cluster.
pub(crate) fn west(name: &str) -> NodeKey {
    NodeKey { cluster: "west".parse().unwrap(), ..node(name) }
}

pub(crate) fn key(name: &str) -> Key {
    Key::Node(node(name))
}

pub(crate) fn bare(name: &str) -> Key {
    Key::Bare(name.parse().unwrap())
}

pub(crate) fn failed(key: Key) -> Event {
    Event::Failed { key, incarnation: None, evidence: "refused".into() }
}

/// A failed call to this process.
pub(crate) fn about(name: &str, incarnation: u64) -> Event {
    Event::Failed { key: key(name), incarnation: Some(Incarnation(incarnation)), evidence: "reset".into() }
}

pub(crate) fn suspicious(name: &str, incarnation: u64, cause: SuspicionCause) -> Event {
    let evidence = "no answer within 10s".to_owned();
    Event::Suspicious { node: node(name), incarnation: Incarnation(incarnation), cause, evidence }
}

pub(crate) fn answered(name: &str, incarnation: u64) -> Event {
    Event::Answered { node: node(name), incarnation: Incarnation(incarnation) }
}

pub(crate) fn wanted(name: &str, incarnation: u64) -> Event {
    Event::ProbeWanted { node: node(name), incarnation: Incarnation(incarnation) }
}

pub(crate) fn member(name: &str, incarnation: u64, enabled: bool) -> Event {
    Event::Member { node: node(name), incarnation: Incarnation(incarnation), enabled }
}

pub(crate) fn silent() -> Outcome {
    Outcome::Unhealthy("silent".into())
}

pub(crate) fn detector() -> Detector {
    Detector::new(Settings::default()).unwrap()
}

/// The one probe that is asked for.
pub(crate) fn probe_of(actions: Vec<Action>) -> Probe {
    match <[Action; 1]>::try_from(actions) {
        Ok([Action::Probe(probe)]) => probe,
        other => panic!("not one probe: {other:?}"),
    }
}

/// Begins the one retry that is due.
pub(crate) fn retry(detector: &mut Detector, now: Duration) -> Probe {
    probe_of(detector.handle(Event::Tick, now))
}

/// Begins the one retry that is due, and ends it at the same moment.
pub(crate) fn run_probe(detector: &mut Detector, now: Duration, outcome: Outcome) -> Vec<Action> {
    let probe = retry(detector, now);
    detector.handle(Event::Probed { probe, outcome }, now)
}
