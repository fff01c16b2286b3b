//! Fail-open as the managers see it: switches, gates, counts.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use pointsman_ids::catalog::SelectorKind;
use pointsman_instance_selector::{FailOpen, FailOpenGate};
use pointsman_routing::{CoreSettings, FAIL_OPEN_KEY, RouteRequest};

use crate::world::{Shape, World, gaps, seg, settings, shape};

fn world(fail_open: FailOpen) -> World {
    let mut world = World::with(CoreSettings { fail_open, ..settings(&["home", "east"]) });
    world.join("home", "n1 n2");
    world.join("east", "n1");
    world
}

const ON: FailOpen = FailOpen { enabled: true, multi_stage: false, strict: false };

fn gate(world: &World, multi_stage: bool) -> FailOpenGate {
    let request = RouteRequest { multi_stage, ..RouteRequest::all("t", 0) };
    world.core.view().route(&request).unwrap().fail_open_gates[0].1
}

#[test]
fn an_excluded_node_is_tried_and_the_table_and_the_figures_say_so() {
    let mut world = world(ON);
    world.put("home", shape("t", &[seg("a", "n1", "n1"), seg("b", "n2", "n2")])).unwrap();
    world.mark("n1");
    let table = world.route("t", 0).unwrap();
    assert_eq!((world.told(&table), table.fail_open), (vec!["a:n1".to_owned(), "b:n2".to_owned()], vec![0]));
    assert_eq!(table.fail_open_gates, [("home".parse().unwrap(), FailOpenGate::Passed)]);
    assert_eq!(world.figure("fail_open_eligible_requests_total", &[]), Some(1.0));
    assert_eq!(world.figure("fail_open_requests_total", &[("collection", "t")]), Some(1.0));
    assert_eq!(world.figure("selected_segments_total", &[]), Some(2.0));
    assert_eq!(world.figure("fail_open_eligible_segments", &[]), Some(1.0));
    assert!(world.core.view().exclusions().len() == 1, "a try marks nobody healthy");
}

#[test]
fn each_switch_has_its_gate_and_every_eligible_request_counts() {
    for (switches, multi_stage, gate_met) in [
        (FailOpen::default(), false, FailOpenGate::Off),
        (FailOpen { enabled: false, multi_stage: true, strict: true }, true, FailOpenGate::Off),
        (ON, true, FailOpenGate::MultiStage),
        (ON, false, FailOpenGate::Strict),
        (FailOpen { multi_stage: true, ..ON }, true, FailOpenGate::Strict),
        (FailOpen { strict: true, ..ON }, false, FailOpenGate::Passed),
        (FailOpen { multi_stage: true, strict: true, enabled: true }, true, FailOpenGate::Passed),
    ] {
        let mut world = world(switches);
        let strict = shape("t", &[seg("a", "n1", "n1")]).selector(SelectorKind::StrictReplicaGroup);
        world.put("home", strict).unwrap();
        world.mark("n1");
        assert_eq!(gate(&world, multi_stage), gate_met, "{switches:?} {multi_stage}");
        assert_eq!(world.figure("fail_open_eligible_requests_total", &[]), Some(1.0));
    }
}

#[test]
fn the_local_clusters_word_counts_from_the_next_request_on() {
    let mut world = world(ON);
    world.put("home", shape("t", &[seg("a", "n1", "n1")])).unwrap();
    world.mark("n1");
    let mut say = |cluster: &str, text: Option<&str>| {
        let config = text.map(|text| (FAIL_OPEN_KEY.to_owned(), text.to_owned()));
        let config: BTreeMap<_, _> = config.into_iter().collect();
        world.core.set_config(&cluster.parse().unwrap(), config).unwrap();
        gate(&world, false)
    };
    assert_eq!(say("home", Some("no")), FailOpenGate::Off);
    assert_eq!(say("east", Some("true")), FailOpenGate::Off, "a remote cluster has no word in it");
    assert_eq!(say("home", Some("TRUE")), FailOpenGate::Passed);
    assert_eq!(say("home", Some("False")), FailOpenGate::Off);
    assert_eq!(say("home", None), FailOpenGate::Passed, "back to the broker's own value");
}

#[test]
fn each_cluster_decides_for_its_own_part() {
    let mut world = world(ON);
    let part = |name, observed| Shape { clusters: "home east", ..shape("t", &[seg(name, "n1", observed)]) };
    world.put("home", part("a", "n1")).unwrap();
    world.put("east", part("b", "n1=error")).unwrap();
    world.mark("home/n1");
    let table = world.route("t", 0).unwrap();
    assert_eq!(
        (world.told(&table), gaps(&table)),
        (vec!["a:n1".to_owned()], vec!["b:not_loaded".to_owned()])
    );
    let gates: Vec<_> = table.fail_open_gates.iter().map(|(_, gate)| *gate).collect();
    assert_eq!(gates, [FailOpenGate::Passed, FailOpenGate::NoCandidates]);
    assert_eq!(world.figure("fail_open_requests_total", &[("cluster", "east")]), Some(0.0));
}

/// Lines that something writes to the log.
fn told(run: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    tracing::subscriber::with_default(subscriber, run);
    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    text.lines().filter(|line| line.contains("fail-open")).map(str::to_owned).collect()
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_decision_is_one_event_and_one_count() {
    let counts = |world: &World| {
        let count = |name: &str| world.figure(name, &[]).unwrap_or_default();
        [count("fail_open_eligible_requests_total"), count("fail_open_requests_total")]
    };
    for (switches, observed, excluded, events, counted) in [
        (ON, "n1", true, 1, [1.0, 1.0]),
        (FailOpen::default(), "n1", true, 1, [1.0, 0.0]),
        (ON, "n1", false, 0, [0.0, 0.0]),
        (ON, "n1=error", true, 0, [0.0, 0.0]),
    ] {
        let mut world = world(switches);
        world.put("home", shape("t", &[seg("a", "n1", observed)])).unwrap();
        if excluded {
            world.mark("n1");
        }
        let lines = told(|| drop(world.route("t", 0).unwrap()));
        assert_eq!((lines.len(), counts(&world)), (events, counted), "{switches:?} {observed}: {lines:?}");
    }
}

#[test]
fn a_doubtful_word_of_the_cluster_is_warned_of_once() {
    let mut world = world(ON);
    let mut say = |text: &str| {
        let config = BTreeMap::from([(FAIL_OPEN_KEY.to_owned(), text.to_owned())]);
        told(|| world.core.set_config(&"home".parse().unwrap(), config).unwrap()).len()
    };
    assert_eq!([say("yes"), say("yes"), say("no"), say("FALSE"), say("True")], [1, 0, 1, 0, 0]);
}
