//! Scenarios of `kind: shard_client`: what is refused, what is told, and that every run comes to an end.

use pointsman_replay::{Format, Options, replay};
use serde_json::{Value, json};

use super::assertions::{assert_says, refusal};

const HEAD: &str = "kind: shard_client\nname: it\nabout: it\n";

/// The error of something before the steps, on line 4.
fn before(line: &str) -> String {
    refusal(&format!("{HEAD}{line}\ncollection: 31\nsteps: []\n"))
}

/// The error of steps, of which the first is on line 8.
fn steps(steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("  - {step}\n")).collect();
    let given = "coordinator: [{shards: {s0: [{node: 1}]}}]\nnodes: {7: [hang]}";
    refusal(&format!("{HEAD}collection: 31\n{given}\nsteps:\n{steps}"))
}

#[test]
fn what_stands_before_the_steps() {
    assert_says(&refusal(&format!("{HEAD}steps: []\n")), 1, &["'collection' is missing"]);
    assert_says(&before("client: {polcy: round_robin}"), 4, &["client.polcy", "unknown key", "policy"]);
    assert_says(&before("client: {blacklist: 30}"), 4, &["client.blacklist", "a duration"]);
    assert_says(&before("client: {policy: scripted}"), 4, &["needs picks"]);
    assert_says(&before("client: {policy: scripted, picks: []}"), 4, &["client.picks", "no pick"]);
    assert_says(&before("client: {picks: [lowest]}"), 4, &["client.picks", "scripted alone"]);
    assert_says(
        &before("client: {policy: scripted, picks: [highest]}"),
        4,
        &["client.picks[0]", "'highest' is the name of no error"],
    );
    assert_says(&before("coordinator: [{error: broken}]"), 4, &["coordinator[0].error", "'broken'"]);
    assert_says(&before("coordinator: [{after: 5ms}]"), 4, &["exactly one of shards, raw and error"]);
    assert_says(&before("coordinator: [{shards: {s0: [{}]}}]"), 4, &["'node' is missing"]);
    assert_says(&before("coordinator: [{raw: {s0: {nodes: [1]}}}]"), 4, &["s0.nodes", "unknown key"]);
    assert_says(&before("nodes: {1: [okay]}"), 4, &["nodes.1[0]", "'okay' is the name of no error"]);
    assert_says(&before("nodes: {1: [{input: true}]}"), 4, &["nodes.1[0]", "for an error alone"]);
    assert_says(&before("nodes: {n1: [ok]}"), 4, &["nodes.n1", "a whole number"]);
}

#[test]
fn what_stands_in_steps() {
    assert_says(&steps(&["execute: {scope: east}"]), 8, &["execute.scope", "unknown key"]);
    assert_says(&steps(&["execute: {}"]), 8, &["steps[0].execute", "needs a timeout"]);
    assert_says(&steps(&["execute_one_shard: {}"]), 8, &["needs a timeout"]);
    assert_says(&steps(&["get_shard: {}"]), 8, &["'shard' is missing"]);
    assert_says(&steps(&["check: {}", "join: nobody"]), 9, &["steps[1].join", "'nobody'"]);
    let background = "get_shard: {shard: s0, background: one}";
    assert_says(&steps(&[background]), 8, &["'one' is never joined"]);
    assert_says(&steps(&[background, "join: one", "join: one"]), 10, &["waiting to be joined"]);
    assert_says(&steps(&[background, background]), 9, &["stands for another call already"]);
    assert_says(&steps(&["probe_answers: {1: ill}"]), 8, &["probe_answers.1", "healthy, unhealthy"]);
}

