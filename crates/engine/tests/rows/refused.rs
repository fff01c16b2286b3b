//! Questions that make no sense, and what is said about them.

use pointsman_engine::rows::{Checked, MAX_KEYS};
use pointsman_ids::{
    Error, ErrorCode,
    catalog::{Column, Value},
    request::{Get, Query, Question, Search, Table},
};

use crate::world::table;

fn refused(question: Question, table: &Table) -> Error {
    Checked::new(question, table).expect_err("it must be refused")
}

fn assert_says(error: &Error, code: ErrorCode, words: &[&str]) {
    assert_eq!(error.code(), code, "{error}");
    for word in words {
        assert!(error.message().contains(word), "'{word}' is not said: {error}");
    }
}

fn search() -> Search {
    Search { vectors: vec![vec![0.0, 1.0]], k: 1, ..Search::default() }
}

#[test]
fn searches() {
    let table = table(Some("id"), 2, vec![]);
    let says = |search: Search, code, words: &[&str]| {
        assert_says(&refused(Question::Search(search), &table), code, words);
    };
    use ErrorCode::{ColumnNotFound, ParameterInvalid, ParameterMissing, ParameterTooLarge};
    says(Search { column: Some("w".into()), ..search() }, ColumnNotFound, &["'photos'", "'w'", "there are"]);
    says(Search { column: Some("id".into()), ..search() }, ParameterInvalid, &["'id'", "Int64", "Float32"]);
    says(Search { columns: vec!["nam".into()], ..search() }, ColumnNotFound, &["'nam'", "did you mean name"]);
    says(Search { columns: vec!["n".into(), "n".into()], ..search() }, ParameterInvalid, &["'n'", "twice"]);
    says(Search { vectors: vec![], ..search() }, ParameterMissing, &["at least one vector"]);
    says(
        Search { vectors: vec![vec![1.0]], ..search() },
        ParameterInvalid,
        &["vector 0", "1 dimensions", "2"],
    );
    let nan = vec![vec![0.0, 0.0], vec![0.0, f32::NAN]];
    says(Search { vectors: nan, ..search() }, ParameterInvalid, &["vector 1", "NaN", "place 1"]);
    says(
        Search { vectors: vec![vec![f32::INFINITY, 0.0]], ..search() },
        ParameterInvalid,
        &["inf", "place 0"],
    );
    says(Search { k: 0, ..search() }, ParameterInvalid, &["k is 0"]);
    says(Search { k: 20_000, ..search() }, ParameterTooLarge, &["20000", "16384"]);
    says(Search { vectors: vec![vec![0.0; 2]; 2_000], ..search() }, ParameterTooLarge, &["2000 vectors"]);
    let many = Search { vectors: vec![vec![0.0; 2]; 1_000], k: 1_000, ..search() };
    says(many, ParameterTooLarge, &["1000000 rows", "split"]);
    says(Search { candidates: Some(100_000), ..search() }, ParameterTooLarge, &["candidates"]);
}

#[test]
fn searches_of_collections_that_cannot_be_searched() {
    let column = |name: &str, data_type: &str| Column {
        name: name.into(),
        data_type: data_type.into(),
        nullable: true,
    };
    let mut table = Table { columns: vec![column("a", "Int64")], key: None, ..table(None, 2, vec![]) };
    let said = |table: &Table| refused(Question::Search(search()), table);
    assert_says(&said(&table), ErrorCode::ParameterInvalid, &["no column of vectors"]);
    table.columns.push(column("v", "FixedSizeList(2 x Float64)"));
    assert_says(&said(&table), ErrorCode::ParameterInvalid, &["'v'", "Float64", "Float32"]);
    table.columns[1] = column("v", "FixedSizeList(2 x Float32)");
    assert!(Checked::new(Question::Search(search()), &table).is_ok());
    table.columns.push(column("w", "FixedSizeList(2 x Float32)"));
    assert_says(&said(&table), ErrorCode::ParameterMissing, &["several", "v, w"]);
    table.columns.push(column("_distance", "Int64"));
    let named = Search { column: Some("v".into()), columns: vec!["_distance".into()], ..search() };
    assert_says(&refused(Question::Search(named), &table), ErrorCode::ParameterInvalid, &["'_distance'"]);
    table.key = Some("v".into());
    assert_says(&said(&table), ErrorCode::ParameterInvalid, &["'v'", "cannot be its key"]);
    table.columns.push(column("odd", "Purple"));
    assert_says(&said(&table), ErrorCode::ServiceInternal, &["'odd'", "Purple"]);
}

