//! Why a shard is not served. Nothing here decides anything.

use std::{fmt, sync::Arc};

use pointsman_ids::{CollectionId, GroupName, NodeName, ReplicaId, ShardName};

use super::{
    checks::Loaded,
    overlap::{Marks, Wanted},
};
use crate::{KnownNodes, LeaderReport, Replica, TargetShard, elected};

/// A shard that nobody serves, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyShard {
    /// The shard.
    pub shard: ShardName,
    /// The cause in each replica that could serve it, in the order of their creation. None: there is no replica.
    pub causes: Vec<ReplicaCause>,
}

/// Why a replica does not serve a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaCause {
    /// The replica.
    pub replica: ReplicaId,
    /// The group that it lives in.
    pub group: GroupName,
    /// What is missing.
    pub cause: Cause,
}

/// What is missing for a replica to serve a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Queries cannot see the replica yet.
    Invisible,
    /// None of its nodes reports to lead the shard.
    NoLeader,
    /// Its leader lacks segments of what is served.
    Lacks {
        /// The leader.
        node: NodeName,
        /// Segments of the shard that it lacks.
        missing: u64,
        /// Segments of the shard.
        segments: u64,
    },
    /// Its leader has all segments, and no confirmed view of them yet.
    Unsynced {
        /// The leader.
        node: NodeName,
    },
    /// The leader's node is not known: it is gone, lost or disabled.
    NodeUnknown {
        /// The leader.
        node: NodeName,
    },
}

impl Cause {
    /// The word on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Invisible => "replica_invisible",
            Self::NoLeader => "no_leader_reported",
            Self::Lacks { .. } => "segments_lacking",
            Self::Unsynced { .. } => "unsynced",
            Self::NodeUnknown { .. } => "node_unknown",
        }
    }

    /// The node that it is about, if it is about one.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Invisible | Self::NoLeader => None,
            Self::Lacks { node, .. } | Self::Unsynced { node } | Self::NodeUnknown { node } => Some(node),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invisible => f.write_str("not visible to queries yet"),
            Self::NoLeader => f.write_str("no leader reported"),
            Self::Lacks { node, missing, segments } => {
                write!(f, "leader {node} lacks {missing} of {segments} segments")
            }
            Self::Unsynced { node } => write!(f, "leader {node} has no synced view"),
            Self::NodeUnknown { node } => write!(f, "leader {node} is not known"),
        }
    }
}

impl fmt::Display for ReplicaCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replica {} in '{}': {}", self.replica, self.group, self.cause)
    }
}

impl UnreadyShard {
    /// The causes in short, for messages.
    pub(super) fn short(&self) -> String {
        const SHOWN: usize = 3;
        if self.causes.is_empty() {
            return "no replica".to_owned();
        }
        let mut parts: Vec<String> = self.causes.iter().take(SHOWN).map(ToString::to_string).collect();
        if let more @ 1.. = self.causes.len().saturating_sub(SHOWN) {
            parts.push(format!("and {more} more"));
        }
        parts.join("; ")
    }
}

/// What is read to judge whether a replica serves a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) loaded: Loaded<'a>,
    pub(super) nodes: &'a KnownNodes,
    pub(super) collection: CollectionId,
    /// Whether replicas that queries cannot see count as well.
    pub(super) sees_invisible: bool,
}

/// Why a replica does not serve a shard, before segments are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gap<'a> {
    Invisible,
    NoLeader,
    Unserviceable(&'a LeaderReport),
    NodeUnknown(&'a LeaderReport),
}

impl<'a> Judge<'a> {
    /// The elected leader of a replica that counts.
    pub(super) fn leader(&self, shard: &ShardName, replica: &Replica) -> Result<&'a LeaderReport, Gap<'a>> {
        if !replica.query_visible && !self.sees_invisible {
            return Err(Gap::Invisible);
        }
        let leaders = self.loaded.distribution.leaders(self.collection, shard);
        elected(leaders, replica).map(Arc::as_ref).ok_or(Gap::NoLeader)
    }

    /// The leader that serves the shard for a replica: elected, serviceable, on a known node. Only the elected one is
    /// looked at: a lower version on another node does not stand in.
    pub(super) fn serving(&self, shard: &ShardName, replica: &Replica) -> Result<&'a LeaderReport, Gap<'a>> {
        let leader = self.leader(shard, replica)?;
        // What is amiss with the node explains more than what its leader lacks.
        if self.nodes.of(leader).is_none() {
            return Err(Gap::NodeUnknown(leader));
        }
        if !leader.serviceable {
            return Err(Gap::Unserviceable(leader));
        }
        Ok(leader)
    }

    /// Why replicas do not serve the shard; those that do are left out.
    pub(super) fn causes(&self, shard: &TargetShard, replicas: &[&Replica]) -> UnreadyShard {
        let cause = |replica: &&Replica| {
            let cause = self.serving(&shard.name, replica).err()?.cause(shard);
            Some(ReplicaCause { replica: replica.id, group: replica.group.clone(), cause })
        };
        UnreadyShard { shard: shard.name.clone(), causes: replicas.iter().filter_map(cause).collect() }
    }
}

impl Gap<'_> {
    fn cause(self, shard: &TargetShard) -> Cause {
        match self {
            Self::Invisible => Cause::Invisible,
            Self::NoLeader => Cause::NoLeader,
            Self::NodeUnknown(leader) => Cause::NodeUnknown { node: leader.node.clone() },
            Self::Unserviceable(leader) => {
                let (node, segments) = (leader.node.clone(), shard.segments.len());
                let mut marks = Marks::default();
                let carried = Wanted::new(&shard.segments, &mut marks).carried(&mut [leader.view.segments()]);
                match segments.saturating_sub(carried) {
                    0 => Cause::Unsynced { node },
                    missing => Cause::Lacks { node, missing: missing as u64, segments: segments as u64 },
                }
            }
        }
    }
}
