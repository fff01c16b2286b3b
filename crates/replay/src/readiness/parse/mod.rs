//! Reads a readiness scenario.

mod expect;
pub(super) mod stores;

use pointsman_ids::CollectionId;
use pointsman_query_coord::answers::Form;

use super::{expect::Expectations, state::State, world::World};
use crate::{
    ScenarioError,
    frame::{self, RawStep},
    yaml::{At, Fields, Node},
};

const ACTIONS: [&str; 7] = [
    "load_percentage",
    "replica_percentages",
    "readiness",
    "shard_leaders",
    "show_load",
    "update",
    "promote",
];

/// The whole file.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) state: State,
    pub(super) steps: Vec<Step>,
}

/// One step.
pub(super) type Step = frame::Step<Action, Expectations>;

/// What a step does.
#[derive(Debug)]
pub(super) enum Action {
    Ask(Question),
    /// Puts a tree over the state.
    Update(Node),
    Promote(CollectionId),
}

/// A question about a collection.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) collection: CollectionId,
    pub(super) asked: Asked,
    pub(super) via: Via,
}

/// What is asked.
#[derive(Debug)]
pub(super) enum Asked {
    LoadPercentage { group: Option<String> },
    ReplicaPercentages { group: Option<String> },
    Readiness { group: Option<String> },
    ShardLeaders { form: Form },
    ShowLoad,
}

/// How a question comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// Through the entry point with its health gate.
    Server,
    /// By a call of the computation.
    Function,
}

const VIAS: [(&str, Via); 2] = [("server", Via::Server), ("function", Via::Function)];

/// Reads everything after the head.
pub(super) fn scenario(mut fields: Fields<'_>) -> Result<Scenario, ScenarioError> {
    let told = fields.take("state").filter(|at| !at.is_null());
    let steps = fields.require("steps")?;
    fields.finish()?;
    if let Some(at) = &told {
        World::read(at)?;
    }
    let steps = frame::steps(&steps, &ACTIONS)?.into_iter().map(step).collect::<Result<_, _>>()?;
    Ok(Scenario { state: State::new(told.as_ref()), steps })
}

fn step(step: RawStep<'_>) -> Result<Step, ScenarioError> {
    let action = match step.action {
        "update" => update(&step.value)?,
        "promote" => Action::Promote(stores::id(&step.value)?),
        name => Action::Ask(question(name, &step.value)?),
    };
    step.beside.finish()?;
    let expect = match (&action, &step.expect) {
        (_, None) => Expectations::default(),
        (Action::Ask(_), Some(at)) => expect::expectations(at, step.action)?,
        (_, Some(at)) => return Err(at.error(format_args!("nothing comes out of '{}'", step.action))),
    };
    Ok(Step { line: step.at.line(), name: step.action, action, expect })
}

/// An update is a part of a state, and must make sense as one.
fn update(at: &At<'_>) -> Result<Action, ScenarioError> {
    World::read(at)?;
    Ok(Action::Update(at.node().clone()))
}

fn question(name: &str, at: &At<'_>) -> Result<Question, ScenarioError> {
    let mut fields = at.fields()?;
    let collection = stores::id(&fields.require("collection")?)?;
    let mut group = || fields.given("resource_group", |at| Ok(at.text()?.to_owned()));
    let asked = match name {
        "load_percentage" => Asked::LoadPercentage { group: group()? },
        "replica_percentages" => Asked::ReplicaPercentages { group: group()? },
        "readiness" => Asked::Readiness { group: group()? },
        "shard_leaders" => {
            let loose = fields.given("with_unserviceable", At::boolean)?.unwrap_or(false);
            Asked::ShardLeaders { form: if loose { Form::Loose } else { Form::Strict } }
        }
        _ => Asked::ShowLoad,
    };
    let via = fields.given("via", |at| at.word(&VIAS))?.unwrap_or(Via::Server);
    fields.finish()?;
    Ok(Question { collection, asked, via })
}
