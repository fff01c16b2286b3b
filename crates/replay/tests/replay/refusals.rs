//! Files that are no scenarios: the error names the file, the line and the key.

use super::assertions::{assert_says, refusal};

const HEAD: &str = "kind: routing\nname: it\nabout: it\n";

/// Steps that declare what the others need, on line 5.
const DECLARED: &str = "  - nodes: {n1: {}, e1: {cluster: east}}\n  - collection: {name: t, segments: {s0: {assigned: [n1], observed: [n1]}}}\n";

/// The error of a step; the step is on line 8.
fn step(step: &str) -> String {
    let text = format!("{HEAD}clusters: [local, east]\nsteps:\n{DECLARED}  - {step}\n");
    refusal(&text)
}

#[test]
fn what_stands_in_the_head() {
    assert_says(&refusal(""), 1, &["no scenario"]);
    assert_says(&refusal("# nothing\n"), 2, &["no scenario"]);
    assert_says(&refusal("- 1\n"), 1, &["a list where a map is wanted"]);
    assert_says(&refusal("name: it\nsteps: []\n"), 1, &["'kind' is missing"]);
    assert_says(&refusal("kind: routing\nsteps: []\n"), 1, &["'name' is missing"]);
    assert_says(&refusal("kind: routing\nname: it\n"), 1, &["'steps' is missing"]);
    assert_says(
        &refusal("name: it\nkind: rooting\nsteps: []\n"),
        2,
        &["kind", "'rooting' is none of routing"],
    );
    assert_says(&refusal("kind: routing\nname: Not Kebab\nsteps: []\n"), 2, &["name", "kebab-case"]);
    assert_says(
        &refusal("kind: routing\nname: it\nabout: |\n  a\n  b\nsteps: []\n"),
        3,
        &["about", "one line"],
    );
    assert_says(&refusal(&format!("{HEAD}steps: []\nstep: []\n")), 5, &["step", "unknown key"]);
    assert_says(&refusal(&format!("{HEAD}steps: {{}}\n")), 4, &["steps", "a map where a list is wanted"]);
    assert_says(&refusal(&format!("{HEAD}clusters: []\nsteps: []\n")), 4, &["clusters"]);
    assert_says(&refusal(&format!("{HEAD}clusters: [a, a]\nsteps: []\n")), 4, &["clusters[1]", "twice"]);
}

#[test]
fn what_is_no_yaml_or_not_one_document() {
    assert_says(&refusal(&format!("{HEAD}steps: [\n")), 4, &["bracket"]);
    assert_says(&refusal(&format!("{HEAD}steps: []\nname: again\n")), 5, &["name", "line 2"]);
    let two = refusal(&format!("{HEAD}steps: []\n---\n{HEAD}steps: []\n"));
    assert!(two.starts_with("some/file.yaml:"), "{two}");
    assert_says(&step("set_enabled: {n1: true, n1: false}"), 8, &["set_enabled.n1", "second time"]);
}

#[test]
fn the_brokers_settings() {
    let broker = |settings: &str| refusal(&format!("{HEAD}broker: {settings}\nsteps: []\n"));
    assert_says(&broker("{fail_opne: true}"), 4, &["broker.fail_opne", "unknown key"]);
    assert_says(&broker("{fail_open: 'true'}"), 4, &["broker.fail_open", "true or false"]);
    assert_says(&broker("{new_segment_window: 5}"), 4, &["broker.new_segment_window", "a duration"]);
    assert_says(
        &broker("{adaptive: fastest}"),
        4,
        &["broker.adaptive", "none of none, latency, in_flight, hybrid"],
    );
    assert_says(&broker("{detector: nobody}"), 4, &["broker.detector", "none"]);
    assert_says(&broker("{detector: {initial_delay: 0s}}"), 4, &["broker.detector", "initial_delay"]);
    assert_says(&broker("{detector: {factor: 0}}"), 4, &["broker.detector", "factor"]);
    assert_says(&broker("{detector: {max_delay: 10us}}"), 4, &["broker.detector", "max_delay"]);
    assert_says(
        &broker("{detector: {max_retries: 1.5}}"),
        4,
        &["broker.detector.max_retries", "whole number"],
    );
    assert_says(&broker("{detector: {retries: 1}}"), 4, &["broker.detector.retries", "unknown key"]);
}