#[test]
fn what_cannot_be_expected() {
    let told = |step: &str, expect: &str| steps(&[&format!("{step}\n    expect: {expect}")]);
    assert_says(&told("check: {}", "{visits: {}}"), 9, &["expect.visits", "unknown key"]);
    assert_says(&told("advance: 1s", "{took: 1s}"), 9, &["nothing comes out of 'advance'"]);
    assert_says(&told("get_shard: {shard: s0}", "{visits: {}}"), 9, &["expect.visits", "unknown key"]);
    assert_says(
        &told("get_shard: {shard: s0, background: a}", "{took: 1s}"),
        9,
        &["expect.took", "unknown key", "coordinator_calls"],
    );
    assert_says(&told("check: {}", "{metrics: {cache_reads: 1}}"), 9, &["unknown metric 'cache_reads'"]);
    let label = "{metrics: {'shard_client_preferred{caller=\"hit\"}': 1}}";
    assert_says(&told("check: {}", label), 9, &["no label 'caller'"]);
    let word = "{metrics: {'shard_client_preferred{result=\"hits\"}': 1}}";
    assert_says(&told("check: {}", word), 9, &["'result' is never 'hits'"]);
}

#[test]
fn json_tells_all_that_came_out() {
    let text = format!(
        "{HEAD}collection: 31
coordinator: [{{shards: {{s0: [{{node: 1}}, {{node: 2}}]}}}}]
nodes: {{2: [segment_lack]}}
steps:
  - execute: {{}}
  - check: {{}}
"
    );
    let outcome = replay(&text, "it.yaml", &Options::default()).unwrap();
    let lines = Format::Json.lines("it.yaml", &outcome);
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let execute = &objects[0]["outcome"];
    assert_eq!(execute["visits"], json!({"s0": [2, 1]}));
    assert_eq!(execute["runs"], json!({"s0": 2}));
    assert_eq!(execute["addresses"], json!({"s0": ["node-2:7000", "node-1:7000"]}));
    assert_eq!(execute["error"], Value::Null);
    assert_eq!((&execute["took"], &execute["coordinator_calls"]), (&json!("200ms"), &json!(1)));
    assert_eq!(objects[1]["outcome"]["blacklist"], json!({"s0": [2]}));
    assert_eq!(
        objects[1]["outcome"]["metrics"]["shard_client_cache_reads{caller=\"get_shard\",result=\"hit\"}"],
        json!(3)
    );
    assert_eq!(objects[1]["now_ms"], json!(200.0));
}

#[test]
fn an_explanation_tells_every_try() {
    let text = format!(
        "{HEAD}client: {{policy: scripted, picks: [lowest]}}
collection: 31
coordinator: [{{shards: {{s0: [{{node: 1}}, {{node: 2}}, {{node: 3}}]}}}}]
nodes: {{1: [unreachable], 2: [{{error: segment_lack, after: 20ms}}], 3: [{{after: 5ms}}]}}
steps:
  - execute: {{background: it}}
  - join: it
"
    );
    let outcome = replay(&text, "it.yaml", &Options { explain: true }).unwrap();
    assert_eq!(
        Format::Text.lines("it.yaml", &outcome),
        [
            "it.yaml: step 2 (line 10, join):",
            "  at 0s: s0 on node 1 (node-1:7000): no client to be had",
            "  at 200ms: s0 on node 2 (node-2:7000): fails with segment_lack (602) after 20ms",
            "  at 620ms: s0 on node 3 (node-3:7000): answers after 5ms",
        ]
    );
}

#[test]
fn a_step_that_would_take_for_ever_is_refused() {
    let endless = steps(&["advance: 5000000000h"]);
    assert_says(&endless, 8, &["steps[0].advance", "does not come to an end", "timers"]);
    let patient = refusal(&format!(
        "{HEAD}client: {{retry_on_replica: 9223372036854775807}}\ncollection: 31\ncoordinator: [{{shards: {{s0: [{{node: 1}}]}}}}]\nnodes: {{1: [service_unavailable]}}\nsteps:\n  - execute: {{}}\n"
    ));
    assert_says(&patient, 9, &["steps[0].execute", "does not come to an end"]);
}
