//! What the surfaces of a broker share.

use std::{sync::Arc, time::Duration};

use pointsman_clock::Clock;
use pointsman_ids::FeedVersion;
use pointsman_routing::Routing;
use pointsman_telemetry::MetricsHandle;

use crate::{exposition, metrics, query::Queries};

/// A running broker.
#[derive(Debug)]
pub(crate) struct Broker {
    /// Its stable name.
    pub(crate) name: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) routing: Routing,
    pub(crate) queries: Queries,
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
        Some(registry.render() + &exposition::render(&self.routing.view().samples()))
    }
}
