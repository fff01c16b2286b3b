//! Membership, the operator's switch, and statistics.

use pointsman_ids::{ClusterName, GroupNumber, NodeKey};

use super::super::{
    names::Names,
    scenario::{Member, NodeChange, Observation},
};
use crate::{ScenarioError, yaml::At};

/// Declares the nodes that a step upserts.
pub(super) fn declare(at: &At<'_>, names: &mut Names) -> Result<(), ScenarioError> {
    for (key, value) in at.entries()? {
        if !value.is_null()
            && let NodeChange::Upsert { node, .. } = upsert(&key, &value, names)?
        {
            names.declare_node(node);
        }
    }
    Ok(())
}

/// The changes of a step, in the order of the file.
pub(super) fn changes(at: &At<'_>, names: &Names) -> Result<Vec<NodeChange>, ScenarioError> {
    let change = |(key, value): &(At<'_>, At<'_>)| match value.is_null() {
        true => Ok(NodeChange::Remove(names.member(key)?)),
        false => upsert(key, value, names),
    };
    at.entries()?.iter().map(change).collect()
}

fn upsert(key: &At<'_>, value: &At<'_>, names: &Names) -> Result<NodeChange, ScenarioError> {
    let (prefix, node) = names.split(key)?;
    let mut fields = value.fields()?;
    let pool = fields.optional("pool", pool)?;
    let enabled = fields.optional("enabled", At::boolean)?;
    let cluster = fields.optional("cluster", |at| names.cluster(at))?;
    fields.finish()?;
    if prefix.is_some() && cluster.is_some() && prefix != cluster {
        return Err(key.error("the name and the key 'cluster' name two clusters"));
    }
    let cluster: ClusterName = cluster.or(prefix).unwrap_or_else(|| names.local.clone());
    Ok(NodeChange::Upsert { node: NodeKey { cluster, node }, pool, enabled })
}

/// The number of a pool; -1: in none.
pub(super) fn pool(at: &At<'_>) -> Result<GroupNumber, ScenarioError> {
    let pool = GroupNumber(at.integer()?);
    if pool < GroupNumber::NONE {
        return Err(at.error("pools are numbers from 0; -1 is no pool"));
    }
    Ok(pool)
}

/// Members of some cluster, each with a value.
pub(super) fn members<'a, T>(
    at: &At<'a>,
    names: &Names,
    read: impl Fn(&At<'a>) -> Result<T, ScenarioError>,
) -> Result<Vec<(Member, T)>, ScenarioError> {
    at.entries()?.iter().map(|(key, value)| Ok((names.member(key)?, read(value)?))).collect()
}

/// Statistics of a node; null forgets them.
pub(super) fn observation(at: &At<'_>) -> Result<Option<Observation>, ScenarioError> {
    if at.is_null() {
        return Ok(None);
    }
    let mut fields = at.fields()?;
    let in_flight = fields.optional("in_flight", At::integer)?;
    let latency = fields.optional("latency", At::duration)?;
    fields.finish()?;
    Ok(Some(Observation { in_flight, latency }))
}