#[test]
fn a_step_has_exactly_one_action() {
    assert_says(&step("{check: {}, mark_unhealthy: n1}"), 8, &["steps[2]", "check", "mark_unhealthy"]);
    assert_says(&step("{expect: {unhealthy: []}}"), 8, &["steps[2]", "no action"]);
    assert_says(&step("{chek: {}}"), 8, &["steps[2].chek", "unknown key", "check"]);
    assert_says(&step("check: {}\n    probes: {n1: healthy}"), 9, &["steps[2].probes", "unknown key"]);
    assert_says(&step("check: {all: true}"), 8, &["steps[2].check.all", "unknown key"]);
    assert_says(&step("check"), 8, &["steps[2]", "a text where a map is wanted"]);
}

#[test]
fn nodes_that_no_step_declares() {
    assert_says(&step("mark_unhealthy: n9"), 8, &["mark_unhealthy", "n9"]);
    assert_says(&step("mark_healthy: east/n1"), 8, &["mark_healthy", "n1", "east"]);
    assert_says(&step("mark_healthy: west/n1"), 8, &["mark_healthy", "west"]);
    assert_says(&step("set_enabled: {n9: true}"), 8, &["set_enabled.n9"]);
    assert_says(&step("nodes: {n9: null}"), 8, &["nodes.n9"]);
    assert_says(&step("observe: {n9: null}"), 8, &["observe.n9"]);
    assert_says(&step("retry_lookup: n9"), 8, &["retry_lookup", "n9"]);
    assert_says(&step("advance: 1s\n    probes: {n9: healthy}"), 9, &["probes.n9"]);
    assert_says(
        &step("collection: {name: t, segments: {s0: {assigned: [e1]}}}"),
        8,
        &["segments.s0.assigned[0]", "e1"],
    );
    assert_says(
        &step("collection: {name: t, segments: {s0: {observed: {n9: online}}}}"),
        8,
        &["observed.n9"],
    );
    assert_says(&step("check: {}\n    expect: {routable: [e1]}"), 9, &["expect.routable[0]", "e1"]);
    assert_says(
        &step("check: {}\n    expect: {routable: {east: [n1]}}"),
        9,
        &["expect.routable.east[0]", "n1"],
    );
    assert_says(&step("check: {}\n    expect: {unhealthy: [n9]}"), 9, &["expect.unhealthy[0]", "n9"]);
    assert_says(
        &step("select: {collection: t}\n    expect: {served: {s0: n9}}"),
        9,
        &["expect.served.s0", "n9"],
    );
}

#[test]
fn clusters_and_collections_that_are_not_there() {
    assert_says(&step("nodes: {n1: {cluster: west}}"), 8, &["nodes.n1.cluster", "west"]);
    assert_says(&step("start_cluster: west"), 8, &["start_cluster", "west"]);
    assert_says(&step("start_cluster: local"), 8, &["start_cluster", "local cluster"]);
    assert_says(&step("select: {collection: u}"), 8, &["select.collection", "'u'"]);
    assert_says(&step("collection: {name: u, drop: true}"), 8, &["collection.name", "'u'"]);
    assert_says(&step("check: {}\n    expect: {routable: {west: []}}"), 9, &["expect.routable.west"]);
    assert_says(&step("retry_lookup: n1\n    expect: {retry_cluster: west}"), 9, &["retry_cluster", "west"]);
}

#[test]
fn collections() {
    let collection = |rest: &str| step(&format!("collection: {{name: u, {rest}}}"));
    assert_says(&collection("selector: random"), 8, &["collection.selector", "balanced"]);
    assert_says(
        &collection("segments: {s0: {assigned: {n1: error}}}"),
        8,
        &["assigned.n1", "error", "online"],
    );
    assert_says(
        &collection("segments: {s0: {assigned: {n1: online}, age: 5}}"),
        8,
        &["s0.age", "a duration"],
    );
    assert_says(&collection("segments: {s0: {asigned: [n1]}}"), 8, &["s0.asigned", "unknown key"]);
    assert_says(&collection("segments: [s0]"), 8, &["segments", "a list where a map is wanted"]);
    assert_says(&collection("segments: {'s 0': {}}"), 8, &["segments.s 0", "not a segment name"]);
    assert_says(&collection("samplers: {few: {first_n: -1}}"), 8, &["few.first_n", "out of range"]);
    assert_says(&collection("samplers: {few: {}}"), 8, &["samplers.few", "first_n"]);
    assert_says(&collection("replica_groups: {zero: [[n1]]}"), 8, &["replica_groups.zero", "whole number"]);
    assert_says(&collection("replica_groups: {0: [n1]}"), 8, &["replica_groups.0[0]", "a list is wanted"]);
    assert_says(&step("collection: {name: t, drop: true, segments: {}}"), 8, &["collection.segments"]);
    for setting in [
        "selector: balanced",
        "fixed_replica: true",
        "fail_closed: true",
        "samplers: {}",
        "consistent_replicas: false",
    ] {
        let error = step(&format!("collection: {{name: t, {setting}, segments: {{}}}}"));
        assert_says(&error, 8, &[setting.split(':').next().unwrap(), "only in the step that creates"]);
    }
    assert_says(&step("collection: {name: t}"), 8, &["collection", "'segments' is missing"]);
    let twice = "collection: {name: t, cluster: east, segments: {s0: {assigned: [e1]}}}";
    assert_says(&step(twice), 8, &["collection", "segment 's0'"]);
}

