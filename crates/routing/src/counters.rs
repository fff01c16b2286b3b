//! What routing counts of one collection of one cluster. Readers of views count without a lock; successive views share
//! the counters, and they go with the collection.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use pointsman_ids::GroupNumber;
use pointsman_instance_selector::{Nodes, Selection};

/// Counts since the collection appeared.
#[derive(Debug, Default)]
pub(crate) struct CollectionCounters {
    /// Request ids that were given out.
    pub(crate) requests: AtomicU64,
    pub(crate) dropped_segments: AtomicU64,
    /// Nodes that were chosen and had gone.
    pub(crate) missing_nodes: AtomicU64,
    pub(crate) fail_open_eligible_requests: AtomicU64,
    pub(crate) fail_open_requests: AtomicU64,
    /// By pool. Writers put in the pools that candidates may have, so a reader finds its own.
    selected: ArcSwap<BTreeMap<GroupNumber, Arc<Selected>>>,
}

/// Picks of one pool.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// Of requests that named pools.
    pub(crate) set: AtomicU64,
    /// Of others.
    pub(crate) unset: AtomicU64,
}

impl CollectionCounters {
    /// Makes room for the pools that these nodes have. One writer at a time.
    pub(crate) fn expect_pools(&self, nodes: &Nodes) {
        let known = self.selected.load_full();
        let pools = nodes.enabled().iter().map(|node| nodes.pool(node)).chain([GroupNumber::NONE]);
        let mut new = pools.filter(|pool| !known.contains_key(pool)).peekable();
        if new.peek().is_some() {
            let mut selected = BTreeMap::clone(&known);
            selected.extend(new.map(|pool| (pool, Arc::default())));
            self.selected.store(Arc::new(selected));
        }
    }

    /// Counts the outcome of a selection. `preferred`: the request named pools.
    pub(crate) fn count(&self, selection: &Selection, preferred: bool) {
        let selected = self.selected.load();
        for (pool, picks) in &selection.pools {
            if let Some(selected) = selected.get(pool) {
                let of = if preferred { &selected.set } else { &selected.unset };
                of.fetch_add(*picks, Relaxed);
            }
        }
        add(&self.dropped_segments, selection.dropped.len());
        add(&self.fail_open_eligible_requests, selection.fail_open_eligible.into());
        add(&self.fail_open_requests, usize::from(!selection.fail_open.is_empty()));
    }

    /// Picks by pool; pools without any are left out.
    pub(crate) fn selected(&self) -> Vec<(GroupNumber, Arc<Selected>)> {
        let selected = self.selected.load();
        selected.iter().map(|(pool, selected)| (*pool, Arc::clone(selected))).collect()
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Relaxed);
}
