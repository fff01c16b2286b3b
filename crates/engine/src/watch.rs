//! Scans on a node that tell the store which files they could not read.

use std::{fmt, sync::Arc};

use arrow::error::ArrowError;
use datafusion::{
    common::{
        DataFusionError,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    datasource::physical_plan::FileGroup,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, metrics::MetricsSet,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;
use pointsman_ids::SegmentId;

use crate::{
    bounds::without_float_bounds, failure::NOT_LOADED, location::SegmentPath, pinning::file_scan,
    store::SegmentStore,
};

/// Puts every scan of a checked plan under watch.
pub(crate) fn watch(
    plan: Arc<dyn ExecutionPlan>,
    store: &Arc<dyn SegmentStore>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = plan.transform_down(|plan| {
        let Some(scan) = file_scan(plan.as_ref()) else { return Ok(Transformed::no(plan)) };
        let files = scan.file_groups.iter().map(segments).collect();
        let scan = without_float_bounds(scan)?.unwrap_or_else(|| Arc::clone(&plan));
        let watched = WatchedScan { scan, files, store: Arc::clone(store) };
        Ok(Transformed::new(Arc::new(watched) as _, true, TreeNodeRecursion::Jump))
    })?;
    Ok(watched.data)
}

fn segments(group: &FileGroup) -> Vec<SegmentId> {
    let path = |file: &datafusion::datasource::listing::PartitionedFile| {
        SegmentPath::read(file.object_meta.location.as_ref()).map(|path| path.id)
    };
    group.files().iter().filter_map(path).collect()
}

/// A scan of segments; the same to its neighbours as the scan inside.
#[derive(Debug)]
struct WatchedScan {
    scan: Arc<dyn ExecutionPlan>,
    /// What each partition reads.
    files: Vec<Vec<SegmentId>>,
    store: Arc<dyn SegmentStore>,
}

impl DisplayAs for WatchedScan {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt_as(how, f)
    }
}

impl ExecutionPlan for WatchedScan {
    fn name(&self) -> &str {
        self.scan.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let files = self.files.get(partition).cloned().unwrap_or_default();
        let store = Arc::clone(&self.store);
        let rows = self.scan.execute(partition, context)?.inspect(move |batch| {
            if batch.as_ref().is_err_and(is_unreadable) {
                files.iter().for_each(|segment| store.suspect(*segment));
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.scan.metrics()
    }
}

/// Whether an error of a scan may come from the file, not from what is computed over it.
fn is_unreadable(error: &DataFusionError) -> bool {
    let suspicious = match error.find_root() {
        DataFusionError::ParquetError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::IoError(_)
        | DataFusionError::External(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(
            **error,
            ArrowError::ParquetError(_)
                | ArrowError::IoError(..)
                | ArrowError::IpcError(_)
                | ArrowError::ExternalError(_)
        ),
        _ => false,
    };
    suspicious && !error.to_string().contains(NOT_LOADED)
}
