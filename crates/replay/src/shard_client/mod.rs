//! Scenarios of `kind: shard_client`: leader cache, choice of a node, retries and scope, through
//! [`pointsman_shard_client`] on a virtual clock, back-off included.

mod balancer;
mod driver;
mod expect;
mod explain;
mod metrics;
mod observed;
mod parse;
mod scenario;
mod world;

use crate::{Options, ScenarioError, StepOutcome, yaml::Fields};

/// Reads the rest of the file and runs it.
pub(crate) fn replay(fields: Fields<'_>, options: &Options) -> Result<Vec<StepOutcome>, ScenarioError> {
    let scenario = parse::scenario(fields)?;
    driver::run(&scenario, options)
}
