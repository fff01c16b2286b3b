//! One look at the leaders of a shard: who may be asked, and who comes first.

use std::collections::BTreeSet;

use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use smallvec::SmallVec;

use crate::{Leader, NodeView, Result, ShardError, ShardWorkload, view::Standing};

/// A few leaders, without allocation in nearly all cases.
pub(crate) type Few<'a> = SmallVec<[&'a Leader; 8]>;

/// Who may be asked. Both lists ascend by node.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    /// Leaders in the scope that are not excluded from this request.
    pub(crate) all: Few<'a>,
    /// Those of them that are to be asked first.
    pub(crate) offered: Few<'a>,
    /// Serviceable ones that stand back because the failure detector excluded them.
    pub(crate) passed_over: usize,
    /// Whether those to be asked first are all excluded, and asked because nobody else is left.
    pub(crate) fails_open: bool,
}

impl Candidates<'_> {
    /// The preferred node, if it is to be asked first and can answer.
    pub(crate) fn preferred(&self, node: NodeId) -> Option<&Leader> {
        self.offered.iter().copied().find(|leader| leader.node == node && leader.serviceable)
    }

    /// Those of the ones to be asked first that are in a group; none for the group `""`.
    pub(crate) fn offered_in(&self, group: &str) -> SmallVec<[NodeId; 8]> {
        let offered = self.offered.iter().filter(|leader| !group.is_empty() && leader.is_in(group));
        offered.map(|leader| leader.node).collect()
    }
}

/// What is looked at, and from where.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    /// Leaders of the shard on enabled nodes.
    pub(crate) leaders: &'a [Leader],
    /// Read past the cache: everything that was known before may be out of date.
    pub(crate) past_the_cache: bool,
    pub(crate) view: &'a dyn NodeView,
}

impl<'a> Look<'a> {
    /// Narrows the leaders down. `excluded` is emptied when a fresh look finds nobody else.
    ///
    /// # Errors
    /// `collection_not_fully_loaded` when the scope has no leader, which heals by itself; `channel_not_available` when
    /// nobody is left.
    pub(crate) fn candidates<R>(
        &self,
        workload: &ShardWorkload<R>,
        excluded: &mut BTreeSet<NodeId>,
    ) -> Result<Candidates<'a>> {
        let group = &*workload.resource_group;
        let mut all: Few<'a> = self.leaders.iter().filter(|leader| leader.is_in(group)).collect();
        if all.is_empty() && !group.is_empty() {
            return Err(outside_scope(&workload.name, workload.collection, Some(&workload.shard), group));
        }
        let nobody_else = all.iter().all(|leader| excluded.contains(&leader.node));
        if self.past_the_cache && nobody_else && !all.is_empty() {
            excluded.clear();
        }
        all.retain(|leader| !excluded.contains(&leader.node));
        if all.is_empty() {
            return Err(nobody_left(workload, "it has no leader that may be asked"));
        }
        all.sort_unstable_by_key(|leader| leader.node);
        let (offered, passed_over, fails_open) = self.offered(&all, workload)?;
        Ok(Candidates { all, offered, passed_over, fails_open })
    }

    /// The serviceable come first, and of these the ones that nobody excluded. An exclusion may be wrong, so where nobody
    /// else is left it does not close a shard, unless the collection wants that.
    fn offered<R>(&self, all: &Few<'a>, workload: &ShardWorkload<R>) -> Result<(Few<'a>, usize, bool)> {
        let serviceable: Few<'a> = all.iter().copied().filter(|leader| leader.serviceable).collect();
        if serviceable.is_empty() {
            return Ok((all.clone(), 0, false));
        }
        let is_excluded = |leader: &Leader| self.view.standing(leader.node) == Standing::Excluded;
        let usable: Few<'a> = serviceable.iter().copied().filter(|leader| !is_excluded(leader)).collect();
        match usable.is_empty() {
            false => {
                let passed_over = serviceable.len() - usable.len();
                Ok((usable, passed_over, false))
            }
            true if self.view.is_fail_closed(workload.collection) => {
                Err(nobody_left(workload, "its leaders are excluded, and the collection fails closed"))
            }
            true => Ok((serviceable, 0, true)),
        }
    }
}

/// The refusal of a scope in which nobody leads the shard, or any shard.
pub(crate) fn outside_scope(
    name: &str,
    collection: CollectionId,
    shard: Option<&str>,
    group: &str,
) -> ShardError {
    let what = shard.map_or_else(|| "no shard".to_owned(), |shard| format!("shard '{shard}'"));
    let text = format!(
        "{what} of collection '{name}' ({collection}) has no leader in resource group '{group}' yet; try again soon"
    );
    // "no shard has no leader" would say the opposite.
    let text = if shard.is_some() { text } else { text.replace("has no leader", "has a leader") };
    ShardError::new(ErrorCode::CollectionNotFullyLoaded, text)
}

fn nobody_left<R>(workload: &ShardWorkload<R>, why: &str) -> ShardError {
    let text = format!(
        "shard '{}' of collection '{}' ({}) cannot be served: {why}",
        workload.shard, workload.name, workload.collection
    );
    ShardError::new(ErrorCode::ChannelNotAvailable, text)
}
