//! Requests by shard over gRPC: what the shard client knows as traits, with real coordinators, connections and nodes.

mod ask;
mod connector;
mod coordinators;
mod failure;
mod forget;
mod nodes;

use std::sync::Arc;

use pointsman_channels::Channels;
use pointsman_routing::Routing;
use pointsman_settings::ShardClientSettings;
use pointsman_shard_client::{Parts, Policy, Settings, ShardClient, TokioRuntime, balancer::balancer};
use url::Url;

pub(crate) use ask::{Ask, ShardAnswer};
pub(crate) use connector::Connector;
pub(crate) use coordinators::Coordinators;
pub(crate) use forget::Forgetful;
pub(crate) use nodes::Nodes;

/// The client, and what its requests need besides.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    pub(crate) client: ShardClient<Connector>,
    pub(crate) nodes: Arc<Nodes>,
    /// The clock of the client.
    pub(crate) runtime: TokioRuntime,
}

impl Shards {
    /// A client that knows nothing yet; inside a tokio runtime. `channels` go to nodes, `coordinator_channels` to the
    /// coordinators at `coordinators`.
    pub(crate) fn new(
        settings: &ShardClientSettings,
        routing: Routing,
        channels: Channels,
        coordinator_channels: Channels,
        coordinators: Vec<Url>,
    ) -> Self {
        let nodes = Arc::new(Nodes::new(routing));
        let coordinators = Coordinators::new(coordinators, coordinator_channels, nodes.clone());
        let connector = Connector::new(channels, nodes.clone(), settings.health_check_timeout);
        let (settings, runtime) = (client_settings(settings), TokioRuntime::default());
        let parts = Parts {
            coordinator: Arc::new(coordinators),
            connector: Arc::new(connector),
            balancer: balancer(&settings),
            view: nodes.clone(),
            runtime: Arc::new(runtime),
        };
        Self { client: ShardClient::new(settings, parts), nodes, runtime }
    }
}

/// The settings, with what the broker always wants: refusals that tell what was seen, and no reward for nodes that fail
/// fast.
fn client_settings(settings: &ShardClientSettings) -> Settings {
    Settings {
        policy: Policy::from_word(&settings.policy),
        retry_on_replica: settings.retry_on_replica,
        retry_time: settings.retry_time,
        blacklist: settings.blacklist,
        blacklist_sweep: settings.blacklist_sweep,
        connections_per_node: settings.connections_per_node,
        check_workload_every: settings.check_workload_every,
        workload_tolerance: settings.workload_tolerance,
        cost_expiry: settings.cost_expiry,
        health_check_interval: settings.health_check_interval,
        health_check_timeout: settings.health_check_timeout,
        health_check_retries: settings.health_check_retries,
        session_ttl: settings.session_ttl,
        invalidate_on_misrouted: settings.invalidate_on_misrouted,
        failures_as_cost: true,
        causes: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_defaults_are_those_of_the_client_and_its_wishes() {
        let defaults = Settings {
            invalidate_on_misrouted: true,
            failures_as_cost: true,
            causes: true,
            ..Settings::default()
        };
        assert_eq!(client_settings(&ShardClientSettings::default()), defaults);
    }
}
