//! What answers say.

use std::sync::Arc;

use pointsman_ids::{GroupNumber, feed::LoadState};
use serde_json::{Value, json};

use crate::cluster::{Cluster, change_collection, codes, complete};

#[tokio::test]
async fn an_answer_has_rows_figures_and_coverage() {
    let cluster = Cluster::replicated().await;
    let body = json!({
        "sql": "SELECT count(*) AS n, min(name) AS first FROM t WHERE id >= 50",
        "queryOptions": "clientRequestId=mine;useMultistageEngine=true",
        "trace": true,
    });
    let (status, answer) = cluster.broker.post(&body.to_string(), &[]).await;
    assert_eq!((status, complete(&answer)), (200, &json!([[50, "name 50"]])));
    let schema = json!({"columnNames": ["n", "first"], "columnDataTypes": ["LONG", "STRING"]});
    assert_eq!(answer["resultTable"]["dataSchema"], schema);
    for (field, value) in [
        ("numServersQueried", json!(2)),
        ("numServersResponded", json!(2)),
        ("numSegmentsQueried", json!(2)),
        ("numSegmentsProcessed", json!(2)),
        ("numSegmentsPrunedByBroker", json!(2)),
        ("totalDocs", json!(50)),
        ("numRowsResultSet", json!(1)),
        ("clientRequestId", json!("mine")),
        ("brokerId", json!("broker-1")),
        ("tablesQueried", json!(["t"])),
        ("pools", json!([0, 1])),
    ] {
        assert_eq!(answer[field], value, "{field} of {answer}");
    }
    let coverage = json!({
        "segments_asked": 2, "segments_answered": 2, "segments_unavailable": 0, "segments_fail_open": 0,
        "left_out": {"pruned": 2, "unknown": 0, "new": 0, "optional_skipped": 0},
        "nodes_asked": 2, "nodes_answered": 2, "nodes_failed": 0, "routing_age": {}, "unavailable": [],
        "fail_open": [],
    });
    assert_eq!(answer["coverage"], coverage);
    assert_eq!(answer["traceInfo"]["attempts"], json!(1));
    assert!(answer["requestId"].as_str().is_some_and(|id| !id.is_empty()));
}

#[tokio::test]
async fn values_keep_their_types() {
    let cluster = Cluster::replicated().await;
    let sql = "SELECT arrow_cast(1, 'Int32') AS i, 2 AS l, arrow_cast(0.5, 'Float32') AS f, 0.25 / 0.0 AS d, \
               true AS b, NULL AS n, 'é' AS s, CAST('1.20' AS DECIMAL(5, 2)) AS dec, DATE '1995-01-01' AS day, \
               arrow_cast('2020-01-02T03:04:05', 'Timestamp(Second, None)') AS local, \
               arrow_cast('2020-01-02T03:04:05', 'Timestamp(Second, Some(\"+00:00\"))') AS instant, \
               X'00Ab' AS bytes, [1, 2] AS list";
    let answer = cluster.sql(sql).await;
    let rows = json!([[
        1,
        2,
        0.5,
        "Infinity",
        true,
        null,
        "é",
        "1.20",
        "1995-01-01",
        "2020-01-02T03:04:05",
        "2020-01-02T03:04:05Z",
        "00ab",
        [1, 2]
    ]]);
    assert_eq!(complete(&answer), &rows);
    let types = json!([
        "INT",
        "LONG",
        "FLOAT",
        "DOUBLE",
        "BOOLEAN",
        "STRING",
        "STRING",
        "STRING",
        "STRING",
        "TIMESTAMP",
        "TIMESTAMP",
        "BYTES",
        "LONG_ARRAY"
    ]);
    assert_eq!(answer["resultTable"]["dataSchema"]["columnDataTypes"], types);
    assert_eq!(answer["numServersQueried"], json!(0));
}

#[tokio::test]
async fn an_empty_result_has_its_columns() {
    let cluster = Cluster::replicated().await;
    for sql in ["SELECT id FROM t WHERE id < 0", "SELECT id FROM t WHERE name = 'nobody'"] {
        let answer = cluster.sql(sql).await;
        assert_eq!(complete(&answer), &json!([]), "{sql}");
        assert_eq!(answer["resultTable"]["dataSchema"]["columnNames"], json!(["id"]));
    }
}

#[tokio::test]
async fn errors_have_codes_and_no_table() {
    let cluster = Cluster::replicated().await;
    for (sql, code) in [
        ("SELEC 1", 150),
        ("SELECT * FROM '/etc/passwd'", 150),
        ("SET a", 150),
        ("SELECT * FROM nothing", 190),
        ("SELECT nothing FROM t", 710),
        ("SELECT 1 OPTION(timeoutMs=soon)", 700),
        ("SET resource_group = 'nothing'; SELECT * FROM t", 700),
    ] {
        let answer = cluster.sql(sql).await;
        assert_eq!(codes(&answer), [code], "{sql}: {answer}");
        assert!(answer.get("resultTable").is_none(), "{sql}");
        assert_eq!((&answer["numServersQueried"], &answer["numServersResponded"]), (&json!(0), &json!(0)));
    }
}

