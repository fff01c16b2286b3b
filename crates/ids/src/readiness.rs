//! Words of the answer to "may I route there?".

use std::fmt;

/// Why a resource group can serve a collection, or cannot. Callers compare the words and never parse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadinessReason {
    /// It can: every shard of what is served has a leader there. Its word is empty.
    Ready,
    /// The coordinator has not come up, or goes down: nothing is known.
    CoordinatorNotReady,
    /// There is no group of this name.
    ResourceGroupNotFound,
    /// The collection is not loaded, or its load failed.
    CollectionNotLoaded,
    /// The group holds no replica of the collection: waiting will never help.
    NoReplicaInResourceGroup,
    /// No group was named, and there is no replica at all.
    NoReplica,
    /// Nothing is served yet, or not again after a loss: the collection recovers.
    NoShardInTarget,
    /// At least one shard has no leader that can answer.
    ShardsWithoutLeader,
}

impl ReadinessReason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::CoordinatorNotReady,
        Self::ResourceGroupNotFound,
        Self::CollectionNotLoaded,
        Self::NoReplicaInResourceGroup,
        Self::NoReplica,
        Self::NoShardInTarget,
        Self::ShardsWithoutLeader,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "",
            Self::CoordinatorNotReady => "coordinator_not_ready",
            Self::ResourceGroupNotFound => "resource_group_not_found",
            Self::CollectionNotLoaded => "collection_not_loaded",
            Self::NoReplicaInResourceGroup => "no_replica_in_resource_group",
            Self::NoReplica => "no_replica",
            Self::NoShardInTarget => "no_shard_in_target",
            Self::ShardsWithoutLeader => "shards_without_leader",
        }
    }

    /// The reason of a word; `None` for one that this version does not know.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl fmt::Display for ReadinessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back() {
        for reason in ReadinessReason::ALL {
            assert_eq!(ReadinessReason::from_word(reason.as_str()), Some(reason));
        }
        assert_eq!(ReadinessReason::from_word("ready"), None);
    }
}
