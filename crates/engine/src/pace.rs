//! Joins that let others have their turn.
//!
//! A join compares every row of one side with many of the other before it gives a row, and what stands above it takes
//! rows as long as there are any. All that happens in one turn of the runtime: for minutes nothing else would run on
//! that thread, not even the end of a query that was cancelled. Here a join gives up its turn after so many
//! batches, and one that compares all with all reads its second side in small pieces, each in a turn of its own.

use std::{
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        RecordBatchStream, ReplaceChildrenOptions,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        metrics::MetricsSet,
        unnest::UnnestExec,
    },
};
use futures::{Stream, StreamExt};

/// Batches that a join may give in one turn.
const BATCHES: usize = 16;

/// Fewest rows that a join compares with all of the other side in one turn.
const FEWEST_ROWS: usize = 16;

/// Most of them.
const MOST_ROWS: usize = 8192;

/// How long a turn may take before the next piece is smaller; one that takes a tenth makes it larger.
const TURN: Duration = Duration::from_millis(20);

/// Puts every join of a plan under the rule.
pub(crate) fn paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let paced = plan.transform_up(|plan| {
        let all_with_all = plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
        let many = plan.is::<HashJoinExec>() || plan.is::<SortMergeJoinExec>() || plan.is::<UnnestExec>();
        if !all_with_all && !many {
            return Ok(Transformed::no(plan));
        }
        Ok(Transformed::yes(Arc::new(Paced::new(plan, all_with_all)?) as _))
    })?;
    Ok(paced.data)
}

fn recompute() -> ReplaceChildrenOptions {
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)
}

/// A join, the same to its neighbours as the one inside.
#[derive(Debug)]
struct Paced {
    /// What others see.
    shown: Arc<dyn ExecutionPlan>,
    /// What runs: over pieces of the second side where it compares all with all.
    run: Arc<dyn ExecutionPlan>,
    all_with_all: bool,
}

impl Paced {
    fn new(plan: Arc<dyn ExecutionPlan>, all_with_all: bool) -> Result<Self> {
        let run = match plan.children().as_slice() {
            [left, right] if all_with_all => {
                let pieces = Arc::new(Pieces { input: Arc::clone(right) });
                Arc::clone(&plan).replace_children(vec![Arc::clone(left), pieces], recompute())?
            }
            _ => Arc::clone(&plan),
        };
        Ok(Self { shown: plan, run, all_with_all })
    }
}

impl DisplayAs for Paced {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt_as(how, f)
    }
}

impl ExecutionPlan for Paced {
    fn name(&self) -> &str {
        self.shown.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.shown.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.shown.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.shown.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::clone(&self.shown).replace_children(children, recompute())?;
        Ok(Arc::new(Self::new(plan, self.all_with_all)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.run.execute(partition, context)?;
        Ok(Box::pin(Turns {
            rows,
            in_turn: BATCHES,
            left: BATCHES,
            rest: None,
            piece: usize::MAX,
            begun: None,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.run.metrics()
    }
}

/// The same rows in small batches, each in a turn of its own.
#[derive(Debug)]
struct Pieces {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Pieces {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pieces")
    }
}

impl ExecutionPlan for Pieces {
    fn name(&self) -> &str {
        "Pieces"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.pop() {
            Some(input) => Arc::new(Self { input }),
            None => self,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        Ok(Box::pin(Turns {
            rows,
            in_turn: 1,
            left: 1,
            rest: None,
            piece: FEWEST_ROWS,
            begun: Some(Instant::now()),
        }))
    }
}

/// Rows that come in turns of the runtime.
struct Turns {
    rows: SendableRecordBatchStream,
    /// Batches of one turn.
    in_turn: usize,
    /// Batches left of this turn.
    left: usize,
    /// What is left of a batch that is larger than a piece.
    rest: Option<RecordBatch>,
    /// Most rows of a batch.
    piece: usize,
    /// When the piece was given; `None` where batches are not cut.
    begun: Option<Instant>,
}

impl Turns {
    /// Fits the next piece to the time that the last one took.
    fn adapt(&mut self) {
        let Some(took) = self.begun.map(|begun| begun.elapsed()) else { return };
        if took > TURN {
            self.piece = (self.piece / 2).max(FEWEST_ROWS);
        } else if took < TURN / 10 {
            self.piece = (self.piece * 2).min(MOST_ROWS);
        }
    }
}

impl Stream for Turns {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            self.left = self.in_turn;
            self.adapt();
            // Unlike a mere wake-up this lets the runtime look at its connections first.
            let _pending = pin!(tokio::task::yield_now()).poll(context);
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.rows.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(batch))) => batch,
                Poll::Pending => {
                    self.left = self.in_turn;
                    return Poll::Pending;
                }
                other => return other,
            },
        };
        self.left -= 1;
        self.begun = self.begun.map(|_| Instant::now());
        let rows = batch.num_rows();
        if rows <= self.piece {
            return Poll::Ready(Some(Ok(batch)));
        }
        self.rest = Some(batch.slice(self.piece, rows - self.piece));
        Poll::Ready(Some(Ok(batch.slice(0, self.piece))))
    }
}

impl RecordBatchStream for Turns {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
