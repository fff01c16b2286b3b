//! What the two calls that make up a part know together: one sends its plan, the other reads its rows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use datafusion::{
    common::{
        DataFusionError, Result,
        runtime::SpawnedTask,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    physical_plan::{
        ExecutionPlan,
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
    },
};
use datafusion_distributed::{TaskKey, TaskMetrics};
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::first::First;

/// The first sign that a task's node does not take part.
pub(super) type Loss = First<Arc<DataFusionError>>;

/// The figures of a task, once they come; none when the node does not say.
pub(super) type Figures = SpawnedTask<Option<TaskMetrics>>;

/// What it takes to send a task once more.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) headers: HeaderMap,
    pub(super) key: TaskKey,
    pub(super) task_count: usize,
    pub(super) query_start_time_ns: usize,
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

/// One part of a query: one task of a stage that scans.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Its node did not take the plan, or was lost.
    pub(super) loss: Loss,
    template: watch::Sender<Option<Arc<Template>>>,
    rerouted: AtomicBool,
    figures: Mutex<Vec<Figures>>,
}

impl Part {
    /// Notes what is sent.
    pub(super) fn sent(&self, template: Template) {
        self.template.send_replace(Some(Arc::new(template)));
    }

    /// Waits until something is sent. The engine sends all plans before it reads rows, so this is soon.
    pub(super) async fn template(&self) -> Option<Arc<Template>> {
        let mut template = self.template.subscribe();
        let sent = template.wait_for(Option::is_some).await;
        sent.ok().and_then(|sent| sent.clone())
    }

    /// Whether other tasks do the work of the first one.
    pub(super) fn is_rerouted(&self) -> bool {
        self.rerouted.load(Ordering::Acquire)
    }

    /// The first task's rows do not count.
    pub(super) fn set_rerouted(&self) {
        self.rerouted.store(true, Ordering::Release);
    }

    /// Takes the figures of a task whose rows count.
    pub(super) fn add_figures(&self, figures: Figures) {
        self.figures.lock().push(figures);
    }

    /// The sum over the tasks that did the work of the first one; naught where nobody did it, `None` where the first one
    /// did. To be asked when all rows have come.
    pub(super) async fn figures(&self) -> Option<TaskMetrics> {
        if !self.is_rerouted() {
            return None;
        }
        let all = std::mem::take(&mut *self.figures.lock());
        if all.is_empty() {
            let template = self.template.borrow().clone();
            return template.and_then(|template| naught(&template.plan).ok());
        }
        let mut sum: Option<TaskMetrics> = None;
        for figures in all {
            let Ok(Some(figures)) = figures.join().await else { continue };
            match &mut sum {
                Some(sum) => add(sum, figures),
                None => sum = Some(figures),
            }
        }
        sum
    }
}

/// The figures of a task that did nothing. The engine waits for those of every task, and would tell nothing of the others.
fn naught(plan: &Arc<dyn ExecutionPlan>) -> Result<TaskMetrics> {
    let mut pre_order_plan_metrics = vec![];
    plan.apply(|_| {
        pre_order_plan_metrics.push(MetricsSet::new());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(TaskMetrics { pre_order_plan_metrics, task_metrics: MetricsSet::new() })
}

/// All tasks of a part have plans of one shape, so figures at the same place belong together.
fn add(sum: &mut TaskMetrics, more: TaskMetrics) {
    for (sum, more) in sum.pre_order_plan_metrics.iter_mut().zip(more.pre_order_plan_metrics) {
        sum.extend(more);
    }
    sum.task_metrics.extend(more.task_metrics);
}
