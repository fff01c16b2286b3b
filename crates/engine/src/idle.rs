//! Tasks that would scan nothing are left out of a finished plan.
//!
//! The planner gives every stage that scans a task per slot of the query, also where a collection lies on one of many
//! nodes only, and a node that answers alone has a second slot without segments. Such a task costs its node, the
//! broker and every reader as much as any other, and gives no row that counts.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    datasource::physical_plan::FileGroup,
    error::Result,
    physical_plan::ExecutionPlan,
};
use datafusion_distributed::{DistributedLeafExec, NetworkBoundaryExt, Stage};

use crate::pinning::file_scan;

/// The plan without them.
pub(crate) fn without_idle_tasks(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let pruned = plan.transform_up(|plan| {
        let Some(boundary) = plan.as_network_boundary() else { return Ok(Transformed::no(plan)) };
        let mut stage = boundary.input_stage().clone();
        let Stage::Local(local) = &mut stage else { return Ok(Transformed::no(plan)) };
        let Some(busy) = busy_tasks(&local.plan, local.tasks)? else { return Ok(Transformed::no(plan)) };
        local.plan = only(&busy, Arc::clone(&local.plan))?;
        local.tasks = busy.len();
        Ok(Transformed::yes(boundary.with_input_stage(stage)? as _))
    })?;
    Ok(pruned.data)
}

/// The tasks of a stage that scan something, or the first; `None` when all do, or when the stage gets rows from
/// elsewhere too: what sends them there counts on its tasks.
fn busy_tasks(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Option<Vec<usize>>> {
    let mut scans_only = true;
    let mut busy = vec![false; tasks];
    plan.apply(|plan| {
        if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
            busy.iter_mut().zip(leaf.variants()).for_each(|(busy, variant)| *busy |= scans(variant));
        } else if plan.children().is_empty() || plan.is_network_boundary() {
            scans_only = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut busy: Vec<_> = (0..tasks).filter(|task| busy[*task]).collect();
    if busy.is_empty() {
        busy.push(0);
    }
    Ok((scans_only && busy.len() < tasks).then_some(busy))
}

fn scans(variant: &Arc<dyn ExecutionPlan>) -> bool {
    file_scan(variant.as_ref()).is_none_or(|scan| scan.file_groups.iter().any(|group| !is_empty(group)))
}

fn is_empty(group: &FileGroup) -> bool {
    group.files().is_empty()
}

/// The stage's plan with the scans of these tasks alone.
fn only(tasks: &[usize], plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let kept = plan.transform_up(|plan| {
        let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() else { return Ok(Transformed::no(plan)) };
        let variants = tasks.iter().filter_map(|task| leaf.variants().get(*task)).cloned();
        let leaf = DistributedLeafExec::try_new(Arc::clone(leaf.original()), variants)?;
        Ok(Transformed::yes(Arc::new(leaf) as _))
    })?;
    Ok(kept.data)
}
