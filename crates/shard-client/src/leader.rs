//! Who leads which shard, and the scope of a request.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::NodeId;

/// A node that leads a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The node's process.
    pub node: NodeId,
    /// Where it listens.
    pub address: Arc<str>,
    /// Whether it can answer for the shard.
    pub serviceable: bool,
    /// Resource group of the replica that it leads, byte by byte as the coordinator says it. Empty: not known, which
    /// does not mean "in no group".
    pub resource_group: Arc<str>,
}

impl Leader {
    pub(crate) fn is_in(&self, group: &str) -> bool {
        group.is_empty() || *self.resource_group == *group
    }
}

/// The leaders of one shard that are in a group, in their order; all of them for the group `""`. A leader whose group is
/// not known is in none.
///
/// It takes one shard's leaders and must never be applied to a table: a table from which shards are missing would be a
/// partial answer that looks complete.
pub fn filter_by_resource_group(leaders: &[Leader], group: &str) -> Vec<Leader> {
    leaders.iter().filter(|leader| leader.is_in(group)).cloned().collect()
}

/// The leaders of every shard of a collection, as the coordinator listed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderTable {
    shards: BTreeMap<Arc<str>, Arc<[Leader]>>,
}

impl LeaderTable {
    /// A table of these shards. Of a shard that comes twice the first stays.
    pub fn new(shards: impl IntoIterator<Item = (Arc<str>, Vec<Leader>)>) -> Self {
        let mut table = Self::default();
        for (shard, leaders) in shards {
            table.shards.entry(shard).or_insert_with(|| leaders.into());
        }
        table
    }

    /// The leaders of a shard; an unknown one has none.
    pub fn leaders(&self, shard: &str) -> Arc<[Leader]> {
        self.shards.get(shard).cloned().unwrap_or_else(|| Arc::from([]))
    }

    /// The names of all shards, ascending.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.shards.keys()
    }

    /// All shards with their leaders, by name.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<[Leader]>)> {
        self.shards.iter()
    }

    /// Whether no shard is listed.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }
}
