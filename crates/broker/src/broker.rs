//! What the surfaces of a broker share.

use pointsman_ids::FeedVersion;
use pointsman_routing::Routing;
use pointsman_telemetry::MetricsHandle;

use crate::{metrics, query::Queries};

/// A running broker.
#[derive(Debug)]
pub(crate) struct Broker {
    /// Its stable name.
    pub(crate) name: String,
    pub(crate) routing: Routing,
    pub(crate) queries: Queries,
    /// What `/metrics` shows; `None`: nothing.
    pub(crate) metrics: Option<MetricsHandle>,
    /// The version that was read from disk at the start; `None`: none was.
    pub(crate) stored_version: Option<FeedVersion>,
}

impl Broker {
    /// Brings figures that are read from elsewhere up to date.
    pub(crate) fn publish_metrics(&self) {
        metrics::routing(&self.routing.view(), &self.routing.feed());
        self.queries.publish_metrics();
    }
}
