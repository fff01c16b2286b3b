//! Words of the coverage report.

/// Why nobody can answer for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnavailableCause {
    /// No replica is assigned.
    NoReplicaAssigned,
    /// No replica has loaded it.
    NotLoaded,
    /// All that have it are excluded by the failure detector.
    AllExcluded,
    /// All that have it are disabled.
    AllDisabled,
    /// Every replica of its assignment group lacks a segment of the group.
    GroupIncomplete,
    /// None of its nodes stands in a replica group.
    OutsideReplicaGroups,
    /// The node that was asked did not answer within the deadline.
    NodeSilent,
    /// All that have it failed in this query, and the retries are used up.
    RetriesUsedUp,
}

impl UnavailableCause {
    /// The word in the coverage report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoReplicaAssigned => "no_replica_assigned",
            Self::NotLoaded => "not_loaded",
            Self::AllExcluded => "all_excluded",
            Self::AllDisabled => "all_disabled",
            Self::GroupIncomplete => "group_incomplete",
            Self::OutsideReplicaGroups => "outside_replica_groups",
            Self::NodeSilent => "node_silent",
            Self::RetriesUsedUp => "retries_used_up",
        }
    }
}
