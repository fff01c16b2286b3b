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
    pinning::{file_scan, slot, task_slots},
    scans::Assignment,
};

/// Checks a plan of the broker and returns how many stages stand above one another on nodes.
///
/// # Errors
/// `service_internal` for a plan that scans in the wrong place; `sql_invalid` for one that cannot be distributed.
pub(crate) fn check_plan(plan: &Arc<dyn ExecutionPlan>, assignment: &Assignment) -> Result<usize> {
    Place { assignment, slots: &[], head: true, depth: 0 }.check(plan)
}

/// Where in the plan a node stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    assignment: &'a Assignment,
    /// The slots of its stage's tasks; none where nothing is scanned.
    slots: &'a [usize],
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
            let slots = self.slots(&stage.plan, stage.tasks)?;
            let below = Place { slots: &slots, head: false, depth: self.depth + 1, ..self };
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

    /// The slots of a stage's tasks. No two tasks of a stage that scans have the same.
    fn slots(self, stage: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Vec<usize>> {
        let slots = task_slots(stage, self.assignment).map_err(|error| internal(&error.strip_backtrace()))?;
        let Some(slots) = slots else { return Ok(vec![]) };
        let known = slots.iter().filter(|slot| **slot < self.assignment.slots.len());
        if slots.len() != tasks || known.collect::<BTreeSet<_>>().len() != tasks {
            let scanning = slots.len();
            return Err(internal(&format!("{scanning} tasks that scan stand in a stage of {tasks} tasks")));
        }
        Ok(slots)
    }

    /// The scan stands in a stage on nodes, and each task has files of its slot alone.
    fn check_leaf(self, leaf: &DistributedLeafExec) -> Result<()> {
        if self.head || leaf.variants().len() != self.slots.len() {
            return Err(internal("a scan stands in the broker's own stage, or in one of other tasks"));
        }
        let wanted = files(leaf.original())?;
        let mut found = BTreeSet::new();
        for ((task, variant), own) in leaf.variants().iter().enumerate().zip(self.slots) {
            let scan = file_scan(variant.as_ref()).ok_or_else(|| internal("a task of a scan is none"))?;
            for file in scan.file_groups.iter().flat_map(FileGroup::files) {
                let path = file.object_meta.location.as_ref();
                let routed =
                    slot(file, self.assignment).map_err(|error| internal(&error.strip_backtrace()))?;
                if routed != *own || !found.insert(path.to_owned()) {
                    return Err(internal(&format!(
                        "task {task} of slot {own} scans '{path}' of slot {routed}"
                    )));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::{
        arrow::datatypes::{DataType, Field, Schema},
        datasource::{
            listing::PartitionedFile,
            physical_plan::{FileScanConfigBuilder, ParquetSource},
        },
        execution::object_store::ObjectStoreUrl,
        physical_plan::coalesce_partitions::CoalescePartitionsExec,
    };
    use datafusion_distributed::NetworkCoalesceExec;
    use pointsman_ids::SegmentId;

    use super::*;

    fn scan(store: &str, segments: &[u64]) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let url = ObjectStoreUrl::parse(store).expect("a store");
        let files = segments.iter().map(|id| PartitionedFile::new(format!("{id}/c/s"), 1)).collect();
        let config = FileScanConfigBuilder::new(url, Arc::new(ParquetSource::new(schema)))
            .with_file_group(FileGroup::new(files))
            .build();
        DataSourceExec::from_data_source(config)
    }

    /// Segment 1 belongs to slot 0, segments 2 and 3 to slot 1.
    fn assignment() -> Assignment {
        let slots = ["http://127.0.0.1:1", "http://127.0.0.1:2"].map(|url| url.parse().expect("a URL"));
        let path = |id: u64| SegmentPath::read(&format!("{id}/c/s")).expect("a path");
        let segments = BTreeMap::from([(path(1), 0), (path(2), 1), (path(3), 1)]);
        Assignment { slots: slots.into(), segments }
    }

    fn pinned(original: &[u64], tasks: [&[u64]; 2]) -> Arc<dyn ExecutionPlan> {
        let variants = tasks.map(|segments| scan("seg://local", segments));
        Arc::new(DistributedLeafExec::try_new(scan("seg://local", original), variants).expect("a scan"))
    }

    fn staged(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Arc<dyn ExecutionPlan> {
        let below = Arc::new(NetworkCoalesceExec::try_new(plan, tasks, 1).expect("a stage"));
        Arc::new(DistributedExec::new(Arc::new(CoalescePartitionsExec::new(below))))
    }

    fn refused(plan: &Arc<dyn ExecutionPlan>) -> String {
        check_plan(plan, &assignment()).expect_err("must be refused").message().to_owned()
    }

    #[test]
    fn a_scan_with_a_task_per_slot_and_its_own_files_may_run() {
        let plan = staged(pinned(&[1, 2, 3], [&[1], &[2, 3]]), 2);
        assert_eq!(check_plan(&plan, &assignment()), Ok(1));
    }

    #[test]
    fn scans_in_the_wrong_place_are_refused() {
        let right = || pinned(&[1, 2, 3], [&[1], &[2, 3]]);
        assert!(refused(&right()).contains("the broker's own stage"), "in the broker");
        assert!(refused(&staged(right(), 1)).contains("stage of 1 tasks"), "in a single task");
        assert!(refused(&staged(right(), 3)).contains("stage of 3 tasks"), "in too many tasks");
    }

    #[test]
    fn scans_of_the_wrong_files_are_refused() {
        assert!(
            refused(&staged(pinned(&[1, 2, 3], [&[1, 2], &[3]]), 2))
                .contains("task 0 of slot 0 scans '2/c/s'"),
            "on the wrong node"
        );
        assert!(
            refused(&staged(pinned(&[2, 3], [&[2], &[3]]), 2)).contains("2 tasks that scan"),
            "two tasks on one node"
        );
        assert!(
            refused(&staged(pinned(&[1, 2, 3], [&[1], &[2]]), 2)).contains("leaves out"),
            "one is missing"
        );
        assert!(
            refused(&staged(pinned(&[1, 2], [&[1], &[2, 2]]), 2)).contains("task 1 of slot 1 scans '2/c/s'"),
            "one stands twice"
        );
        assert!(
            refused(&staged(pinned(&[1, 9], [&[1, 9], &[]]), 2)).contains("routed to nobody"),
            "one is unknown"
        );
    }

    #[test]
    fn plans_that_read_anything_else_are_refused() {
        for plan in [scan("seg://local", &[1]), scan("file://", &[1])] {
            assert!(refused(&plan).contains("no segment"), "unpinned in the broker");
            assert!(refused(&staged(plan, 2)).contains("no segment"), "unpinned on nodes");
        }
    }

    #[test]
    fn a_node_runs_scans_of_segments_only() {
        let found = check_task(&scan("seg://local", &[3, 1])).expect("segments");
        assert_eq!(found.iter().map(|path| path.id).collect::<Vec<_>>(), [SegmentId(1), SegmentId(3)]);
        assert!(check_task(&scan("file://", &[1])).is_err());
        assert!(check_task(&scan("http://127.0.0.1:1", &[1])).is_err());
    }
}
