//! What is refused and told of scenarios of kind readiness.

use pointsman_replay::{Format, Options, Outcome, replay};
use serde_json::{Value, json};

use super::assertions::{self, assert_says};

const STATE: &str = "kind: readiness
name: it
state:
  resource_groups: [east]
  nodes: {1: {}}
  collections: {5: {partitions: {p1: 40}}}
  replicas: [{id: 1, collection: 5, resource_group: east, nodes: [1]}]
  targets:
    current: {5: {shards: [a, b], segments: {p1: {a: [1, 2]}}}}
  leaders: [{node: 1, collection: 5, shard: a, segments: [1]}]
steps:
";

fn run(steps: &str, explain: bool) -> Outcome {
    replay(&format!("{STATE}{steps}"), "it.yaml", &Options { explain }).unwrap()
}

fn text(steps: &str) -> Vec<String> {
    Format::Text.lines("it.yaml", &run(steps, false))
}

/// The refusal of a file with this state and step; the step stands on line 6.
fn refusal(state: &str, step: &str) -> String {
    let text = format!("kind: readiness\nname: it\nstate:\n  {state}\nsteps:\n  - {step}\n");
    assertions::refusal(&text)
}

#[track_caller]
fn assert_state(state: &str, parts: &[&str]) {
    assert_says(&refusal(state, "show_load: {collection: 1}"), 4, parts);
    // As an update it is refused in the same words, at its own place.
    let parts: Vec<String> = parts.iter().map(|part| part.replace("state.", "steps[0].update.")).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    assert_says(&refusal("server: healthy", &format!("update: {{{state}}}")), 6, &parts);
}

#[test]
fn states_that_make_no_sense() {
    assert_state("storez: ready", &["state.storez", "unknown key", "stores"]);
    assert_state("stores: gone", &["state.stores", "none of ready, not_wired"]);
    assert_state("server: up", &["state.server", "healthy"]);
    assert_state("resource_groups: east", &["state.resource_groups", "a list is wanted"]);
    assert_state("resource_groups: [5]", &["state.resource_groups[0]", "a text is wanted"]);
    assert_state("resource_groups: ['a b']", &["resource group name"]);
    assert_state("nodes: {n1: {}}", &["state.nodes.n1", "a whole number is wanted"]);
    assert_state("nodes: {1: true}", &["state.nodes.1", "a map is wanted"]);
    assert_state("nodes: {1: {adress: x}}", &["state.nodes.1.adress", "unknown key"]);
    assert_state("nodes: {-1: {}}", &["state.nodes.-1", "out of range"]);
    assert_state("collections: {x: {}}", &["state.collections.x", "a whole number is wanted"]);
    assert_state("collections: {1: {status: done}}", &["state.collections.1.status", "loading, loaded"]);
    assert_state("collections: {1: {partitions: {p1: 101}}}", &["partitions.p1", "0 to 100"]);
    assert_state("collections: {1: {partitions: {p1: 1.5}}}", &["partitions.p1", "a whole number is wanted"]);
    assert_state("collections: {1: {partitions: {p1: -1}}}", &["partitions.p1", "out of range"]);
    assert_state(
        "failed_loads: {1: {error: oops}}",
        &["failed_loads.1.error", "'oops' is no name of an error"],
    );
    assert_state("failed_loads: {1: {message: 5}}", &["failed_loads.1.message", "a text is wanted"]);
    assert_state("replicas: {1: {}}", &["state.replicas", "a list is wanted"]);
    assert_state("replicas: [{id: 1}]", &["state.replicas[0]", "'collection' is missing"]);
    assert_state(
        "replicas: [{id: 1, collection: 1, nodes: [n1]}]",
        &["replicas[0].nodes[0]", "a whole number"],
    );
    assert_state(
        "replicas: [{id: 1, collection: 1, visible: true}]",
        &["replicas[0].visible", "unknown key"],
    );
    let twice = "replicas: [{id: 1, collection: 1}, {id: 1, collection: 1}]";
    assert_state(twice, &["state.replicas[1]", "replica 1 of collection 1 stands twice"]);
    assert_state("targets: {previous: {}}", &["state.targets.previous", "unknown key"]);
    assert_state("targets: {current: {1: {shards: a}}}", &["current.1.shards", "a list is wanted"]);
    assert_state("targets: {next: {1: {segments: {p1: [1]}}}}", &["next.1.segments.p1", "a map is wanted"]);
    assert_state("targets: {next: {1: {segments: {p1: {a: [x]}}}}}", &["segments.p1.a[0]", "a whole number"]);
    let moved = "targets: {next: {1: {segments: {p1: {a: [7]}, p2: {b: [7]}}}}}";
    assert_state(moved, &["segments.p2.b[0]", "segment 7 stands in shard 'a' as well"]);
    assert_state("leaders: [{node: 1, collection: 1}]", &["state.leaders[0]", "'shard' is missing"]);
    assert_state("leaders: [{node: 1, collection: 1, shard: a, version: -1}]", &["leaders[0].version"]);
    assert_state(
        "leaders: [{node: 1, collection: 1, shard: a, segments: {1: n1}}]",
        &["leaders[0].segments.1"],
    );
    let twice =
        "leaders: [{node: 1, collection: 1, shard: a}, {node: 1, collection: 1, shard: a, version: 2}]";
    assert_state(twice, &["state.leaders[1]", "node 1 leads shard 'a' of collection 1 twice"]);
    assert_state("node_segments: {1: 5}", &["state.node_segments.1", "a list is wanted"]);
}

