//! The handlers through which the distributed planner learns where scans run.
//!
//! Every stage that scans has one task per slot of the query's [`Assignment`], and task `i` scans exactly the segments
//! of slot `i` on the node of slot `i`. All other stages go to nodes that the router names.

use std::sync::Arc;

use datafusion::{
    common::{
        Statistics, internal_datafusion_err,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder},
        source::DataSourceExec,
    },
    error::Result,
    execution::SessionStateBuilder,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning, coalesce_partitions::CoalescePartitionsExec,
        empty::EmptyExec, repartition::RepartitionExec,
    },
    prelude::SessionConfig,
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, DistributedLeafExec,
    NetworkBoundaryExt, NetworkCoalesceExec, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, Stage,
};
use url::Url;

use crate::{estimate, location::SegmentPath, options::QueryScans, scans::Assignment};

/// Registers the three handlers.
pub(crate) fn with_pinning(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .with_distributed_desired_task_count_handler(desired_tasks)
        .with_distributed_scale_up_leaf_node_handler(scale_up)
        .with_distributed_route_tasks_handler(route)
}

/// The file scan of a leaf, if it is one.
pub(crate) fn file_scan(plan: &dyn ExecutionPlan) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

fn query(config: &SessionConfig) -> Result<&QueryScans> {
    let query = QueryScans::of(config.options());
    query.ok_or_else(|| internal_datafusion_err!("the session belongs to no query"))
}

/// A scan wants all slots. Where upper stages must stay in the broker it takes one task, and [`scale_up`] puts a
/// stage of its own below it. A relation without rows is right in any number of tasks, and few rows are best in one.
fn desired_tasks(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    if event.plan.is::<EmptyExec>() {
        return Some(Ok(DesiredTaskCountEventResponse::desired(1)));
    }
    if file_scan(event.plan.as_ref()).is_none() {
        let unites = query(event.session_config).is_ok_and(|query| query.unites);
        return (!unites && gets_few_rows(event.plan)).then(|| Ok(DesiredTaskCountEventResponse::maximum(1)));
    }
    Some(query(event.session_config).map(|query| match query.spread() {
        None => DesiredTaskCountEventResponse::maximum(1),
        Some(slots) => DesiredTaskCountEventResponse::desired(slots),
    }))
}

/// Bytes for which a second task is not worth its start, and a stream from every task to every other.
const FEW_BYTES: usize = 2 << 20;

/// Whether this is the foot of a stage that reads what others sent by keys, and that is little. In a union the same
/// stage could scan, and scans are bound to their slots.
fn gets_few_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut sent = plan.children().into_iter().filter(|child| is_hashed(child)).peekable();
    sent.peek().is_some()
        && sent
            .try_fold(0_usize, |sum, child| Some(sum.saturating_add(estimate::bytes(child.as_ref())?)))
            .is_some_and(|bytes| bytes <= FEW_BYTES)
}

fn is_hashed(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let repartition = plan.downcast_ref::<RepartitionExec>();
    repartition.is_some_and(|repartition| matches!(repartition.partitioning(), Partitioning::Hash(..)))
}

/// Replaces a scan by one that holds each slot's own files.
fn scale_up(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = file_scan(event.plan.as_ref())?;
    Some(pin(&event, scan).map(ScaleUpLeafNodeEventResponse::new))
}

fn pin(event: &ScaleUpLeafNodeEvent<'_>, scan: &FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
    let assignment = query(event.session_config)?.scans.assignment();
    let slots = assignment.slots.len();
    let leaf = leaf(event.plan, scan, &assignment, event.session_config.target_partitions())?;
    if event.task_count == slots {
        return Ok(leaf);
    }
    if event.task_count != 1 {
        return Err(internal_datafusion_err!(
            "a scan over {slots} slots is in a stage of {} tasks",
            event.task_count
        ));
    }
    // Something in this stage bears one task only, so the scan gets a stage of its own below it.
    let below = Arc::new(NetworkCoalesceExec::try_new(leaf, slots, 1)?);
    let partitions = event.plan.output_partitioning().partition_count();
    let gathered = Arc::new(CoalescePartitionsExec::new(below));
    Ok(Arc::new(RepartitionExec::try_new(gathered, Partitioning::RoundRobinBatch(partitions))?))
}

