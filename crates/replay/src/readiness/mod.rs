//! Scenarios of `kind: readiness`: the coordinator's answers, through [`pointsman_query_coord::answers`] over the stores
//! that the file tells. Nothing here takes time.

mod driver;
mod expect;
mod explain;
mod observed;
mod parse;
mod state;
mod world;

use crate::{Options, ScenarioError, StepOutcome, yaml::Fields};

/// Reads the rest of the file and runs it.
pub(crate) fn replay(fields: Fields<'_>, options: &Options) -> Result<Vec<StepOutcome>, ScenarioError> {
    let scenario = parse::scenario(fields)?;
    driver::run(scenario, options)
}
