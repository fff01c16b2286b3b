//! What stands under `expect`.

use pointsman_ids::ClusterName;
use serde_json::{Map, Value};

use super::super::{
    expect::{Expectations, ExpectedError},
    metrics::Query,
    names::Names,
};
use crate::{
    ScenarioError,
    yaml::{At, Fields},
};

/// Reads the expectations of a step with this action: what cannot arise from it is refused.
pub(super) fn expectations(at: &At<'_>, action: &str, names: &Names) -> Result<Expectations, ScenarioError> {
    let mut fields = at.fields()?;
    let mut expect = Expectations::default();
    if let Some(keys) = fields.optional("unhealthy", |at| keys(at, names))? {
        expect.set("unhealthy", keys);
    }
    if let Some(at) = fields.take("routable") {
        expect.routable = routable(&at, names)?;
    }
    if let Some(at) = fields.take("metrics") {
        expect.metrics = metrics(&at)?;
    }
    match action {
        "select" => selection(&mut fields, names, &mut expect)?,
        "collection" => expect.error = fields.optional("error", error)?,
        "advance" => {
            if let Some(keys) = fields.optional("probed", |at| keys(at, names))? {
                expect.exactly("probed", keys.into());
            }
        }
        "retry_lookup" => {
            if let Some(cluster) = fields.optional("retry_cluster", |at| cluster_or_null(at, names))? {
                expect.exactly("retry_cluster", cluster);
            }
        }
        _ => {}
    }
    fields.finish()?;
    Ok(expect)
}

fn selection(fields: &mut Fields<'_>, names: &Names, expect: &mut Expectations) -> Result<(), ScenarioError> {
    for key in ["served", "optional"] {
        if let Some(picks) = fields.optional(key, |at| picks(at, names))? {
            expect.exactly(key, picks);
        }
    }
    for key in ["unavailable", "fail_open"] {
        if let Some(segments) = fields.optional(key, texts)? {
            expect.set(key, segments);
        }
    }
    expect.error = fields.optional("error", error)?;
    Ok(())
}

/// Segment to node.
fn picks(at: &At<'_>, names: &Names) -> Result<Value, ScenarioError> {
    let mut picks = Map::new();
    for (segment, node) in at.entries()? {
        picks.insert(segment.text()?.to_owned(), names.in_outcome(&node)?.into());
    }
    Ok(picks.into())
}

fn texts(at: &At<'_>) -> Result<Vec<Value>, ScenarioError> {
    at.list()?.iter().map(|item| Ok(item.text()?.into())).collect()
}

fn keys(at: &At<'_>, names: &Names) -> Result<Vec<Value>, ScenarioError> {
    at.list()?.iter().map(|item| Ok(names.key(item)?.to_string().into())).collect()
}

/// A list of the local cluster's nodes, or a map of cluster to nodes. Names are plain.
fn routable(at: &At<'_>, names: &Names) -> Result<Vec<(String, Value)>, ScenarioError> {
    let nodes = |at: &At<'_>, cluster: &ClusterName| {
        let items = at.list()?;
        let nodes = items.iter().map(|item| Ok(names.plain(item, cluster)?.to_string().into()));
        nodes.collect::<Result<Vec<Value>, ScenarioError>>().map(Value::from)
    };
    if at.is_list() {
        return Ok(vec![(names.local.to_string(), nodes(at, &names.local)?)]);
    }
    let entry = |(key, value): &(At<'_>, At<'_>)| {
        let cluster = names.cluster(key)?;
        Ok((cluster.to_string(), nodes(value, &cluster)?))
    };
    at.entries()?.iter().map(entry).collect()
}

fn metrics(at: &At<'_>) -> Result<Vec<(Query, Option<f64>)>, ScenarioError> {
    let metric = |(key, value): &(At<'_>, At<'_>)| {
        let query = Query::parse(key.text()?).map_err(|what| key.error(what))?;
        let value = if value.is_null() { None } else { Some(value.number()?) };
        Ok((query, value))
    };
    at.entries()?.iter().map(metric).collect()
}

fn error(at: &At<'_>) -> Result<ExpectedError, ScenarioError> {
    if at.is_null() {
        return Ok(ExpectedError::None);
    }
    let mut fields = at.fields()?;
    let code = fields.optional("code", At::integer)?;
    let contains = fields.optional("contains", |at| Ok(at.text()?.to_owned()))?;
    fields.finish()?;
    Ok(ExpectedError::Some { code, contains })
}

fn cluster_or_null(at: &At<'_>, names: &Names) -> Result<Value, ScenarioError> {
    if at.is_null() {
        return Ok(Value::Null);
    }
    Ok(names.cluster(at)?.to_string().into())
}
