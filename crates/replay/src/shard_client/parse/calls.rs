//! Calls of the client.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{CollectionId, NodeId};

pub(super) use super::super::scenario::{Execute, GetShard, SelectNode};
use super::{super::scenario::Action, answers, collection, id};
use crate::{
    ScenarioError,
    yaml::{At, Fields},
};

/// What the file says about all calls.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) collection: CollectionId,
    /// Some node may never answer, so every request needs a deadline.
    pub(super) hangs: bool,
}

/// A request on all shards, or on any.
pub(super) fn execute(at: &At<'_>, name: &str, context: &Context) -> Result<Execute, ScenarioError> {
    let mut fields = at.fields()?;
    let execute = Execute {
        one_shard: name == "execute_one_shard",
        collection: collection(&mut fields, context.collection)?,
        group: group(&mut fields)?,
        nq: nq(&mut fields)?,
        preferred: fields.optional("preferred", preferred)?,
        timeout: fields.optional("timeout", At::duration)?,
        background: label(&mut fields)?,
    };
    fields.finish()?;
    if context.hangs && execute.timeout.is_none() {
        return Err(at.error("some node hangs, so every request needs a timeout"));
    }
    Ok(execute)
}

/// A choice without a request.
pub(super) fn select_node(at: &At<'_>, context: &Context) -> Result<SelectNode, ScenarioError> {
    let mut fields = at.fields()?;
    let select = SelectNode {
        collection: collection(&mut fields, context.collection)?,
        shard: fields.require("shard")?.text()?.into(),
        group: group(&mut fields)?,
        excluded: fields
            .optional("excluded", |at| at.list()?.iter().map(id).collect::<Result<_, _>>())?
            .unwrap_or_default(),
        preferred: fields.given("preferred", id)?,
        nq: nq(&mut fields)?,
        timeout: fields.optional("timeout", At::duration)?,
    };
    fields.finish()?;
    Ok(select)
}

/// A read of the cache.
pub(super) fn get_shard(at: &At<'_>, context: &Context) -> Result<GetShard, ScenarioError> {
    let mut fields = at.fields()?;
    let read = GetShard {
        collection: collection(&mut fields, context.collection)?,
        shard: fields.require("shard")?.text()?.into(),
        with_cache: fields.optional("with_cache", At::boolean)?.unwrap_or(true),
        timeout: fields.optional("timeout", At::duration)?,
        background: label(&mut fields)?,
    };
    fields.finish()?;
    Ok(read)
}

/// The filter of one shard's leaders.
pub(super) fn filter(at: &At<'_>) -> Result<Action, ScenarioError> {
    let mut fields = at.fields()?;
    let leaders = fields.require("leaders")?;
    let leaders = leaders.list()?.iter().map(answers::leader).collect::<Result<_, _>>()?;
    let group = group(&mut fields)?.to_string();
    fields.finish()?;
    Ok(Action::Filter { leaders, group })
}

fn group(fields: &mut Fields<'_>) -> Result<Arc<str>, ScenarioError> {
    Ok(fields.optional("resource_group", At::text)?.unwrap_or_default().into())
}

fn nq(fields: &mut Fields<'_>) -> Result<i64, ScenarioError> {
    Ok(fields.optional("nq", At::integer)?.unwrap_or(1))
}

fn label(fields: &mut Fields<'_>) -> Result<Option<String>, ScenarioError> {
    fields.optional("background", |at| Ok(at.text()?.to_owned()))
}

fn preferred(at: &At<'_>) -> Result<Arc<BTreeMap<Arc<str>, NodeId>>, ScenarioError> {
    let preferred = |(shard, node): &(At<'_>, At<'_>)| Ok((Arc::from(shard.text()?), id(node)?));
    at.entries()?.iter().map(preferred).collect::<Result<_, _>>().map(Arc::new)
}
