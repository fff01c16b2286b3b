//! What is told of a scenario that can be run.

use pointsman_replay::{Format, Options, Outcome, Tally, replay};
use serde_json::{Value, json};

const HEAD: &str = "kind: routing
name: it
about: it
broker: {detector: {initial_delay: 1s, factor: 1.0, max_retries: -1}}
steps:
  - nodes: {n1: {pool: 3}, n2: {}, n3: {enabled: false}}
  - collection: {name: t, segments: {s0: {assigned: [n1, n2], observed: [n1, n2]}, s1: {assigned: [n1], observed: [n1]}, s2: {assigned: [n3], observed: [n3]}}}
  - mark_unhealthy: n1
";

fn run(steps: &str) -> Outcome {
    replay(&format!("{HEAD}{steps}"), "it.yaml", &Options::default()).unwrap()
}

fn text(steps: &str) -> Vec<String> {
    Format::Text.lines("it.yaml", &run(steps))
}

#[test]
fn a_failed_expectation_is_told_with_file_step_key_expected_and_got() {
    let lines = text("  - select: {collection: t}\n    expect: {served: {s0: n1}, unavailable: [s1, s2]}\n");
    assert_eq!(lines, [r#"it.yaml: step 4 (line 9, select): served: expected {"s0":"n1"}, got {"s0":"n2"}"#]);
    let lines = text(
        "  - check: {}\n    expect: {metrics: {'selected_segments{pool=\"3\"}': 1, 'replica_percent{collection=\"u\"}': 0}}\n",
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with("selected_segments{pool=\"3\"}: expected 1, got 0"), "{lines:?}");
    assert!(lines[1].ends_with("replica_percent{collection=\"u\"}: expected 0, got null"), "{lines:?}");
    let lines = text("  - check: {}\n    expect: {routable: {local: [n1]}}\n");
    assert_eq!(lines, [r#"it.yaml: step 4 (line 9, check): routable.local: expected ["n1"], got ["n2"]"#]);
}

#[test]
fn errors_compare_by_code_and_part_of_the_text() {
    let refused = "  - select: {collection: t, options: {num_replica_groups: 0}}\n    expect: {error: ";
    for right in ["{code: 700}", "{contains: num_replica}", "{code: 700, contains: groups}", "{}"] {
        assert_eq!(text(&format!("{refused}{right}}}\n")), [""; 0], "{right}");
    }
    for wrong in ["null", "{code: 410}", "{code: 700, contains: replica_group_s}"] {
        assert_eq!(text(&format!("{refused}{wrong}}}\n")).len(), 1, "{wrong}");
    }
    assert_eq!(text("  - select: {collection: t}\n    expect: {error: {}}\n").len(), 1);
    assert_eq!(text("  - select: {collection: t}\n    expect: {error: null}\n").len(), 0);
}

#[test]
fn sets_have_no_order_and_orders_have() {
    let lines = text(
        "  - select: {collection: t}\n    expect: {unavailable: [s2, s1, s2]}\n  - mark_unhealthy: n2\n    expect: {unhealthy: [n2, n1], routable: []}\n",
    );
    assert_eq!(lines, [""; 0]);
    let advance = |probed: &str| {
        text(&format!(
            "  - advance: 400ms\n  - mark_unhealthy: n2\n  - advance: 1s\n    probes: {{n1: unhealthy, n2: unhealthy}}\n    expect: {{probed: {probed}}}\n"
        ))
    };
    assert_eq!(advance("[n1, n2]"), [""; 0]);
    assert_eq!(advance("[n2, n1]").len(), 1);
    assert_eq!(advance("[n1]").len(), 1);
}

#[test]
fn json_tells_every_step_with_all_that_came_out() {
    let outcome =
        run("  - select: {collection: t, request_id: 7}\n  - retry_lookup: n3\n  - advance: 1500ms\n");
    let lines = Format::Json.lines("it.yaml", &outcome);
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 6);
    let select = &objects[3];
    assert_eq!(select["file"], "it.yaml");
    assert_eq!(
        (&select["step"], &select["line"], &select["action"]),
        (&json!(4), &json!(9), &json!("select"))
    );
    assert_eq!(select["outcome"]["served"], json!({"s0": "n2"}));
    assert_eq!(select["outcome"]["unavailable"], json!(["s1", "s2"]));
    assert_eq!(select["outcome"]["error"], Value::Null);
    assert_eq!(select["outcome"]["unhealthy"], json!(["n1"]));
    assert_eq!(select["outcome"]["routable"], json!({"local": ["n2"]}));
    assert_eq!(select["outcome"]["metrics"]["unhealthy_nodes"], json!(1));
    assert_eq!(select["failed"], json!([]));
    assert_eq!(objects[4]["outcome"]["retry_cluster"], Value::Null);
    assert_eq!(objects[5]["outcome"]["probed"], json!(["n1"]));
    assert_eq!(objects[5]["now_ms"], json!(1500.0));
}

#[test]
fn explanations_tell_the_rule_and_what_ruled_out_the_others() {
    let steps = format!("{HEAD}  - select: {{collection: t}}\n");
    let outcome = replay(&steps, "it.yaml", &Options { explain: true }).unwrap();
    let lines = Format::Text.lines("it.yaml", &outcome).join("\n");
    for part in [
        "s0: served by n2; in turn: candidate 0 modulo 1",
        "n1 (pool 3): ruled out: excluded by the failure detector",
        "n2 (pool -1): can be chosen",
        "s1: unavailable (all_excluded); no fail-open: it is off",
        "s2: unavailable (all_disabled)",
        "n3 (pool -1): ruled out: disabled",
    ] {
        assert!(lines.contains(part), "'{part}' is not in:\n{lines}");
    }
    // The explanation counts nothing.
    assert_eq!(outcome.steps[3].values, run("  - select: {collection: t}\n").steps[3].values);
}

#[test]
fn the_exit_status_tells_the_worst() {
    let passed = Ok(run(""));
    let failed = Ok(run("  - check: {}\n    expect: {unhealthy: []}\n"));
    let unusable = replay("", "it.yaml", &Options::default());
    let tally = |outcomes: &[&Result<_, _>]| {
        let mut tally = Tally::default();
        outcomes.iter().for_each(|outcome| tally.count(outcome));
        (tally.to_string(), tally.exit_status())
    };
    assert_eq!(tally(&[]), ("0 passed, 0 failed".to_owned(), 0));
    assert_eq!(tally(&[&passed, &passed]), ("2 passed, 0 failed".to_owned(), 0));
    assert_eq!(tally(&[&passed, &failed]), ("1 passed, 1 failed".to_owned(), 1));
    assert_eq!(tally(&[&unusable, &failed, &passed]), ("1 passed, 2 failed".to_owned(), 2));
}

#[test]
fn extremes_of_time_come_to_an_end() {
    let outcome = run(
        "  - advance: 5000000000h\n    probes: {n1: healthy}\n  - advance: 5000000000h\n  - advance: 1ms\n",
    );
    assert_eq!(outcome.steps[3].values["unhealthy"], json!([]));
    let endless = replay(
        &format!("{HEAD}  - advance: 5000000h\n    probes: {{n1: unhealthy}}\n"),
        "it.yaml",
        &Options::default(),
    );
    let error = endless.unwrap_err().to_string();
    assert!(error.starts_with("it.yaml:9: steps[3].advance: ") && error.contains("retries"), "{error}");
}