#[test]
fn what_only_makes_no_sense_together_is_found_after_the_update() {
    let state = "targets: {next: {1: {segments: {p1: {a: [7]}}}}}";
    let error = refusal(state, "update: {targets: {next: {1: {segments: {p1: {b: [7]}}}}}}");
    assert_says(
        &error,
        6,
        &["steps[0].update.targets.next.1.segments.p1.b[0]", "stands in shard 'a' as well"],
    );
}

#[test]
fn steps_that_make_no_sense() {
    let step = |step: &str| refusal("server: healthy", step);
    assert_says(&step("readyness: {collection: 1}"), 6, &["steps[0].readyness", "unknown key", "readiness"]);
    assert_says(&step("readiness: {}"), 6, &["steps[0].readiness", "'collection' is missing"]);
    assert_says(&step("readiness: {collection: one}"), 6, &["readiness.collection", "a whole number"]);
    assert_says(&step("readiness: {collection: 1, group: east}"), 6, &["readiness.group", "unknown key"]);
    assert_says(&step("readiness: {collection: 1, resource_group: 5}"), 6, &["resource_group", "a text"]);
    assert_says(&step("readiness: {collection: 1, via: phone}"), 6, &["readiness.via", "server, function"]);
    let scoped = step("shard_leaders: {collection: 1, resource_group: east}");
    assert_says(&scoped, 6, &["shard_leaders.resource_group", "unknown key"]);
    assert_says(&step("show_load: {collection: 1, resource_group: east}"), 6, &["show_load.resource_group"]);
    assert_says(
        &step("load_percentage: {collection: 1, with_unserviceable: true}"),
        6,
        &["with_unserviceable"],
    );
    assert_says(&step("promote: {collection: 1}"), 6, &["promote", "a whole number is wanted"]);
    assert_says(&step("update: 5"), 6, &["update", "a map is wanted"]);
    assert_says(&step("{promote: 1, expect: {}}"), 6, &["expect", "nothing comes out of 'promote'"]);
    assert_says(
        &step("{update: {}, expect: {error: null}}"),
        6,
        &["expect", "nothing comes out of 'update'"],
    );
    assert_says(&step("{promote: 1, probes: {}}"), 6, &["probes", "unknown key"]);
}

#[test]
fn expectations_that_cannot_arise() {
    let expect = |ask: &str, expect: &str| {
        refusal("server: healthy", &format!("{{{ask}: {{collection: 1}}, expect: {expect}}}"))
    };
    assert_says(&expect("load_percentage", "{percentages: {}}"), 6, &["expect.percentages", "unknown key"]);
    assert_says(&expect("load_percentage", "{percentage: '5'}"), 6, &["expect.percentage", "a whole number"]);
    assert_says(&expect("load_percentage", "{percentage: null}"), 6, &["expect.percentage", "null where"]);
    assert_says(&expect("replica_percentages", "{percentages: {x: 5}}"), 6, &["expect.percentages.x"]);
    assert_says(&expect("readiness", "{behind: []}"), 6, &["expect.behind", "unknown key"]);
    assert_says(&expect("readiness", "{ready: 1}"), 6, &["expect.ready", "true or false"]);
    assert_says(&expect("readiness", "{unready_shards: a}"), 6, &["expect.unready_shards", "a list"]);
    assert_says(&expect("shard_leaders", "{shards: {a: {node: 1}}}"), 6, &["expect.shards.a", "a list"]);
    assert_says(
        &expect("shard_leaders", "{shards: {a: [{id: 1}]}}"),
        6,
        &["expect.shards.a[0].id", "unknown key"],
    );
    assert_says(&expect("show_load", "{status: 1}"), 6, &["expect.status", "a text is wanted"]);
    assert_says(&expect("show_load", "{error: {number: 1}}"), 6, &["expect.error.number", "unknown key"]);
}

