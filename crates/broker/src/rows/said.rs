//! Who answered for what.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::{ReplicaId, feed::CollectionEntry, request::Looked};
use pointsman_proto::broker::v1 as pb;
use pointsman_routing::RoutingView;
use pointsman_shard_client::Answered;
use serde::Serialize;

use crate::shards::{Nodes, ShardAnswer};

/// Who answered for which shard, and what was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Coverage {
    /// One per shard of the collection, by name.
    pub(crate) shards: Vec<AnsweredShard>,
    /// The target that all of them answered from.
    pub(crate) target_version: u64,
    pub(crate) segments: u64,
    pub(crate) indexed_segments: u64,
    pub(crate) rows_scanned: u64,
}

/// A shard with who answered for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AnsweredShard {
    pub(crate) shard: Arc<str>,
    pub(crate) node_id: u64,
    /// Empty: not known to the routing.
    pub(crate) node: String,
    pub(crate) replica_id: u64,
    /// Empty: not known to the routing.
    pub(crate) resource_group: String,
    /// A group was preferred, and this is not it.
    pub(crate) fell_back: bool,
}

impl Coverage {
    /// What the answers say of themselves, with the names that the routing knows.
    pub(super) fn of(
        view: &RoutingView,
        entry: &CollectionEntry,
        nodes: &Nodes,
        answered: &[Answered<ShardAnswer>],
    ) -> Self {
        let mut looked = Looked::default();
        let shard = |answered: &Answered<ShardAnswer>| {
            looked += answered.answer.looked;
            AnsweredShard {
                shard: answered.shard.clone(),
                node_id: answered.node.0,
                node: nodes.node(answered.node).map(|node| node.key.node.to_string()).unwrap_or_default(),
                replica_id: answered.answer.replica.0,
                resource_group: group(view, entry, answered.answer.replica).unwrap_or_default(),
                fell_back: answered.fell_back,
            }
        };
        let shards = answered.iter().map(shard).collect();
        Self {
            shards,
            target_version: answered.first().map(|shard| shard.answer.target_version).unwrap_or_default(),
            segments: looked.segments,
            indexed_segments: looked.indexed_segments,
            rows_scanned: looked.rows,
        }
    }

    /// The groups that answered, each once.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(|shard| shard.resource_group.as_str()).collect::<BTreeSet<_>>().into_iter()
    }
}

/// Name of the resource group of a replica.
fn group(view: &RoutingView, entry: &CollectionEntry, replica: ReplicaId) -> Option<String> {
    let replica = entry.replicas.iter().find(|known| known.id == replica)?;
    let group = view.snapshot().groups.iter().find(|group| group.number == replica.group)?;
    Some(group.name.to_string())
}

impl From<Coverage> for pb::ShardCoverage {
    fn from(coverage: Coverage) -> Self {
        let shard = |shard: AnsweredShard| pb::AnsweredShard {
            shard: shard.shard.to_string(),
            node_id: shard.node_id,
            node: shard.node,
            replica_id: shard.replica_id,
            resource_group: shard.resource_group,
            fell_back: shard.fell_back,
        };
        Self {
            shards: coverage.shards.into_iter().map(shard).collect(),
            target_version: coverage.target_version,
            segments: coverage.segments,
            indexed_segments: coverage.indexed_segments,
            rows_scanned: coverage.rows_scanned,
        }
    }
}
