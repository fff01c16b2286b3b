//! What the coordinator and the nodes answer.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{CollectionId, NodeId};
use pointsman_shard_client::{Leader, ShardListing};

use super::{
    super::scenario::{CoordinatorAnswer, NodeOutcome},
    code, id,
};
use crate::{ScenarioError, yaml::At};

/// Answers of GetShardLeaders: a list for the file's collection, or a map of collection to list.
pub(super) fn coordinator(
    at: &At<'_>,
    collection: CollectionId,
) -> Result<BTreeMap<CollectionId, Vec<CoordinatorAnswer>>, ScenarioError> {
    let answers = |at: &At<'_>| at.list()?.iter().map(answer).collect::<Result<Vec<_>, _>>();
    if at.is_list() {
        return Ok(BTreeMap::from([(collection, answers(at)?)]));
    }
    at.entries()?.iter().map(|(collection, at)| Ok((id(collection)?, answers(at)?))).collect()
}

fn answer(at: &At<'_>) -> Result<CoordinatorAnswer, ScenarioError> {
    let mut fields = at.fields()?;
    let after = fields.optional("after", At::duration)?.unwrap_or_default();
    let (shards, raw, error) = (fields.take("shards"), fields.take("raw"), fields.take("error"));
    fields.finish()?;
    let told = match (shards, raw, error) {
        (Some(at), None, None) => Ok(listings(&at, leaders_listing)?),
        (None, Some(at), None) => Ok(listings(&at, raw_listing)?),
        (None, None, Some(at)) => Err(code(&at)?),
        _ => return Err(at.error("an answer has exactly one of shards, raw and error")),
    };
    Ok(CoordinatorAnswer { after, told })
}

type ReadListing = fn(&At<'_>) -> Result<ShardListing, ScenarioError>;

fn listings(at: &At<'_>, read: ReadListing) -> Result<Vec<ShardListing>, ScenarioError> {
    let listing =
        |(shard, at): &(At<'_>, At<'_>)| Ok(ShardListing { shard: shard.text()?.to_owned(), ..read(at)? });
    at.entries()?.iter().map(listing).collect()
}

fn leaders_listing(at: &At<'_>) -> Result<ShardListing, ScenarioError> {
    let mut listing = ShardListing::default();
    for leader in at.list()?.iter().map(leader) {
        let Leader { node, address, serviceable, resource_group } = leader?;
        listing.node_ids.push(node.0);
        listing.node_addrs.push(address.to_string());
        listing.serviceable.push(serviceable);
        listing.resource_groups.push(resource_group.to_string());
    }
    Ok(listing)
}

/// A leader with its defaults.
pub(super) fn leader(at: &At<'_>) -> Result<Leader, ScenarioError> {
    let mut fields = at.fields()?;
    let node: NodeId = id(&fields.require("node")?)?;
    let address = fields.optional("address", |at| Ok(at.text()?.to_owned()))?;
    let leader = Leader {
        node,
        address: address.unwrap_or_else(|| format!("node-{node}:7000")).into(),
        serviceable: fields.optional("serviceable", At::boolean)?.unwrap_or(true),
        resource_group: fields.optional("resource_group", At::text)?.unwrap_or_default().into(),
    };
    fields.finish()?;
    Ok(leader)
}

fn raw_listing(at: &At<'_>) -> Result<ShardListing, ScenarioError> {
    let texts =
        |at: &At<'_>| at.list()?.iter().map(|at| Ok(at.text()?.to_owned())).collect::<Result<Vec<_>, _>>();
    let mut fields = at.fields()?;
    let listing = ShardListing {
        shard: String::new(),
        node_ids: fields
            .optional("node_ids", |at| at.list()?.iter().map(At::integer).collect::<Result<_, _>>())?
            .unwrap_or_default(),
        node_addrs: fields.optional("node_addrs", texts)?.unwrap_or_default(),
        serviceable: fields
            .optional("serviceable", |at| at.list()?.iter().map(At::boolean).collect::<Result<_, _>>())?
            .unwrap_or_default(),
        resource_groups: fields.optional("resource_groups", texts)?.unwrap_or_default(),
    };
    fields.finish()?;
    Ok(listing)
}

/// Outcomes of requests by node.
pub(super) fn nodes(at: &At<'_>) -> Result<BTreeMap<NodeId, Vec<NodeOutcome>>, ScenarioError> {
    let outcomes = |at: &At<'_>| at.list()?.iter().map(outcome).collect::<Result<Vec<_>, _>>();
    at.entries()?.iter().map(|(node, at)| Ok((id(node)?, outcomes(at)?))).collect()
}

/// Whether some request may never be answered.
pub(super) fn some_hangs(nodes: &BTreeMap<NodeId, Vec<NodeOutcome>>) -> bool {
    nodes.values().flatten().any(|outcome| matches!(outcome, NodeOutcome::Hang))
}

fn outcome(at: &At<'_>) -> Result<NodeOutcome, ScenarioError> {
    let now = Duration::ZERO;
    if at.is_word("ok") {
        return Ok(NodeOutcome::Answer { after: now, error: None });
    }
    if at.is_word("unreachable") {
        return Ok(NodeOutcome::Unreachable);
    }
    if at.is_word("hang") {
        return Ok(NodeOutcome::Hang);
    }
    if at.text().is_ok() {
        return Ok(NodeOutcome::Answer { after: now, error: Some((code(at)?, None)) });
    }
    let mut fields = at.fields()?;
    let after = fields.optional("after", At::duration)?.unwrap_or_default();
    let error = fields.optional("error", code)?;
    let input = fields.take("input");
    fields.finish()?;
    let is_input = input.as_ref().map(At::boolean).transpose()?;
    match (error, input) {
        (None, Some(at)) => Err(at.error("input is for an error alone")),
        (error, _) => Ok(NodeOutcome::Answer { after, error: error.map(|code| (code, is_input)) }),
    }
}
