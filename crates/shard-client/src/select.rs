//! Choosing the node that a request goes to.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};
use smallvec::SmallVec;

use crate::{
    Balancer, Connect, Leader, Result, ShardClient, ShardError, ShardWorkload,
    candidates::{Candidates, Look},
    counters::add,
    retry::Limits,
};

/// The node that was chosen.
#[derive(Debug)]
pub struct Selected {
    /// The node.
    pub leader: Leader,
    /// The work that counts at the balancer; `None`: the node was preferred, and the balancer neither asked nor told.
    pub work: Option<InFlight>,
}

/// Work that a balancer counts as begun. Dropping it takes the work back, whatever became of it.
#[derive(Debug)]
pub struct InFlight {
    balancer: Arc<dyn Balancer>,
    node: NodeId,
    nq: i64,
    kept: bool,
}

impl InFlight {
    /// Leaves the work in the balancer's books: the caller ends it with [`Balancer::cancel`].
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.kept {
            self.balancer.cancel(self.node, self.nq);
        }
    }
}

impl<K: Connect> ShardClient<K> {
    /// Chooses a leader of the shard: from the cache, and after any error once more past it. A fresh look that finds only
    /// excluded leaders empties `excluded`.
    ///
    /// # Errors
    /// Of the second look: an error of the read; `collection_not_fully_loaded` when the scope has no leader;
    /// `channel_not_available` when no candidate is left; the balancer's error; `node_not_available` when the balancer
    /// picks a stranger.
    pub async fn select_node<R>(
        &self,
        workload: &ShardWorkload<R>,
        excluded: &mut BTreeSet<NodeId>,
        deadline: Option<MonoTime>,
    ) -> Result<Selected> {
        self.select(workload, excluded, self.limits(deadline)).await
    }

    pub(crate) async fn select<R>(
        &self,
        workload: &ShardWorkload<R>,
        excluded: &mut BTreeSet<NodeId>,
        limits: Limits,
    ) -> Result<Selected> {
        let selected = match self.select_once(workload, excluded, false, limits).await {
            Ok(selected) => selected,
            Err(error) => {
                tracing::debug!(shard = %workload.shard, %error, "nobody chosen from the cache, asking past it");
                self.select_once(workload, excluded, true, limits).await?
            }
        };
        let counters = &self.inner.counters;
        match workload.falls_back(&selected.leader) {
            true => add(&counters.preferred_group_fallback, 1),
            false if workload.preferred_group.is_empty() => {}
            false => add(&counters.preferred_group_hit, 1),
        }
        Ok(selected)
    }

    async fn select_once<R>(
        &self,
        workload: &ShardWorkload<R>,
        excluded: &mut BTreeSet<NodeId>,
        past_the_cache: bool,
        limits: Limits,
    ) -> Result<Selected> {
        let (leaders, disabled) =
            self.read_shard(workload.collection, &workload.shard, past_the_cache, limits).await?;
        add(&self.inner.counters.skipped_disabled, disabled);
        let look = Look { leaders: &leaders, past_the_cache, view: &*self.inner.view };
        let candidates = look.candidates(workload, excluded)?;
        add(&self.inner.counters.skipped_excluded, candidates.passed_over);
        if candidates.fails_open {
            add(&self.inner.counters.failed_open, 1);
            tracing::debug!(shard = %workload.shard, "all leaders are excluded, and one of them is tried all the same");
        }
        if let Some(preferred) = workload.preferred {
            if let Some(leader) = candidates.preferred(preferred) {
                add(&self.inner.counters.preferred_hit, 1);
                return Ok(Selected { leader: leader.clone(), work: None });
            }
            add(&self.inner.counters.preferred_unavailable, 1);
        }
        self.by_balancer(&candidates, workload.nq, &workload.preferred_group)
    }

    /// Offers the preferred group first; anybody else when it has no candidate that the balancer thinks reachable.
    fn by_balancer(&self, candidates: &Candidates<'_>, nq: i64, preferred_group: &str) -> Result<Selected> {
        self.inner.balancer.register(&candidates.all);
        let pick = |offered: &[NodeId]| self.inner.balancer.pick(offered, nq, self.now());
        let offered: SmallVec<[NodeId; 8]> = candidates.offered.iter().map(|leader| leader.node).collect();
        let first = candidates.offered_in(preferred_group);
        let node = match first.is_empty() {
            true => pick(&offered)?,
            false => pick(&first).or_else(|_| pick(&offered))?,
        };
        let work = InFlight { balancer: self.inner.balancer.clone(), node, nq, kept: false };
        let picked = candidates.all.iter().find(|leader| leader.node == node);
        let Some(leader) = picked else {
            let text = format!("the balancer picked node {node}, which does not lead the shard");
            return Err(ShardError::new(ErrorCode::NodeNotAvailable, text));
        };
        Ok(Selected { leader: Leader::clone(leader), work: Some(work) })
    }
}
