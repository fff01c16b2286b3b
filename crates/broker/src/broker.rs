//! What the surfaces of a broker share.

use std::{sync::Arc, time::Duration};

use pointsman_clock::Clock;
use pointsman_ids::FeedVersion;
use pointsman_routing::Routing;
use pointsman_telemetry::MetricsHandle;

use crate::{exposition, metrics, query::Queries, rows::RowRequests};

/// A running broker.
#[derive(Debug)]
pub(crate) struct Broker {
    /// Its stable name.
    pub(crate) name: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) routing: Routing,
    pub(crate) queries: Queries,
    pub(crate) rows: RowRequests,
    /// What `/metrics` shows; `None`: nothing.
    pub(crate) metrics: Option<MetricsHandle>,
    /// The version that was read from disk at the start; `None`: none was.
    pub(crate) stored_version: Option<FeedVersion>,
}

impl Broker {
    /// Time since the start of its clock.
    pub(crate) fn now(&self) -> Duration {
        self.clock.mono().since_start()
    }

    /// Everything that is counted and measured, in Prometheus' text format; `None`: this process has no metrics.
    pub(crate) fn render_metrics(&self) -> Option<String> {
        let registry = self.metrics.as_ref()?;
        metrics::feeds(&self.routing.view(), &self.routing.feeds());
        self.queries.publish_metrics();
        let of_routing = exposition::render(&self.routing.view().samples());
        let of_shards = exposition::render(&metrics::of_shard_client(&self.rows.shards().client.samples()));
        Some(registry.render() + &of_routing + &of_shards)
    }
}