#[test]
fn rows_by_key() {
    let by_id = table(Some("id"), 2, vec![]);
    let says = |table: &Table, keys: Vec<Value>, code, words: &[&str]| {
        assert_says(&refused(Question::Get(Get { keys, columns: vec![] }), table), code, words);
    };
    use ErrorCode::{ParameterInvalid, ParameterMissing, ParameterTooLarge};
    says(&table(None, 2, vec![]), vec![Value::Integer(1)], ParameterInvalid, &["'photos' has no key"]);
    says(&by_id, vec![], ParameterMissing, &["at least one key"]);
    let text = vec![Value::Integer(1), Value::Text("1".into())];
    says(&by_id, text, ParameterInvalid, &["key 1", "the text '1'", "'id'", "Int64"]);
    says(&by_id, vec![Value::Integer(i128::MAX)], ParameterInvalid, &["key 0"]);
    let twice = vec![Value::Integer(4), Value::Integer(3), Value::Integer(4)];
    says(&by_id, twice, ParameterInvalid, &["keys 0 and 2", "the integer 4"]);
    let many = (0..=MAX_KEYS as i128).map(Value::Integer).collect();
    says(&by_id, many, ParameterTooLarge, &["10001 keys"]);
}

#[test]
fn keys_without_a_form_in_json_are_given_as_text() {
    let mut table = table(Some("id"), 2, vec![]);
    let mut accepts = |data_type: &str, key: Value| {
        table.columns[0].data_type = data_type.into();
        Checked::new(Question::Get(Get { keys: vec![key], columns: vec![] }), &table).is_ok()
    };
    assert!(accepts("Date32", Value::Text("2026-02-28".into())));
    assert!(!accepts("Date32", Value::Text("2026-02-31".into())));
    assert!(accepts("Timestamp(Microsecond, Some(\"UTC\"))", Value::Text("2026-02-28T12:00:00Z".into())));
    assert!(accepts("Decimal128(10, 2)", Value::Text("12.50".into())));
    assert!(accepts("Float64", Value::Integer(2)));
    assert!(!accepts("Boolean", Value::Text("true".into())));
}

#[test]
fn conditions() {
    let table = table(Some("id"), 2, vec![]);
    let says = |filter: &str, code, words: &[&str]| {
        let query = Query { filter: Some(filter.into()), columns: vec![], limit: 1 };
        assert_says(&refused(Question::Query(query), &table), code, words);
    };
    use ErrorCode::{ColumnNotFound, SqlInvalid};
    says("n >", SqlInvalid, &["the filter"]);
    says("n > 1; DROP TABLE photos", SqlInvalid, &["the filter"]);
    says("n > 1 AS x", SqlInvalid, &["has no name"]);
    says("n + 1", SqlInvalid, &["no condition", "not true or false"]);
    says("ids > 1", ColumnNotFound, &["'ids'", "did you mean id"]);
    says("id IN (SELECT 1)", SqlInvalid, &["subqueries"]);
    says("EXISTS (SELECT 1)", SqlInvalid, &["subqueries"]);
    says("count(*) > 1", SqlInvalid, &["the filter"]);
    says("sum(n) > 1", SqlInvalid, &["many rows"]);
    says("row_number() OVER () > 1", SqlInvalid, &["the filter"]);
    says("random() > 0.5", SqlInvalid, &["'random'", "write its value"]);
    says("now() > '2026-01-01'", SqlInvalid, &["'now'"]);
    says("n > $1", SqlInvalid, &["placeholders"]);
    says("n = 'x'", SqlInvalid, &["the filter"]);
    says(&format!("n IN ({})", vec!["1"; 20_000].join(",")), SqlInvalid, &["IN list"]);
    says(&format!("{}n > 1", "NOT ".repeat(2_000)), SqlInvalid, &["the filter"]);
    says(&format!("n > 0{}", "+1".repeat(2_000)), SqlInvalid, &["operators"]);
    says(&format!("{}n > 0{}", "(".repeat(200), ")".repeat(200)), SqlInvalid, &["nested"]);
    let zero = Question::Query(Query { filter: None, columns: vec![], limit: 0 });
    assert_says(&refused(zero, &table), ErrorCode::ParameterInvalid, &["limit is 0"]);
    let much = Question::Query(Query { filter: None, columns: vec![], limit: 1 << 30 });
    assert_says(&refused(much, &table), ErrorCode::ParameterTooLarge, &["limit"]);
}

#[test]
fn conditions_within_the_limits_are_planned_whatever_their_depth() {
    let table = table(None, 2, vec![]);
    let deep = format!("{}n > 0{}", "(".repeat(99), ")".repeat(99));
    let long = format!("n > 0{}", "+1".repeat(499));
    let wide = vec!["n = 1"; 240].join(" OR ");
    for filter in [deep, long, wide, " ".into()] {
        let query = Query { filter: Some(filter), columns: vec![], limit: 1 };
        Checked::new(Question::Query(query), &table).unwrap();
    }
}
