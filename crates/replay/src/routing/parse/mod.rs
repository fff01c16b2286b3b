//! Reads a routing scenario.

mod broker;
mod collection;
mod expect;
mod nodes;
mod select;

use std::collections::BTreeMap;

use pointsman_failure_detector::Key;
use pointsman_ids::ClusterName;

use super::{
    names::Names,
    scenario::{Action, Answer, Scenario, Step},
};
use crate::{
    ScenarioError,
    frame::{self, RawStep},
    yaml::{At, Fields},
};

/// The one dynamic key of the cluster's configuration that routing reads.
const CONFIG_KEY: &str = "broker.fail_open.enabled";

const ACTIONS: [&str; 12] = [
    "nodes",
    "set_enabled",
    "collection",
    "mark_unhealthy",
    "mark_healthy",
    "advance",
    "set_config",
    "start_cluster",
    "observe",
    "select",
    "retry_lookup",
    "check",
];

/// Reads everything after the head.
pub(super) fn scenario(mut fields: Fields<'_>) -> Result<Scenario, ScenarioError> {
    let broker_at = fields.take("broker");
    let broker = broker::broker(broker_at.as_ref())?;
    let mut names = match fields.take("clusters") {
        Some(at) => clusters(&at)?,
        None => Names::new(fields.map().literal("local")?, []),
    };
    let steps_at = fields.require("steps")?;
    fields.finish()?;

    let raw = frame::steps(&steps_at, &ACTIONS)?;
    for step in &raw {
        declare(step, &mut names)?;
    }
    let mut parts = collection::PartsSoFar::default();
    let steps = raw.into_iter().map(|step| read(step, &names, &mut parts)).collect::<Result<Vec<_>, _>>()?;
    let down = steps.iter().filter_map(|step| match &step.action {
        Action::StartCluster(cluster) => Some(cluster.clone()),
        _ => None,
    });
    let down = down.collect();
    let broker_line = broker_at.map_or(steps_at.line(), |at| at.line());
    Ok(Scenario { broker, broker_line, names, down, steps })
}

fn clusters(at: &At<'_>) -> Result<Names, ScenarioError> {
    let mut clusters: Vec<ClusterName> = Vec::new();
    for item in at.list()? {
        let cluster = item.parsed()?;
        if clusters.contains(&cluster) {
            return Err(item.error(format_args!("cluster '{cluster}' is listed twice")));
        }
        clusters.push(cluster);
    }
    let mut clusters = clusters.into_iter();
    let local = clusters.next().ok_or_else(|| at.error("no cluster; the first is the local one"))?;
    Ok(Names::new(local, clusters))
}

/// Declarations count wherever they stand, so they are read first.
fn declare(step: &RawStep<'_>, names: &mut Names) -> Result<(), ScenarioError> {
    match step.action {
        "nodes" => nodes::declare(&step.value, names),
        "collection" => collection::declare(&step.value, names),
        _ => Ok(()),
    }
}

fn read(
    mut step: RawStep<'_>,
    names: &Names,
    parts: &mut collection::PartsSoFar,
) -> Result<Step, ScenarioError> {
    let value = &step.value;
    let action = match step.action {
        "nodes" => Action::Nodes(nodes::changes(value, names)?),
        "set_enabled" => Action::SetEnabled(nodes::members(value, names, At::boolean)?),
        "collection" => Action::Collection(collection::step(value, names, parts)?),
        "mark_unhealthy" => Action::MarkUnhealthy(names.key(value)?),
        "mark_healthy" => Action::MarkHealthy(names.key(value)?),
        "advance" => {
            let probes = step.beside.optional("probes", |at| answers(at, names))?.unwrap_or_default();
            Action::Advance { by: value.duration()?, probes }
        }
        "set_config" => Action::SetConfig(config(value)?),
        "start_cluster" => Action::StartCluster(remote(value, names)?),
        "observe" => Action::Observe(nodes::members(value, names, nodes::observation)?),
        "select" => Action::Select(select::select(value, names)?),
        "retry_lookup" => Action::RetryLookup(names.key(value)?),
        _ => {
            value.fields()?.finish()?;
            Action::Check
        }
    };
    step.beside.finish()?;
    let expect =
        step.expect.map(|at| expect::expectations(&at, step.action, names)).transpose()?.unwrap_or_default();
    Ok(Step { line: step.at.line(), name: step.action, action, expect })
}

fn answers(at: &At<'_>, names: &Names) -> Result<BTreeMap<Key, Answer>, ScenarioError> {
    const WORDS: [(&str, Answer); 4] = [
        ("healthy", Answer::Healthy),
        ("unhealthy", Answer::Unhealthy),
        ("unknown", Answer::Unknown),
        ("error", Answer::Error),
    ];
    at.entries()?.iter().map(|(key, answer)| Ok((names.key(key)?, answer.word(&WORDS)?))).collect()
}

fn config(at: &At<'_>) -> Result<Vec<(String, Option<String>)>, ScenarioError> {
    let mut entries = Vec::new();
    for (key, value) in at.entries()? {
        if key.text()? != CONFIG_KEY {
            return Err(key.error(format_args!("unknown key; known here: {CONFIG_KEY}")));
        }
        let value = if value.is_null() { None } else { Some(value.text()?.to_owned()) };
        entries.push((CONFIG_KEY.to_owned(), value));
    }
    Ok(entries)
}

fn remote(at: &At<'_>, names: &Names) -> Result<ClusterName, ScenarioError> {
    let cluster = names.cluster(at)?;
    if names.is_local(&cluster) {
        return Err(at.error(format_args!("'{cluster}' is the local cluster, which is always up")));
    }
    Ok(cluster)
}