#[tokio::test]
async fn a_collection_without_a_target_says_how_far_its_load_is() {
    let mut cluster = Cluster::replicated().await;
    cluster
        .change(|snapshot| {
            change_collection(snapshot, |entry| {
                entry.load = LoadState::Loading { percent: 40 };
                entry.segments.clear();
            });
        })
        .await;
    let answer = cluster.sql("SELECT * FROM t").await;
    assert_eq!(codes(&answer), [410]);
    assert!(answer["exceptions"][0]["message"].as_str().unwrap().contains("40%"), "{answer}");
    cluster.change(|snapshot| change_collection(snapshot, |entry| entry.load = LoadState::NotLoaded)).await;
    assert_eq!(codes(&cluster.sql("SELECT * FROM t").await), [410]);
}

#[tokio::test]
async fn a_scope_keeps_a_query_inside_its_group() {
    let mut cluster = Cluster::replicated().await;
    for group in [0, 1] {
        let answer = cluster.sql(&format!("SET resource_group = 'g{group}'; SELECT count(*) FROM t")).await;
        assert_eq!(complete(&answer), &json!([[100]]));
        assert_eq!(answer["pools"], json!([group]));
    }
    let unfinished =
        |entry: &mut pointsman_ids::feed::CollectionEntry| entry.finished_groups = vec![GroupNumber(0)];
    cluster.change(|snapshot| change_collection(snapshot, unfinished)).await;
    assert_eq!(codes(&cluster.sql("SET resource_group = 'g1'; SELECT count(*) FROM t").await), [410]);
    // What is missing in the group is unavailable, though another group has it.
    let keep_first = |entry: &mut pointsman_ids::feed::CollectionEntry| {
        for segment in entry.segments.iter_mut().skip(1) {
            Arc::make_mut(segment).copies.retain(|copy| copy.replica == 1);
        }
    };
    cluster.change(|snapshot| change_collection(snapshot, keep_first)).await;
    let answer = cluster.sql("SET resource_group = 'g0'; SELECT count(*) FROM t").await;
    assert_eq!((codes(&answer), &answer["resultTable"]["rows"]), (vec![305], &json!([[25]])));
}

#[tokio::test]
async fn only_what_is_no_request_is_refused_by_http() {
    let cluster = Cluster::replicated().await;
    for body in ["", "SELECT 1", "{}", r#"{"sql": 1}"#] {
        let (status, answer) = cluster.broker.post(body, &[]).await;
        assert_eq!((status, codes(&answer)), (400, vec![700]), "{body}");
        assert!(answer["coverage"].is_object(), "the body has the shape of every answer");
    }
    let long = format!(r#"{{"sql": "{}"}}"#, "x".repeat(3 << 20));
    assert_eq!(cluster.broker.post(&long, &[]).await.0, 413);
    let long = json!({"sql": format!("SELECT '{}'", "x".repeat(300 << 10))});
    assert_eq!(codes(&cluster.broker.post(&long.to_string(), &[]).await.1), [150]);
}

#[tokio::test]
async fn a_value_without_a_text_is_an_error_of_the_query() {
    let cluster = Cluster::replicated().await;
    let body = json!({"sql": "SELECT arrow_cast(956310258, 'Date32')"}).to_string();
    let (status, answer) = cluster.broker.post(&body, &[]).await;
    assert_eq!((status, codes(&answer)), (200, vec![200]), "{answer}");
    assert_ne!(answer["requestId"], json!(""));
}

#[tokio::test]
async fn a_header_asks_for_the_status_of_the_error() {
    let cluster = Cluster::replicated().await;
    let body = json!({"sql": "SELECT * FROM nothing"}).to_string();
    let asked = [("Pointsman-Use-Http-Status-For-Errors", "true")];
    assert_eq!(cluster.broker.post(&body, &asked).await.0, 404);
    assert_eq!(cluster.broker.post(&body, &[]).await.0, 200);
    assert_eq!(cluster.broker.post(&json!({"sql": "SELECT 1"}).to_string(), &asked).await.0, 200);
}

#[tokio::test]
async fn get_takes_the_statement_as_a_parameter() {
    let cluster = Cluster::replicated().await;
    let (status, answer) = cluster.broker.get("/query/sql?sql=SELECT%20count(*)%20FROM%20t").await;
    assert_eq!((status, complete(&answer)), (200, &json!([[100]])));
    assert_eq!(cluster.broker.get("/query/sql").await.0, 400);
}

#[tokio::test]
async fn many_rows_and_plans_come_whole() {
    let cluster = Cluster::replicated().await;
    let answer = cluster.sql("SELECT a.id FROM t a CROSS JOIN t b").await;
    assert_eq!(complete(&answer).as_array().map(Vec::len), Some(10_000));
    assert_eq!(answer["numRowsResultSet"], json!(10_000));
    let explained = cluster.sql("EXPLAIN SELECT count(*) FROM t").await;
    assert!(complete(&explained).as_array().is_some_and(|rows| !rows.is_empty()));
    let tables: Vec<Value> = complete(&cluster.sql("SHOW TABLES").await).as_array().cloned().unwrap();
    assert!(
        tables.iter().any(|row| row.as_array().is_some_and(|row| row.contains(&json!("t")))),
        "{tables:?}"
    );
}
