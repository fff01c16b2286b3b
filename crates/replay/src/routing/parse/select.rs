//! Requests.

use super::{
    super::{names::Names, scenario::SelectStep},
    nodes::pool,
};
use crate::{ScenarioError, yaml::At};

/// One request.
pub(super) fn select(at: &At<'_>, names: &Names) -> Result<SelectStep, ScenarioError> {
    let mut fields = at.fields()?;
    let collection = names.collection(&fields.require("collection")?)?;
    let segments = fields.optional("segments", |at| at.list()?.iter().map(At::parsed).collect())?;
    let request_id = fields.optional("request_id", At::integer)?.unwrap_or(0);
    let multi_stage = fields.optional("multi_stage", At::boolean)?.unwrap_or(false);
    let sampler = fields.optional("sampler", |at| Ok(at.text()?.to_owned()))?;
    let options = fields.take("options");
    fields.finish()?;
    let mut step = SelectStep {
        collection,
        segments,
        request_id,
        multi_stage,
        sampler,
        num_replica_groups: 1,
        fixed_replica: None,
        preferred_pools: Vec::new(),
    };
    if let Some(at) = options {
        read_options(&at, &mut step)?;
    }
    Ok(step)
}

fn read_options(at: &At<'_>, step: &mut SelectStep) -> Result<(), ScenarioError> {
    let mut fields = at.fields()?;
    step.num_replica_groups = fields.optional("num_replica_groups", At::integer)?.unwrap_or(1);
    step.fixed_replica = fields.optional("fixed_replica", At::boolean)?;
    let pools =
        fields.optional("preferred_pools", |at| at.list()?.iter().map(|at| Ok(pool(at)?.0)).collect())?;
    step.preferred_pools = pools.unwrap_or_default();
    fields.finish()
}
