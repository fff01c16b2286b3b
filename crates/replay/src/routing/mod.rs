//! Scenarios of `kind: routing`: the broker's side. Failure detector, routing managers of one or many clusters,
//! instance selectors and fail-open, through [`pointsman_routing::Core`] on a virtual clock.

mod driver;
mod expect;
mod explain;
mod metrics;
mod names;
mod observed;
mod parse;
mod parts;
mod scenario;
mod world;

use crate::{Options, ScenarioError, StepOutcome, yaml::Fields};

/// Reads the rest of the file and runs it.
pub(crate) fn replay(fields: Fields<'_>, options: &Options) -> Result<Vec<StepOutcome>, ScenarioError> {
    let scenario = parse::scenario(fields)?;
    driver::run(&scenario, options)
}