fn leaf(
    original: &Arc<dyn ExecutionPlan>,
    scan: &FileScanConfig,
    assignment: &Assignment,
    parallelism: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut shares = vec![vec![]; assignment.slots.len()];
    for file in scan.file_groups.iter().flat_map(FileGroup::files) {
        shares[slot(file, assignment)?].push(file.clone());
    }
    let most = shares.iter().map(Vec::len).max().unwrap_or_default();
    let partitions = most.min(parallelism).max(1);
    // Nodes make no choices that rest on statistics; those of a wide table would take most of a plan.
    let unknown = Statistics::new_unknown(scan.file_schema());
    let plain = FileScanConfigBuilder::from(scan.clone()).with_statistics(unknown).build();
    let variants = shares.into_iter().map(|share| {
        let mut own = plain.clone();
        own.file_groups = balance(share, partitions);
        DataSourceExec::from_data_source(own) as Arc<dyn ExecutionPlan>
    });
    Ok(Arc::new(DistributedLeafExec::try_new(Arc::clone(original), variants)?))
}

/// The slot of a file. Only whole files of known segments have one.
pub(crate) fn slot(file: &PartitionedFile, assignment: &Assignment) -> Result<usize> {
    let path = file.object_meta.location.as_ref();
    if file.range.is_some() {
        return Err(internal_datafusion_err!("'{path}' is split; segments are scanned whole"));
    }
    let segment = SegmentPath::read(path).and_then(|path| assignment.slot(&path));
    segment.ok_or_else(|| internal_datafusion_err!("'{path}' was routed to nobody"))
}

/// Spreads files over a number of groups, large ones first, each into the group with the fewest bytes. All variants
/// of a scan need the same number of groups, so some may be empty.
pub(crate) fn balance(mut files: Vec<PartitionedFile>, groups: usize) -> Vec<FileGroup> {
    files.sort_by(|one, other| {
        let key = |file: &PartitionedFile| {
            (std::cmp::Reverse(file.object_meta.size), file.object_meta.location.clone())
        };
        key(one).cmp(&key(other))
    });
    let mut filled: Vec<(u64, Vec<PartitionedFile>)> = vec![(0, vec![]); groups];
    for file in files {
        if let Some((bytes, group)) = filled.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            *bytes += file.object_meta.size;
            group.push(file);
        }
    }
    filled.into_iter().map(|(_, group)| FileGroup::new(group)).collect()
}

/// The slots that the tasks of a stage scan for; `None` when it does not scan. A task without segments has the slot of
/// its number.
pub(crate) fn task_slots(
    stage: &Arc<dyn ExecutionPlan>,
    assignment: &Assignment,
) -> Result<Option<Vec<usize>>> {
    let mut slots: Option<Vec<Option<usize>>> = None;
    stage.apply(|plan| {
        if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
            let slots = slots.get_or_insert_with(|| vec![None; leaf.variants().len()]);
            for (known, variant) in slots.iter_mut().zip(leaf.variants()) {
                let files = file_scan(variant.as_ref()).into_iter().flat_map(|scan| &scan.file_groups);
                let first = files.flat_map(FileGroup::files).next();
                *known = known.map(Ok).or_else(|| first.map(|file| slot(file, assignment))).transpose()?;
            }
        }
        Ok(if plan.is_network_boundary() { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
    })?;
    Ok(slots.map(|slots| slots.into_iter().enumerate().map(|(task, slot)| slot.unwrap_or(task)).collect()))
}

/// Scanning stages go to the slots, others to the nodes that the router offers.
#[expect(clippy::needless_pass_by_value, reason = "the signature is the planner's")]
fn route(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    Some(urls(&event).map(RouteTasksEventResponse::new))
}

fn urls(event: &RouteTasksEvent<'_>) -> Result<Vec<Url>> {
    let scans = &query(event.task_ctx.session_config())?.scans;
    let assignment = scans.assignment();
    if let Some(slots) = task_slots(event.plan, &assignment)? {
        return Ok(slots.into_iter().filter_map(|slot| assignment.slots.get(slot).cloned()).collect());
    }
    let nodes = scans.stage_urls();
    if nodes.is_empty() {
        return Err(internal_datafusion_err!("a stage needs a node, and none is routable"));
    }
    // Beside the stage below saves a hop; several tasks go round from there.
    let beside = worker_below(event.plan)?;
    let first = nodes.iter().position(|node| Some(node) == beside.as_ref()).unwrap_or_default();
    Ok((0..event.task_count).filter_map(|task| nodes.get((first + task) % nodes.len()).cloned()).collect())
}

/// Where the first task of a stage below runs.
fn worker_below(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Url>> {
    let mut found = None;
    plan.apply(|plan| {
        let Some(boundary) = plan.as_network_boundary() else { return Ok(TreeNodeRecursion::Continue) };
        if let Stage::Remote(stage) = boundary.input_stage() {
            found = stage.workers.first().cloned();
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Jump })
    })?;
    Ok(found)
}