#[test]
fn requests_and_other_actions() {
    assert_says(&step("select: {collection: t, request_id: -1}"), 8, &["request_id", "out of range"]);
    assert_says(&step("select: {collection: t, request_id: 18446744073709551616}"), 8, &["request_id"]);
    assert_says(&step("select: {collection: t, segments: s0}"), 8, &["select.segments", "a list is wanted"]);
    assert_says(
        &step("select: {collection: t, options: {replica_groups: 2}}"),
        8,
        &["options.replica_groups", "unknown key"],
    );
    assert_says(
        &step("select: {collection: t, options: {preferred_pools: [a]}}"),
        8,
        &["preferred_pools[0]"],
    );
    assert_says(&step("nodes: {n1: {pool: -2}}"), 8, &["nodes.n1.pool"]);
    assert_says(&step("nodes: {n1: {pool: one}}"), 8, &["nodes.n1.pool", "whole number"]);
    assert_says(&step("nodes: {n1: true}"), 8, &["nodes.n1", "a map is wanted"]);
    assert_says(&step("nodes: {east/n1: {cluster: local}}"), 8, &["nodes.east/n1", "two clusters"]);
    assert_says(&step("set_enabled: {n1: 1}"), 8, &["set_enabled.n1", "true or false"]);
    assert_says(
        &step("set_config: {broker.fail_open.strict: 'true'}"),
        8,
        &["broker.fail_open.strict", "unknown key"],
    );
    assert_says(
        &step("set_config: {broker.fail_open.enabled: true}"),
        8,
        &["broker.fail_open.enabled", "a text is wanted"],
    );
    assert_says(&step("advance: 5"), 8, &["advance", "a duration"]);
    assert_says(&step("advance: five"), 8, &["advance", "'five'"]);
    assert_says(
        &step("advance: 1s\n    probes: {n1: well}"),
        9,
        &["probes.n1", "healthy, unhealthy, unknown, error"],
    );
    assert_says(&step("observe: {n1: {latency: 5}}"), 8, &["observe.n1.latency", "a duration"]);
    assert_says(&step("observe: {n1: {inflight: 5}}"), 8, &["observe.n1.inflight", "unknown key"]);
}

#[test]
fn expectations_that_cannot_arise() {
    let expect = |action: &str, expect: &str| step(&format!("{action}\n    expect: {expect}"));
    assert_says(&expect("check: {}", "{served: {}}"), 9, &["expect.served", "unknown key"]);
    assert_says(&expect("check: {}", "{error: null}"), 9, &["expect.error"]);
    assert_says(&expect("check: {}", "{probed: []}"), 9, &["expect.probed"]);
    assert_says(&expect("advance: 1s", "{retry_cluster: null}"), 9, &["expect.retry_cluster"]);
    assert_says(
        &expect("select: {collection: t}", "{unavailable: {}}"),
        9,
        &["expect.unavailable", "a list is wanted"],
    );
    assert_says(
        &expect("select: {collection: t}", "{error: {name: x}}"),
        9,
        &["expect.error.name", "unknown key"],
    );
    assert_says(&expect("check: {}", "{metrics: {probez: 1}}"), 9, &["probez", "unknown metric"]);
    assert_says(
        &expect("check: {}", "{metrics: {'probes{outcome=\"healthy\"}': 1}}"),
        9,
        &["outcome", "result"],
    );
    assert_says(&expect("check: {}", "{metrics: {'probes{result=healthy}': 1}}"), 9, &["result=healthy"]);
    assert_says(&expect("check: {}", "{metrics: {probes: one}}"), 9, &["probes", "a number is wanted"]);
}
