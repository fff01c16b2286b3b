//! The plan of a part, for other segments.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    datasource::{listing::PartitionedFile, physical_plan::FileGroup, source::DataSourceExec},
    physical_plan::ExecutionPlan,
};

use crate::{
    location::SegmentPath,
    pinning::{balance, file_scan},
};

/// The segments that a task scans; `None` when it scans none by its nature, so that its rows do not come from segments.
pub(super) fn segments(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<BTreeSet<SegmentPath>>> {
    let mut found = None;
    plan.apply(|node| {
        if let Some(scan) = file_scan(node.as_ref()) {
            let files = scan.file_groups.iter().flat_map(FileGroup::files);
            found.get_or_insert_with(BTreeSet::new).extend(files.filter_map(segment));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The same task over some of its segments, with as many partitions as before.
pub(super) fn narrow(
    plan: &Arc<dyn ExecutionPlan>,
    segments: &BTreeSet<SegmentPath>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let narrowed = Arc::clone(plan).transform_up(|node| {
        let Some(scan) = file_scan(node.as_ref()) else { return Ok(Transformed::no(node)) };
        let mut own = scan.clone();
        let files = scan.file_groups.iter().flat_map(FileGroup::files);
        let files = files.filter(|file| segment(file).is_some_and(|segment| segments.contains(&segment)));
        own.file_groups = balance(files.cloned().collect(), scan.file_groups.len());
        Ok(Transformed::yes(DataSourceExec::from_data_source(own) as Arc<dyn ExecutionPlan>))
    })?;
    Ok(narrowed.data)
}

fn segment(file: &PartitionedFile) -> Option<SegmentPath> {
    SegmentPath::read(file.object_meta.location.as_ref())
}
