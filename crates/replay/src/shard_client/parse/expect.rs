//! What stands under `expect`.

use serde_json::{Map, Value};

use super::{
    super::{
        expect::{Expectations, Expected, How},
        metrics::Query,
        observed,
    },
    id,
};
use crate::{ScenarioError, errors::ExpectedError, leaders, series::number, yaml::At};

type Read = fn(&At<'_>) -> Result<Value, ScenarioError>;

/// A key, how it compares, and how it is read.
type Key = (&'static str, How, Read);

const CALL: [Key; 2] = [("coordinator_calls", How::Exactly, count), ("took", How::Exactly, took)];

const EXECUTE: [Key; 4] = [
    ("visits", How::Lists, |at| map(at, numbers)),
    ("runs", How::Counts, |at| map(at, count)),
    ("addresses", How::Lists, |at| map(at, texts)),
    ("blacklist", How::Sets, |at| map(at, numbers)),
];

const SELECT: [Key; 5] = [
    ("node", How::Exactly, |at| if at.is_null() { Ok(Value::Null) } else { count(at) }),
    ("by_balancer", How::Exactly, |at| Ok(at.boolean()?.into())),
    ("offered", How::Exactly, numbers),
    ("registered", How::Set, numbers),
    ("excluded", How::Set, numbers),
];

const LEADERS: [Key; 1] = [("leaders", How::Leaders, |at| at.list()?.iter().map(leaders::leader).collect())];

const LOCATIONS: [Key; 1] = [("nodes", How::Set, numbers)];

const CHECK: [Key; 5] = [
    ("blacklist", How::Sets, |at| map(at, numbers)),
    ("executing", How::Counts, |at| nodes(at)),
    ("scores", How::Named, |at| nodes(at)),
    ("unavailable", How::Set, numbers),
    ("known", How::Set, numbers),
];

/// Reads the expectations of a step. `shows`: the call whose outcome it shows, which a join does later; what cannot come
/// out of it is refused.
pub(super) fn expectations(at: &At<'_>, shows: &str, action: &str) -> Result<Expectations, ScenarioError> {
    let (calls, keys): (&[Key], &[Key]) = match shows {
        "execute" | "execute_one_shard" => (&CALL, &EXECUTE),
        "select_node" => (&CALL, &SELECT),
        "get_shard" => (&CALL, &LEADERS),
        "background" => (CALL.split_at(1).0, &[]),
        "filter" => (&[], &LEADERS),
        "locations" => (&[], &LOCATIONS),
        "check" => (&[], &CHECK),
        _ => return Err(at.error(format_args!("nothing comes out of '{action}'"))),
    };
    let mut fields = at.fields()?;
    let mut expect = Expectations::default();
    for (key, how, read) in calls.iter().chain(keys) {
        let value = fields.optional(key, read)?;
        expect.values.extend(value.map(|value| Expected { key, how: *how, value }));
    }
    if calls.len() == CALL.len() {
        expect.error = fields.optional("error", ExpectedError::read)?;
    }
    if shows == "check" {
        expect.metrics = fields.optional("metrics", metrics)?.unwrap_or_default();
    }
    fields.finish()?;
    Ok(expect)
}

fn count(at: &At<'_>) -> Result<Value, ScenarioError> {
    Ok(at.integer::<u64>()?.into())
}

fn took(at: &At<'_>) -> Result<Value, ScenarioError> {
    Ok(observed::duration(at.duration()?))
}

fn numbers(at: &At<'_>) -> Result<Value, ScenarioError> {
    at.list()?.iter().map(count).collect()
}

fn texts(at: &At<'_>) -> Result<Value, ScenarioError> {
    at.list()?.iter().map(|at| Ok(Value::from(at.text()?))).collect()
}

/// By shard.
fn map(at: &At<'_>, read: Read) -> Result<Value, ScenarioError> {
    let entry = |(key, value): &(At<'_>, At<'_>)| Ok((key.text()?.to_owned(), read(value)?));
    at.entries()?.iter().map(entry).collect::<Result<Map<_, _>, _>>().map(Value::from)
}

/// By node.
fn nodes(at: &At<'_>) -> Result<Value, ScenarioError> {
    let entry = |(key, value): &(At<'_>, At<'_>)| {
        let node: pointsman_ids::NodeId = id(key)?;
        Ok((node.to_string(), value.integer::<i64>()?.into()))
    };
    at.entries()?.iter().map(entry).collect::<Result<Map<_, _>, _>>().map(Value::from)
}

fn metrics(at: &At<'_>) -> Result<Vec<(Query, Value)>, ScenarioError> {
    let metric = |(key, value): &(At<'_>, At<'_>)| {
        let query = Query::parse(key.text()?).map_err(|what| key.error(what))?;
        Ok((query, number(Some(value.number()?))))
    };
    at.entries()?.iter().map(metric).collect()
}
