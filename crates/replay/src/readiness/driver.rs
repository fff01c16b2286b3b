//! Runs the steps.

use std::time::Duration;

use pointsman_query_coord::answers::ServerState;
use serde_json::Map;

use super::{
    explain, observed,
    parse::{Action, Asked, Question, Scenario, Step, Via},
    state::State,
    world::World,
};
use crate::{Options, ScenarioError, StepOutcome};

/// Runs all steps.
pub(super) fn run(scenario: Scenario, options: &Options) -> Result<Vec<StepOutcome>, ScenarioError> {
    let world = scenario.state.world("state")?;
    let mut driver = Driver { state: scenario.state, world, options };
    (1..).zip(&scenario.steps).map(|(number, step)| driver.step(number, step)).collect()
}

#[derive(Debug)]
struct Driver<'a> {
    state: State,
    /// What is made of the state.
    world: World,
    options: &'a Options,
}

impl Driver<'_> {
    fn step(&mut self, number: usize, step: &Step) -> Result<StepOutcome, ScenarioError> {
        let (mut values, mut explanation) = (Map::new(), Vec::new());
        match &step.action {
            Action::Ask(question) => (values, explanation) = self.ask(question),
            Action::Update(update) => self.state.update(update),
            Action::Promote(collection) => self.state.promote(*collection, &self.world),
        }
        if !matches!(step.action, Action::Ask(_)) {
            self.world = self.state.world(&format!("steps[{}].{}", number - 1, step.name))?;
        }
        let failures = step.expect.check(&values);
        // Answers are about one moment.
        let now = Duration::ZERO;
        Ok(StepOutcome { number, line: step.line, action: step.name, now, values, failures, explanation })
    }

    fn ask(&self, question: &Question) -> (observed::Shown, Vec<String>) {
        let entry = self.world.entry(match question.via {
            Via::Server => self.world.server,
            Via::Function => ServerState::Healthy,
        });
        let collection = question.collection;
        let shown = match &question.asked {
            Asked::LoadPercentage { group } => {
                observed::percentage(&entry.load_percentage(collection, group.as_deref()))
            }
            Asked::ReplicaPercentages { group } => {
                observed::percentages(&entry.replica_percentages(collection, group.as_deref()))
            }
            Asked::Readiness { group } => observed::readiness(&entry.readiness(collection, group.as_deref())),
            Asked::ShardLeaders { form } => observed::leaders(&entry.shard_leaders(collection, *form)),
            Asked::ShowLoad => observed::registered(&entry.show_load(collection)),
        };
        let explanation = if self.options.explain { explain::lines(&entry, question) } else { Vec::new() };
        (shown, explanation)
    }
}
