//! What a text may make the engine hold.

use std::time::Duration;

use pointsman_engine::{EngineSettings, WorkerSettings};
use pointsman_ids::ErrorCode;

use crate::{cluster::Cluster, compare, data};

/// A cluster that plans for as long as it takes: what refuses a statement is to be its limits, on any machine.
fn patient() -> Cluster {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = data::write(folder.path());
    let settings = EngineSettings { planning_timeout: Duration::from_secs(600), ..EngineSettings::default() };
    Cluster::start(folder, tables, 2, 1, settings, WorkerSettings::default())
}

/// The statement fails by its own fault, and names the function and a limit.
async fn refused(cluster: &Cluster, sql: &str, function: &str) {
    let error = cluster.run(sql).await.expect_err(sql);
    let message = error.to_string();
    assert!(matches!(error.code(), ErrorCode::Unknown | ErrorCode::SqlInvalid), "{message}\n{sql}");
    assert!(message.contains(function) && message.contains("are allowed"), "{message}\n{sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn constants_are_bounded() {
    let cluster = patient();
    for (expression, function) in [
        ("repeat('x', 2000000000)", "repeat"),
        ("repeat('x', 9223372036854775807)", "repeat"),
        ("length(repeat('x', 300000000))", "repeat"),
        ("lpad('x', 2147483647, 'y')", "lpad"),
        ("rpad('x', 2147483647)", "rpad"),
        ("array_repeat(1, 1000000000)", "array_repeat"),
        ("list_repeat(NULL, 1000000000)", "array_repeat"),
        ("array_repeat(array_repeat(1, 100000), 100000)", "array_repeat"),
        ("array_resize([1], 1000000000, 7)", "array_resize"),
        ("range(1, 1000000000000)", "range"),
        ("range(1000000000000)", "range"),
        ("generate_series(1000000000000, 1, -1)", "generate_series"),
        ("range(TIMESTAMP '2000-01-01', TIMESTAMP '2020-01-01', INTERVAL '1 millisecond')", "range"),
        ("generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 day')", "generate_series"),
        ("replace(repeat('x', 1000000), 'x', repeat('y', 1000000))", "replace"),
        ("replace(repeat('x', 1000000), '', repeat('y', 1000000))", "replace"),
        ("regexp_replace(repeat('x', 100000), 'x', repeat('y', 1000000), 'g')", "regexp_replace"),
        ("regexp_replace(repeat('x', 1000000), '(.*)', repeat('\\1', 500000))", "regexp_replace"),
        ("array_to_string(array_repeat(1, 100000), repeat('y', 1000000))", "array_to_string"),
        ("string_to_array(repeat('x,', 400000), ',')", "string_to_array"),
        ("array_replace_all(array_repeat('x', 100000), 'x', repeat('y', 1000000))", "array_replace_all"),
        ("to_char(now(), repeat('%c', 400000))", "to_char"),
        ("concat(repeat('x', 1000000), repeat('x', 1000000))", "concat"),
        ("concat_ws(repeat('x', 1000000), 'a', 'b', 'c')", "concat_ws"),
        ("repeat('x', 1000000) || repeat('x', 1000000)", "||"),
        ("overlay(repeat('x', 1000000) PLACING repeat('y', 1000000) FROM 1)", "overlay"),
        ("levenshtein(repeat('x', 1000000), repeat('y', 1000000))", "levenshtein"),
    ] {
        refused(&cluster, &format!("SELECT {expression}"), function).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_doubles_at_every_level_ends() {
    let cluster = patient();
    for (start, doubled, function) in [
        ("'xxxx'", "a || a", "||"),
        ("'xxxx'", "concat(a, a)", "concat"),
        ("'xxxx'", "concat_ws(a, a, a)", "concat_ws"),
        ("'xxxx'", "replace(a, 'x', 'xxx')", "replace"),
        ("'xxxx'", "overlay(a PLACING a FROM length(a))", "overlay"),
        ("[1, 2]", "array_concat(a, a)", "array_concat"),
        ("[1, 2]", "a || a", "array_concat"),
        ("[1, 2]", "array_append([a], a)", "array_append"),
        ("n_name", "a || a", "||"),
        ("n_name", "concat(a, a)", "concat"),
    ] {
        let from = if start == "n_name" { " FROM nation" } else { "" };
        let levels = if doubled.starts_with("array_append") { 4 } else { 40 };
        let first = format!("SELECT {start} AS a{from}");
        let sql = (0..levels).fold(first, |sql, _| format!("SELECT {doubled} AS a FROM ({sql}) AS t"));
        if levels == 40 {
            refused(&cluster, &sql, function).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_bounded_on_nodes() {
    let cluster = patient();
    for (expression, function) in [
        ("length(repeat(l_comment, 10000000))", "repeat"),
        ("length(repeat(l_comment, 10000))", "repeat"),
        ("length(lpad(l_comment, 2000000000))", "lpad"),
        ("cardinality(array_repeat(l_comment, l_orderkey * 100000))", "array_repeat"),
        ("cardinality(range(l_orderkey * 1000000))", "range"),
    ] {
        refused(&cluster, &format!("SELECT sum({expression}) FROM lineitem"), function).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bounded_functions_answer_as_before() {
    let cluster = Cluster::tpch(2, 1);
    let plain = compare::plain(&cluster).await;
    for sql in [
        "SELECT repeat('ab', 3), repeat('ab', 0), repeat('ab', -1), repeat(NULL, 3), lpad('x', 5, 'yz'), rpad('x', 3)",
        "SELECT 'a' || 'b', 'a' || NULL, 1 || 'a' || 2.5, true || 'x', DATE '2024-02-29' || ''",
        "SELECT X'00' || X'FF'",
        "SELECT n_name || '-' || n_nationkey || '-' || n_comment FROM nation",
        "SELECT n_name || CASE WHEN n_nationkey > 3 THEN 'x' END AS c, count(*) FROM nation GROUP BY c",
        "SELECT n_name || 'x', count(*) FROM nation GROUP BY n_name || 'x' HAVING n_name || 'x' > 'F'",
        "SELECT concat(n_name, 1, NULL, n_comment), concat_ws(',', n_name, NULL, 'b') FROM nation",
        "SELECT replace(n_comment, 'e', 'eee'), regexp_replace(n_comment, '([aeiou])', '<\\1>', 'g') FROM nation",
        "SELECT regexp_match(n_comment, '(a)(.)'), overlay(n_name PLACING 'xx' FROM 2), reverse(n_name) FROM nation",
        "SELECT upper(n_comment), initcap(n_comment), left(n_comment, 2), right(n_comment, -2), translate(n_name, 'A', 'b') FROM nation",
        "SELECT substr(n_comment, 2, 3), split_part(n_comment, ' ', 1), btrim(n_comment, 'a'), ltrim(n_name), rtrim(n_name) FROM nation",
        "SELECT array_repeat(n_name, 2), array_resize([n_nationkey], 3, 0), array_to_string([n_name, 'x'], '-') FROM nation",
        "SELECT string_to_array(n_comment, ' '), array_replace_all([n_regionkey, 1], 1, 7), [n_nationkey] || 3 FROM nation",
        "SELECT range(3), range(1, 10, 4), generate_series(5, 1, -2), range(NULL, 3), range(n_nationkey) FROM nation",
        "SELECT generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL '1 month')",
        "SELECT to_char(o_orderdate, '%Y/%m'), count(*) FROM orders GROUP BY 1",
        "SELECT levenshtein(n_name, 'FRANCE'), array_concat([1], [2], [n_nationkey]), arrays_zip([1, 2], [n_nationkey]) FROM nation",
        "SELECT l_shipmode || ' ' || l_comment, length(repeat(l_comment, 20)) FROM lineitem WHERE l_shipmode || 'x' LIKE 'A%'",
        "SELECT n_name FROM nation WHERE repeat(n_name, 2) LIKE 'FRANCEF%' AND upper(n_name) = 'FRANCE'",
        "SELECT max(repeat(l_comment, 2)), min(l_comment || l_shipmode) FROM lineitem GROUP BY substr(l_comment, 1, 1)",
        "SELECT * FROM range(1, CAST(length(repeat('x', 9)) AS BIGINT))",
        "SELECT CASE WHEN n_nationkey > 5 THEN upper(n_name) ELSE 'low' END, coalesce(lower(n_name), 'x') FROM nation",
        "SELECT upper(n_name) FROM nation UNION ALL SELECT 'a' UNION SELECT n_name || 'b' FROM nation",
        "SELECT o_orderkey FROM orders WHERE substr(o_comment, 1, 3) IN ('the', upper('a')) AND o_orderkey < 900",
    ] {
        compare::same(&cluster, &plain, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_constant_beside_many_rows_is_held_once() {
    let cluster = Cluster::tpch(2, 1);
    let sql = "SELECT count(*), sum(length(s)) FROM (SELECT repeat('x', 1000000) AS s, l_orderkey FROM lineitem \
               WHERE l_orderkey < 3) AS t WHERE l_orderkey > 0";
    assert_eq!(compare::rows(&cluster.run(sql).await.expect("rows")), ["7|7000000"]);
    let planned = cluster.plan("SELECT repeat('x', 1000000), l_orderkey FROM lineitem LIMIT 5").await;
    planned.expect("a plan");
    let sql = "SELECT arrow_cast(repeat('x', 1000000), 'Utf8'), l_orderkey FROM lineitem";
    let refused = cluster.run(sql).await.expect_err("it would be copied for every row");
    assert!(refused.to_string().contains("constant"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_series_stream() {
    let cluster = Cluster::tpch(2, 1);
    let rows = cluster.run("SELECT count(*) FROM generate_series(1, 3000000)").await.expect("rows");
    assert_eq!(compare::rows(&rows), ["3000000"]);
    let planned = cluster.plan("SELECT * FROM range(1, 1000000000000)").await.expect("a plan");
    let mut rows = planned.execute().expect("rows");
    let first = futures::StreamExt::next(&mut rows).await.expect("a batch").expect("rows");
    assert!(first.num_rows() <= 8192);
}
