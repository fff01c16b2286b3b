//! The last look at a plan before it runs: it scans what was routed, where it was routed, and reads nothing else.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    catalog::memory::MemorySourceConfig,
    datasource::{physical_plan::FileGroup, sink::DataSinkExec, source::DataSourceExec},
    physical_plan::{
        ExecutionPlan, empty::EmptyExec, memory::LazyMemoryExec, placeholder_row::PlaceholderRowExec,
        recursive_query::RecursiveQueryExec, streaming::StreamingTableExec, work_table::WorkTableExec,
    },
};
use datafusion_distributed::{DistributedExec, DistributedLeafExec, NetworkBoundaryExt, Stage};
use pointsman_ids::{Error, ErrorCode, Result};

use crate::{
    limits::refuse,
    location::{SegmentPath, is_segments},
    pinning::{file_scan, slot},
    scans::Assignment,
};

/// Checks a plan of the broker and returns how many stages stand above one another on nodes.
///
/// # Errors
/// `service_internal` for a plan that scans in the wrong place; `sql_invalid` for one that cannot be distributed.
pub(crate) fn check_plan(plan: &Arc<dyn ExecutionPlan>, assignment: &Assignment) -> Result<usize> {
    Place { assignment, tasks: 1, head: true, depth: 0 }.check(plan)
}

/// Where in the plan a node stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    assignment: &'a Assignment,
    /// Tasks of its stage.
    tasks: usize,
    /// Whether its stage is the broker's own.
    head: bool,
    /// Boundaries above it.
    depth: usize,
}

impl Place<'_> {
    fn check(self, plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
        if let Some(boundary) = plan.as_network_boundary() {
            let Stage::Local(stage) = boundary.input_stage() else {
                return Err(internal("a stage was sent before it was checked"));
            };
            let below = Self { tasks: stage.tasks, head: false, depth: self.depth + 1, ..self };
            return below.check(&stage.plan);
        }
        if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
            self.check_leaf(leaf)?;
            return Ok(self.depth);
        }
        if !self.head && stays_in_broker(plan) {
            return Err(refuse(
                "information_schema and recursive queries cannot be combined with collections in this way",
            ));
        }
        if !harmless(plan) {
            return Err(internal(&format!("{} reads or writes something that is no segment", plan.name())));
        }
        plan.children().into_iter().try_fold(self.depth, |deepest, child| Ok(self.check(child)?.max(deepest)))
    }

    /// The scan stands in a stage with a task per slot, and each task has exactly the files of its slot.
    fn check_leaf(self, leaf: &DistributedLeafExec) -> Result<()> {
        let slots = self.assignment.slots.len();
        if self.head || self.tasks != slots || leaf.variants().len() != slots {
            return Err(internal(&format!(
                "a scan over {slots} nodes stands in a stage of {} tasks",
                self.tasks
            )));
        }
        let wanted = files(leaf.original())?;
        let mut found = BTreeSet::new();
        for (task, variant) in leaf.variants().iter().enumerate() {
            let scan = file_scan(variant.as_ref()).ok_or_else(|| internal("a task of a scan is none"))?;
            for file in scan.file_groups.iter().flat_map(FileGroup::files) {
                let path = file.object_meta.location.as_ref();
                let routed =
                    slot(file, self.assignment).map_err(|error| internal(&error.strip_backtrace()))?;
                if routed != task || !found.insert(path.to_owned()) {
                    return Err(internal(&format!("task {task} scans '{path}', which is task {routed}'s")));
                }
            }
        }
        if found == wanted { Ok(()) } else { Err(internal("a scan leaves out segments that were routed")) }
    }
}

/// Paths of all files of a scan over segments.
fn files(plan: &Arc<dyn ExecutionPlan>) -> Result<BTreeSet<String>> {
    let scan = file_scan(plan.as_ref()).filter(|scan| is_segments(scan.object_store_url.as_ref()));
    let scan = scan.ok_or_else(|| internal(&format!("{} does not scan segments", plan.name())))?;
    let paths = scan.file_groups.iter().flat_map(FileGroup::files);
    Ok(paths.map(|file| file.object_meta.location.to_string()).collect())
}

/// Whether a node of a plan neither reads nor writes by itself. Scans of segments are looked at elsewhere.
fn harmless(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is::<DataSinkExec>() {
        return false;
    }
    !plan.children().is_empty() && !plan.is::<DataSourceExec>()
        || plan.is::<EmptyExec>()
        || plan.is::<PlaceholderRowExec>()
        || plan.is::<LazyMemoryExec>()
        || plan.is::<WorkTableExec>()
        || plan.is::<StreamingTableExec>()
        || plan.is::<DistributedExec>()
        || plan
            .downcast_ref::<DataSourceExec>()
            .is_some_and(|scan| scan.data_source().is::<MemorySourceConfig>())
}

/// Nodes that cannot be sent to another process.
fn stays_in_broker(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<StreamingTableExec>() || plan.is::<RecursiveQueryExec>() || plan.is::<WorkTableExec>()
}

/// Checks a plan that a node was sent and returns the segments that it scans, ascending.
///
/// # Errors
/// `service_internal` for a plan that reads anything but segments, whoever made it.
pub(crate) fn check_task(plan: &Arc<dyn ExecutionPlan>) -> Result<BTreeSet<SegmentPath>> {
    let mut segments = BTreeSet::new();
    let mut open = vec![Arc::clone(plan)];
    while let Some(plan) = open.pop() {
        if plan.is_network_boundary() {
            continue; // other nodes' work; they look at it themselves
        }
        if file_scan(plan.as_ref()).is_some() {
            for path in files(&plan)? {
                let path = SegmentPath::read(&path)
                    .ok_or_else(|| internal(&format!("'{path}' is not the path of a segment")))?;
                segments.insert(path);
            }
            continue;
        }
        if !harmless(&plan) {
            return Err(internal(&format!("a node runs nothing that reads or writes like {}", plan.name())));
        }
        open.extend(plan.children().into_iter().cloned());
    }
    Ok(segments)
}

fn internal(why: &str) -> Error {
    Error::new(ErrorCode::ServiceInternal, format!("the plan was refused: {why}"))
}
