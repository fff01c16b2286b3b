//! Joins whose small side goes to every node, so that the large one stays where it is scanned.
//!
//! DataFusion collects the build side of a join only if it is tiny, because within one process rows change partitions
//! for next to nothing. Between nodes both sides would be sent over the network by their keys. Copies of one side for
//! all tasks of the other are cheaper for as long as they take much less than that other side does.

use std::sync::Arc;

use datafusion::{
    common::{
        JoinType,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, PartitionMode},
    },
};

use crate::{estimate, options::QueryScans};

/// The rule after which this one must run: that one chooses sides and modes as for one process.
pub(crate) const AFTER: &str = "join_selection";

/// Most bytes of a side that is copied. Every task holds a copy in memory, and statistics may be wrong.
const MOST_BYTES: usize = 16 << 20;

/// How much more the other side must take than all copies: every copy is put into a hash table too, and the size of
/// what comes from joins or filters is a guess, mostly too high.
const MARGIN: usize = 4;

/// Broadcasts the sides of joins for which it is cheaper than spreading both.
#[derive(Debug)]
pub(crate) struct BroadcastJoins;

impl PhysicalOptimizerRule for BroadcastJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(tasks) = QueryScans::of(options).and_then(QueryScans::spread) else { return Ok(plan) };
        let broadcast = |plan: Arc<dyn ExecutionPlan>| {
            let join = plan.downcast_ref::<HashJoinExec>().filter(|join| is_spread(join));
            Ok(match join.map(|join| broadcast(join, tasks)).transpose()?.flatten() {
                Some(join) => Transformed::yes(join),
                None => Transformed::no(plan),
            })
        };
        plan.transform_up(broadcast).data()
    }

    fn name(&self) -> &str {
        "broadcast_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether both sides would be sent by their keys. A build side that gives rows of its own cannot be collected by
/// several tasks, whatever the mode says.
fn is_spread(join: &HashJoinExec) -> bool {
    !join.null_aware && (*join.partition_mode() != PartitionMode::CollectLeft || !may_copy(*join.join_type()))
}

/// The join with one side collected, if that is cheaper.
fn broadcast(join: &HashJoinExec, tasks: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sides = (estimate::bytes(join.left().as_ref()), estimate::bytes(join.right().as_ref()));
    let (Some(left), Some(right)) = sides else { return Ok(None) };
    let kind = *join.join_type();
    if may_copy(kind) && is_cheaper(left, right, tasks) {
        let collected = join.builder().with_partition_mode(PartitionMode::CollectLeft).build()?;
        return Ok(Some(Arc::new(collected)));
    }
    if may_copy(kind.swap()) && is_cheaper(right, left, tasks) {
        return join.swap_inputs(PartitionMode::CollectLeft).map(Some);
    }
    Ok(None)
}

/// Whether a copy of `small` for each task costs less than sending both sides by their keys.
fn is_cheaper(small: usize, large: usize, tasks: usize) -> bool {
    small <= MOST_BYTES && small.saturating_mul(tasks).saturating_mul(MARGIN) <= large
}

/// Whether the rows of the left side show only in pairs: copies of it do not give them twice.
fn may_copy(kind: JoinType) -> bool {
    use JoinType::{Inner, Right, RightAnti, RightMark, RightSemi};
    matches!(kind, Inner | Right | RightSemi | RightAnti | RightMark)
}

#[cfg(test)]
mod tests {
    use datafusion::{
        arrow::datatypes::{DataType, Field, Schema},
        common::{NullEquality, Statistics, stats::Precision},
        datasource::{
            physical_plan::{FileScanConfigBuilder, ParquetSource},
            source::DataSourceExec,
        },
        execution::object_store::ObjectStoreUrl,
        physical_expr::expressions::Column,
    };

    use super::*;

    /// A relation of so many rows of 8 bytes; `None`: nothing is known of it.
    fn side(rows: Option<usize>) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = rows.map_or(Precision::Absent, Precision::Exact);
        let url = ObjectStoreUrl::parse("seg://local").expect("a store");
        let source = Arc::new(ParquetSource::new(schema));
        DataSourceExec::from_data_source(
            FileScanConfigBuilder::new(url, source).with_statistics(statistics).build(),
        )
    }

    fn join(left: Option<usize>, right: Option<usize>, kind: JoinType, null_aware: bool) -> HashJoinExec {
        let key = || Arc::new(Column::new("a", 0)) as _;
        let (mode, nulls) = (PartitionMode::Partitioned, NullEquality::NullEqualsNothing);
        let on = vec![(key(), key())];
        HashJoinExec::try_new(side(left), side(right), on, None, &kind, None, mode, nulls, null_aware)
            .expect("a join")
    }

    /// What becomes of a join before three tasks: its kind, and the bytes of the side that is copied.
    fn copied(left: Option<usize>, right: Option<usize>, kind: JoinType) -> Option<(JoinType, usize)> {
        let plan = broadcast(&join(left, right, kind, false), 3).expect("a plan")?;
        let mut found = None;
        let found_join = plan.exists(|plan| {
            let join = plan.downcast_ref::<HashJoinExec>();
            found = found.or(join.and_then(|join| {
                assert_eq!(*join.partition_mode(), PartitionMode::CollectLeft);
                Some((*join.join_type(), estimate::bytes(join.left().as_ref())?))
            }));
            Ok(found.is_some())
        });
        assert!(found_join.expect("a walk"));
        found
    }

    #[test]
    fn copies_must_take_much_less_than_the_other_side() {
        assert!(is_cheaper(10, 120, 3));
        assert!(!is_cheaper(10, 119, 3));
        assert!(!is_cheaper(10, 120, 4), "more nodes, more copies");
        assert!(!is_cheaper(MOST_BYTES + 1, usize::MAX, 1), "a copy has to fit into memory");
        assert!(!is_cheaper(2, usize::MAX - 1, usize::MAX));
    }

    #[test]
    fn the_small_side_is_copied_whichever_it_is() {
        use JoinType::Inner;
        assert_eq!(copied(Some(10), Some(120), Inner), Some((Inner, 80)));
        assert_eq!(copied(Some(120), Some(10), Inner), Some((Inner, 80)));
        assert_eq!(copied(Some(20), Some(120), Inner), None, "both are sent");
        assert_eq!(copied(None, Some(120), Inner), None);
        assert_eq!(copied(Some(10), None, Inner), None);
    }

    #[test]
    fn a_side_whose_rows_show_alone_is_not_copied() {
        use JoinType::{Full, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        for (left, right) in [(Left, Right), (LeftSemi, RightSemi), (LeftAnti, RightAnti)] {
            assert_eq!(copied(Some(10), Some(120), left), None, "{left}");
            assert_eq!(copied(Some(120), Some(10), left), Some((right, 80)), "{left}");
            assert_eq!(copied(Some(10), Some(120), right), Some((right, 80)), "{right}");
            assert_eq!(copied(Some(120), Some(10), right), None, "{right}");
        }
        assert_eq!((copied(Some(10), Some(120), Full), copied(Some(120), Some(10), Full)), (None, None));
    }

    #[test]
    fn joins_that_collect_a_side_already_or_look_at_nulls_stay_as_they_are() {
        let spread = join(None, None, JoinType::Inner, false);
        assert!(is_spread(&spread));
        let collecting = |kind| {
            let join = join(None, None, kind, false);
            join.builder().with_partition_mode(PartitionMode::CollectLeft).build().expect("a join")
        };
        assert!(!is_spread(&collecting(JoinType::Inner)));
        assert!(is_spread(&collecting(JoinType::LeftSemi)), "several tasks cannot collect its left side");
        assert!(!is_spread(&join(None, None, JoinType::LeftAnti, true)));
    }
}