#[test]
fn a_failed_expectation_is_told_with_key_expected_and_got() {
    let lines = text("  - load_percentage: {collection: 5}\n    expect: {percentage: 51}\n");
    assert_eq!(lines, ["it.yaml: step 1 (line 12, load_percentage): percentage: expected 51, got 50"]);
    let lines = text("  - readiness: {collection: 5}\n    expect: {ready: true, unready_shards: [b]}\n");
    assert_eq!(lines, ["it.yaml: step 1 (line 12, readiness): ready: expected true, got false"]);
    let lines = text("  - replica_percentages: {collection: 5}\n    expect: {percentages: {1: 50, 2: 0}}\n");
    assert_eq!(lines.len(), 1);
}

#[test]
fn leaders_compare_whole_lists_and_given_keys() {
    let ask = "  - shard_leaders: {collection: 5, with_unserviceable: true}\n    expect: {shards: ";
    for right in ["{a: [{}], b: []}", "{b: [], a: [{node: 1, serviceable: true}]}"] {
        assert_eq!(text(&format!("{ask}{right}}}\n")), [""; 0], "{right}");
    }
    for wrong in [
        "{}",
        "{a: [{}]}",
        "{a: [{}], b: [{}]}",
        "{a: [], b: []}",
        "{a: [{node: 2}], b: []}",
        "{a: [{}], b: [], c: []}",
    ] {
        assert_eq!(text(&format!("{ask}{wrong}}}\n")).len(), 1, "{wrong}");
    }
}

#[test]
fn errors_compare_by_the_given_keys() {
    let ask = "  - load_percentage: {collection: 5, resource_group: wset}\n    expect: {error: ";
    for right in [
        "{}",
        "{code: 300, input: true}",
        "{name: resource_group_not_found, retriable: false, contains: wset}",
    ] {
        assert_eq!(text(&format!("{ask}{right}}}\n")), [""; 0], "{right}");
    }
    for wrong in
        ["null", "{code: 301}", "{input: false}", "{retriable: true}", "{name: other}", "{contains: eats}"]
    {
        assert_eq!(text(&format!("{ask}{wrong}}}\n")).len(), 1, "{wrong}");
    }
    let fine = "  - load_percentage: {collection: 5}\n    expect: {error: {}}\n";
    assert_eq!(text(fine).len(), 1);
}

#[test]
fn json_tells_every_step_with_all_that_came_out() {
    let steps = "  - shard_leaders: {collection: 5, with_unserviceable: true}
  - load_percentage: {collection: 6}
  - show_load: {collection: 6}
  - promote: 5
";
    let lines = Format::Json.lines("it.yaml", &run(steps, false));
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let leader = json!({"node": 1, "address": "node-1:7000", "serviceable": true, "resource_group": "east"});
    assert_eq!(objects[0]["outcome"], json!({"shards": {"a": [leader], "b": []}, "error": null}));
    assert_eq!(objects[1]["outcome"], json!({"percentage": -1, "error": null}));
    assert_eq!(objects[2]["outcome"]["status"], Value::Null);
    let error = &objects[2]["outcome"]["error"];
    assert_eq!(error["name"], "collection_not_loaded");
    assert_eq!(
        (&error["code"], &error["retriable"], &error["input"]),
        (&json!(101), &json!(false), &json!(false))
    );
    assert_eq!((&objects[3]["outcome"], &objects[3]["action"]), (&json!({}), &json!("promote")));
}

#[test]
fn explanations_say_what_is_carried_and_what_is_missing() {
    let steps = "  - load_percentage: {collection: 5}
  - readiness: {collection: 5, resource_group: east}
  - shard_leaders: {collection: 5}
  - show_load: {collection: 5}
  - readiness: {collection: 5, resource_group: wset}
";
    let told: Vec<Vec<String>> = run(steps, true).steps.into_iter().map(|step| step.explanation).collect();
    assert_eq!(told[0], ["replica 1 in 'east': 50 (2 of 4 shards and segments)"]);
    assert_eq!(told[1], ["b: replica 1 in 'east': no leader reported"]);
    assert_eq!(told[2], told[1]);
    assert_eq!(told[3], ["partition p1: 40"]);
    assert_eq!(told[4], ["there is no resource group 'wset'; there are: default, east"]);
}
