//! Numbers that decisions about loads go by.

use std::time::Duration;

use pointsman_query_coord::ReplicaRequest;
use pointsman_settings::CoordinatorSettings;

/// What holds for all loads.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// A load that makes no progress for so long ends.
    pub(crate) load_timeout: Duration,
    /// A next target that was not promoted for so long is pulled anew.
    pub(crate) next_target_max_age: Duration,
    /// Whether a promotion needs every segment to be reported by a node.
    pub(crate) promotion_needs_segment_versions: bool,
    /// Replicas of collections whose number nobody chose.
    pub(crate) defaults: ReplicaRequest,
}

/// What settings say of replicas.
pub(crate) trait DefaultReplicas {
    /// What holds where nobody chose.
    fn default_replicas(&self) -> ReplicaRequest;
}

impl DefaultReplicas for CoordinatorSettings {
    fn default_replicas(&self) -> ReplicaRequest {
        ReplicaRequest {
            number: self.default_replica_number.into(),
            groups: self.default_resource_groups.clone(),
            ..ReplicaRequest::default()
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::of(&CoordinatorSettings::default())
    }
}

impl Rules {
    pub(crate) fn of(settings: &CoordinatorSettings) -> Self {
        Self {
            load_timeout: settings.load_timeout,
            next_target_max_age: settings.next_target_max_age,
            promotion_needs_segment_versions: settings.promotion_needs_segment_versions,
            defaults: settings.default_replicas(),
        }
    }
}
