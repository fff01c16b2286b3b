//! A cluster of one or more collections that does what balance plans.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use pointsman_ids::SegmentId;
use pointsman_query_coord::balance::{
    BalanceSettings, Eligible, Moving, NodeLoad, ReplicaLoad, ReplicaPlan, SegmentMove, plan_replica,
};
use proptest::prelude::*;

/// A segment: its collection, its rows, and the node that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) collection: usize,
    pub(crate) rows: u64,
    pub(crate) node: usize,
}

/// Nodes that all serve one replica of each collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) memory: Vec<Option<u64>>,
    pub(crate) read_only: BTreeSet<usize>,
    pub(crate) segments: BTreeMap<SegmentId, Held>,
    /// Per collection and shard the node that leads.
    pub(crate) leads: Vec<Vec<Option<usize>>>,
}

/// Up to six nodes, three collections and fifty segments.
pub(crate) fn any_cluster() -> impl Strategy<Value = Cluster> {
    let memory = prop_oneof![Just(None), prop_oneof![Just(1_u64 << 30), Just(4 << 30)].prop_map(Some)];
    let rows = prop_oneof![0..4_u64, 0..1000_u64, 100_000..100_010_u64];
    let nodes = prop::collection::vec(memory, 1..6);
    let segments = prop::collection::vec((0..3_usize, rows, any::<prop::sample::Index>()), 0..50);
    let leads = prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 1..6), 3);
    (nodes, segments, leads).prop_map(|(memory, segments, leads)| {
        let count = memory.len();
        let held = |(collection, rows, node): (usize, u64, prop::sample::Index)| Held {
            collection,
            rows,
            node: node.index(count),
        };
        let segments = (1..).map(SegmentId).zip(segments.into_iter().map(held)).collect();
        let led =
            |shards: Vec<prop::sample::Index>| shards.iter().map(|node| Some(node.index(count))).collect();
        Cluster { memory, read_only: BTreeSet::new(), segments, leads: leads.into_iter().map(led).collect() }
    })
}

impl Cluster {
    pub(crate) fn replica(&self, collection: usize) -> ReplicaLoad {
        let rows = |node: usize, of: Option<usize>| {
            let held = self.segments.values().filter(|held| held.node == node);
            held.filter(|held| of.is_none_or(|of| held.collection == of)).map(|held| held.rows).sum()
        };
        let load = |(node, memory): (usize, &Option<u64>)| NodeLoad {
            writable: !self.read_only.contains(&node),
            normal: true,
            memory: *memory,
            rows: rows(node, Some(collection)),
            all_rows: rows(node, None),
            leads: u32::try_from(self.leads[collection].iter().filter(|led| **led == Some(node)).count())
                .unwrap(),
        };
        let nodes = self.memory.iter().enumerate().map(load).collect();
        ReplicaLoad { nodes, leads: self.leads[collection].clone(), moving: Moving::default() }
    }

    pub(crate) fn plan(
        &self,
        settings: &BalanceSettings,
        eligible: Eligible,
        collection: usize,
    ) -> ReplicaPlan {
        let on = |node: usize| {
            let there =
                self.segments.iter().filter(|(_, held)| held.node == node && held.collection == collection);
            there.map(|(segment, held)| (*segment, held.rows)).collect()
        };
        plan_replica(settings, eligible, &self.replica(collection), on, |_, _| true)
    }

    pub(crate) fn apply(&mut self, collection: usize, plan: &ReplicaPlan) {
        match plan {
            ReplicaPlan::Rest => {}
            ReplicaPlan::Leads(moves) => {
                for made in moves {
                    assert_eq!(self.leads[collection][made.shard], Some(made.from));
                    self.leads[collection][made.shard] = Some(made.to);
                }
            }
            ReplicaPlan::Segments(moves) => moves.iter().for_each(|made| self.shift(made)),
        }
    }

    pub(crate) fn shift(&mut self, made: &SegmentMove) {
        let held = self.segments.get_mut(&made.segment).unwrap();
        assert_eq!(made.from, Some(held.node));
        held.node = made.to;
    }

    /// Collections, those with most rows first.
    fn largest_first(&self) -> Vec<usize> {
        let rows = |of: usize| {
            self.segments.values().filter(|held| held.collection == of).map(|held| held.rows).sum()
        };
        let mut order: Vec<usize> = (0..self.leads.len()).collect();
        order.sort_by_key(|of| Reverse::<u64>(rows(*of)));
        order
    }

    /// Plans and does rounds until nothing moves; how many that took. In a round only the largest collection moves that
    /// has something to move. `None`: it never came to rest.
    pub(crate) fn rest(
        &mut self,
        settings: &BalanceSettings,
        mut each: impl FnMut(&Self, usize, &ReplicaPlan),
    ) -> Option<usize> {
        for round in 0..2000 {
            let plan = |of: usize| Some((of, self.plan(settings, Eligible::Balance, of)));
            let moving = |(_, plan): &(usize, ReplicaPlan)| *plan != ReplicaPlan::Rest;
            let Some((collection, plan)) = self.largest_first().into_iter().filter_map(plan).find(moving)
            else {
                return Some(round);
            };
            each(self, collection, &plan);
            self.apply(collection, &plan);
        }
        None
    }

    /// How uneven rows are spread. Every move within equal shares that pays makes it smaller.
    pub(crate) fn unevenness(&self, settings: &BalanceSettings) -> f64 {
        let mut sum = 0.0;
        for node in 0..self.memory.len() {
            let mut all = 0.0;
            for collection in 0..self.leads.len() {
                let there =
                    self.segments.values().filter(|held| held.node == node && held.collection == collection);
                let rows: u64 = there.map(|held| held.rows).sum();
                sum += (rows as f64).powi(2);
                all += rows as f64;
            }
            sum += settings.global_row_factor * all * all;
        }
        sum
    }
}
