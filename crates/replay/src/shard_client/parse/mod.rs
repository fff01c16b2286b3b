//! Reads a shard-client scenario.

mod answers;
mod calls;
mod client;
mod expect;

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use pointsman_shard_client::Cost;

use super::scenario::{Action, Scenario, Step};
use crate::{
    ScenarioError,
    frame::{self, RawStep},
    yaml::{At, Fields},
};

const ACTIONS: [&str; 13] = [
    "execute",
    "execute_one_shard",
    "select_node",
    "get_shard",
    "join",
    "filter",
    "locations",
    "invalidate",
    "advance",
    "probe_answers",
    "report_cost",
    "cancel",
    "check",
];

/// Reads everything after the head.
pub(super) fn scenario(mut fields: Fields<'_>) -> Result<Scenario, ScenarioError> {
    let (settings, picks) = client::client(fields.take("client").as_ref())?;
    let collection = id(&fields.require("collection")?)?;
    let coordinator = fields.given("coordinator", |at| answers::coordinator(at, collection))?;
    let nodes = fields.given("nodes", answers::nodes)?.unwrap_or_default();
    let steps = fields.require("steps")?;
    fields.finish()?;
    let context = calls::Context { collection, hangs: answers::some_hangs(&nodes) };
    let mut labels = Labels::default();
    let steps = frame::steps(&steps, &ACTIONS)?
        .into_iter()
        .map(|raw| step(raw, &context, &mut labels))
        .collect::<Result<_, _>>()?;
    labels.finish()?;
    Ok(Scenario { settings, picks, collection, coordinator: coordinator.unwrap_or_default(), nodes, steps })
}

/// Calls in the background, each joined once.
#[derive(Debug, Default)]
struct Labels {
    /// With the action that began it.
    open: BTreeMap<String, (&'static str, ScenarioError)>,
    closed: Vec<String>,
}

impl Labels {
    fn open(&mut self, label: &str, action: &'static str, at: &At<'_>) -> Result<(), ScenarioError> {
        if self.closed.iter().any(|closed| closed == label) || self.open.contains_key(label) {
            return Err(at.error(format_args!("the label '{label}' stands for another call already")));
        }
        let lost = at.error(format_args!("the call '{label}' is never joined"));
        self.open.insert(label.to_owned(), (action, lost));
        Ok(())
    }

    /// The action that began the call.
    fn join(&mut self, at: &At<'_>) -> Result<(String, &'static str), ScenarioError> {
        let label = at.text()?;
        let found = self.open.remove(label);
        let (action, _) = found.ok_or_else(|| {
            at.error(format_args!("no call '{label}' in the background is waiting to be joined"))
        })?;
        self.closed.push(label.to_owned());
        Ok((label.to_owned(), action))
    }

    fn finish(self) -> Result<(), ScenarioError> {
        self.open.into_values().next().map_or(Ok(()), |(_, lost)| Err(lost))
    }
}

fn step(raw: RawStep<'_>, context: &calls::Context, labels: &mut Labels) -> Result<Step, ScenarioError> {
    let (value, name) = (&raw.value, raw.action);
    // Whose keys may be expected; in the background it is only how often the coordinator was called.
    let mut shows = name;
    let action = match name {
        "execute" | "execute_one_shard" => Action::Execute(calls::execute(value, name, context)?),
        "select_node" => Action::SelectNode(calls::select_node(value, context)?),
        "get_shard" => Action::GetShard(calls::get_shard(value, context)?),
        "join" => {
            let (label, began) = labels.join(value)?;
            shows = began;
            Action::Join(label)
        }
        "filter" => calls::filter(value)?,
        "locations" => empty(value, Action::Locations)?,
        "invalidate" => Action::Invalidate(value.list()?.iter().map(id).collect::<Result<_, _>>()?),
        "advance" => Action::Advance(value.duration()?),
        "probe_answers" => Action::ProbeAnswers(probes(value)?),
        "report_cost" => Action::ReportCost(costs(value)?),
        "cancel" => cancel(value)?,
        _ => empty(value, Action::Check)?,
    };
    if let Action::Execute(calls::Execute { background: Some(label), .. })
    | Action::GetShard(calls::GetShard { background: Some(label), .. }) = &action
    {
        labels.open(label, name, value)?;
        shows = "background";
    }
    raw.beside.finish()?;
    let expect = raw.expect.map(|at| expect::expectations(&at, shows, name)).transpose()?.unwrap_or_default();
    Ok(Step { line: raw.at.line(), name, action, expect })
}

fn empty(at: &At<'_>, action: Action) -> Result<Action, ScenarioError> {
    at.fields()?.finish()?;
    Ok(action)
}

fn probes(at: &At<'_>) -> Result<BTreeMap<NodeId, bool>, ScenarioError> {
    const WORDS: [(&str, bool); 2] = [("healthy", true), ("unhealthy", false)];
    at.entries()?.iter().map(|(node, answer)| Ok((id(node)?, answer.word(&WORDS)?))).collect()
}

fn costs(at: &At<'_>) -> Result<Vec<(NodeId, Cost)>, ScenarioError> {
    let cost = |(node, at): &(At<'_>, At<'_>)| {
        let mut fields = at.fields()?;
        let cost = Cost {
            response_time: fields.optional("response_time", At::duration)?.unwrap_or_default(),
            service_time: fields.optional("service_time", At::duration)?.unwrap_or_default(),
            total_nq: fields.optional("total_nq", At::integer)?.unwrap_or_default(),
        };
        fields.finish()?;
        Ok((id(node)?, cost))
    };
    at.entries()?.iter().map(cost).collect()
}

fn cancel(at: &At<'_>) -> Result<Action, ScenarioError> {
    let mut fields = at.fields()?;
    let node = id(&fields.require("node")?)?;
    let nq = fields.optional("nq", At::integer)?.unwrap_or(1);
    fields.finish()?;
    Ok(Action::Cancel { node, nq })
}

/// A number that names something.
fn id<T: From<u64>>(at: &At<'_>) -> Result<T, ScenarioError> {
    Ok(at.integer::<u64>()?.into())
}

/// The code of a name in the table of errors.
fn code(at: &At<'_>) -> Result<ErrorCode, ScenarioError> {
    let name = at.text()?;
    let known = ErrorCode::ALL.iter().copied().find(|code| code.name() == name);
    known.ok_or_else(|| at.error(format_args!("'{name}' is the name of no error")))
}

/// A collection of a step.
fn collection(fields: &mut Fields<'_>, default: CollectionId) -> Result<CollectionId, ScenarioError> {
    Ok(fields.optional("collection", id)?.unwrap_or(default))
}
