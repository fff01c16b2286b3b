//! Reads the coordinator's answer: parallel arrays become leaders.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::NodeId;

use crate::{Leader, LeaderTable};

/// One shard of the coordinator's answer, as it is on the wire. Entry i of each list is about the same leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardListing {
    /// Name of the shard.
    pub shard: String,
    /// The leaders' processes.
    pub node_ids: Vec<u64>,
    /// Where they listen.
    pub node_addrs: Vec<String>,
    /// Whether they can answer.
    pub serviceable: Vec<bool>,
    /// Resource groups of the replicas that they lead. Empty: a coordinator that does not know them.
    pub resource_groups: Vec<String>,
}

/// What an answer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAnswer {
    /// Every shard of the answer.
    pub table: LeaderTable,
    /// Shards whose groups are not known because their list had another length than the nodes.
    pub misaligned_tags: Vec<Arc<str>>,
    /// Shards without leaders because nobody can say which address or flag belongs to which node.
    pub malformed_lists: Vec<Arc<str>>,
}

/// Reads an answer. A shard whose lists do not fit together stays in the table, so that it fails visibly; other shards
/// are not touched by it.
pub fn read_answer(listings: Vec<ShardListing>) -> ReadAnswer {
    let (mut misaligned_tags, mut malformed_lists) = (Vec::new(), Vec::new());
    let shards = listings.into_iter().map(|listing| {
        let shard: Arc<str> = listing.shard.as_str().into();
        let count = listing.node_ids.len();
        let tags = listing.resource_groups.len();
        // Told of a malformed shard too: each says what the coordinator got wrong.
        if tags != 0 && tags != count {
            misaligned_tags.push(shard.clone());
        }
        if listing.node_addrs.len() != count || listing.serviceable.len() != count {
            malformed_lists.push(shard.clone());
            return (shard, Vec::new());
        }
        let tagged = tags == count;
        (shard, leaders(listing, tagged))
    });
    let table = LeaderTable::new(shards);
    ReadAnswer { table, misaligned_tags, malformed_lists }
}

/// The lists have one length each, groups excepted unless they are `tagged`. Of a node that comes twice the first entry
/// stays.
fn leaders(listing: ShardListing, tagged: bool) -> Vec<Leader> {
    let mut seen = BTreeSet::new();
    let mut groups = listing.resource_groups.into_iter().filter(|_| tagged);
    let entries = listing.node_ids.into_iter().zip(listing.node_addrs).zip(listing.serviceable);
    let leaders = entries.map(|((node, address), serviceable)| Leader {
        node: NodeId(node),
        address: address.into(),
        serviceable,
        resource_group: groups.next().unwrap_or_default().into(),
    });
    leaders.filter(|leader| seen.insert(leader.node)).collect()
}
