//! What rules a core.

use std::time::Duration;

use pointsman_ids::ClusterName;
use pointsman_instance_selector::{AdaptiveSettings, FailOpen};

/// What rules a [`Core`](crate::Core).
#[derive(Clone, Debug)]
pub struct CoreSettings {
    /// The clusters that it routes to, in order; the first is the local one.
    pub clusters: Vec<ClusterName>,
    /// The failure detector.
    pub detector: pointsman_failure_detector::Settings,
    /// How long a segment that is loaded for the first time may count as new.
    pub new_segment_window: Duration,
    /// The broker's own switches of fail-open.
    pub fail_open: FailOpen,
    /// Adaptive selection.
    pub adaptive: AdaptiveSettings,
    /// Wall time at the zero of the clock that `now` is on, nanoseconds since the Unix epoch: the creation times of
    /// segments are on that clock.
    pub started_at: u64,
}
