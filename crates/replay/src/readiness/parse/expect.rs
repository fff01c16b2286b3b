//! What stands under `expect`.

use serde_json::{Map, Value};

use super::super::expect::Expectations;
use crate::{
    ScenarioError,
    errors::ExpectedError,
    leaders,
    yaml::{At, Fields},
};

/// Reads the expectations of a question: what cannot come out of it is refused.
pub(super) fn expectations(at: &At<'_>, action: &str) -> Result<Expectations, ScenarioError> {
    let mut fields = at.fields()?;
    let mut expect = Expectations::default();
    let mut exactly =
        |fields: &mut Fields<'_>, key, read: &dyn Fn(&At<'_>) -> Result<Value, ScenarioError>| {
            expect.exactly.extend(fields.optional(key, read)?.map(|value| (key, value)));
            Ok::<_, ScenarioError>(())
        };
    match action {
        "load_percentage" => exactly(&mut fields, "percentage", &number)?,
        "replica_percentages" => exactly(&mut fields, "percentages", &percentages)?,
        "readiness" => {
            exactly(&mut fields, "ready", &|at| Ok(at.boolean()?.into()))?;
            exactly(&mut fields, "reason", &text)?;
            exactly(&mut fields, "total_shards", &number)?;
            exactly(&mut fields, "unready_shards", &|at| at.list()?.iter().map(text).collect())?;
        }
        "show_load" => {
            exactly(&mut fields, "percentage", &number)?;
            exactly(&mut fields, "status", &|at| if at.is_null() { Ok(Value::Null) } else { text(at) })?;
        }
        _ => expect.shards = fields.optional("shards", shards)?,
    }
    expect.error = fields.optional("error", ExpectedError::read)?;
    fields.finish()?;
    Ok(expect)
}

fn number(at: &At<'_>) -> Result<Value, ScenarioError> {
    Ok(at.integer::<i64>()?.into())
}

fn text(at: &At<'_>) -> Result<Value, ScenarioError> {
    Ok(at.text()?.into())
}

/// Replica -> percentage.
fn percentages(at: &At<'_>) -> Result<Value, ScenarioError> {
    let percentage =
        |(key, value): &(At<'_>, At<'_>)| Ok((key.integer::<u64>()?.to_string(), number(value)?));
    at.entries()?.iter().map(percentage).collect::<Result<Map<_, _>, _>>().map(Value::from)
}

/// Shard -> leaders, each with the keys that count.
fn shards(at: &At<'_>) -> Result<Map<String, Value>, ScenarioError> {
    let shard = |(key, value): &(At<'_>, At<'_>)| {
        let leaders = value.list()?.iter().map(leaders::leader).collect::<Result<Vec<_>, _>>()?;
        Ok((key.text()?.to_owned(), leaders.into()))
    };
    at.entries()?.iter().map(shard).collect()
}
