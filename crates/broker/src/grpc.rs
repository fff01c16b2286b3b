//! The gRPC surface: `BrokerStatus`, `Routing`, `ShardRequests` and the standard health service.

use std::{sync::Arc, time::Duration};

use pointsman_proto::{
    broker::v1::{
        GetStatusRequest, GetStatusResponse, NodeHealth,
        broker_status_server::{BrokerStatus, BrokerStatusServer},
        shard_requests_server::ShardRequestsServer,
    },
    encoded::routing_server::RoutingServer,
};
use pointsman_routing::NodeStatus;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::server::HealthReporter;

use crate::{
    RunError,
    broker::Broker,
    route::RoutingService,
    rows::{MAX_REQUEST, RowsService},
};

/// How long calls may take to end once the broker is told to stop.
const DRAIN: Duration = Duration::from_secs(1);

/// What the broker knows, for tools.
#[derive(Debug)]
struct StatusService(Arc<Broker>);

#[tonic::async_trait]
impl BrokerStatus for StatusService {
    async fn get_status(&self, _: Request<GetStatusRequest>) -> Result<Response<GetStatusResponse>, Status> {
        let routing = &self.0.routing;
        let (feed, view) = (routing.feed(), routing.view());
        Ok(Response::new(GetStatusResponse {
            broker: self.0.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            feed_version: view.snapshot().version.0,
            fail_open: view.fail_open().enabled,
            connected: feed.connected,
            routing_age_ms: feed.age.map(crate::millis).unwrap_or_default(),
            nodes: routing.nodes().into_iter().map(node_health).collect(),
        }))
    }
}

fn node_health(status: NodeStatus) -> NodeHealth {
    NodeHealth {
        cluster: status.node.cluster.to_string(),
        node: status.node.node.to_string(),
        enabled: status.enabled,
        routable: status.routable,
        excluded_for_ms: status.excluded_for.map(crate::millis),
        evidence: status.evidence,
        next_probe_in_ms: status.next_probe_in.map(crate::millis),
        tries: status.failed_probes,
        last_probe: status.last_probe,
        suspicions: u32::try_from(status.suspicions).unwrap_or(u32::MAX),
        suspicion: status.suspicion,
    }
}

/// Serves until told to stop. The broker's health is `SERVING` while it has a routing view.
///
/// # Errors
/// [`RunError::Serve`] when the listener breaks.
pub(crate) async fn serve(
    listener: TcpListener,
    broker: Arc<Broker>,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    // Small answers must not wait for the client's acknowledgements.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let (reporter, health) = tonic_health::server::health_reporter();
    let rows =
        ShardRequestsServer::new(RowsService(Arc::clone(&broker))).max_decoding_message_size(MAX_REQUEST);
    let serving = Server::builder()
        .add_service(health)
        .add_service(BrokerStatusServer::new(StatusService(Arc::clone(&broker))))
        .add_service(RoutingServer::new(RoutingService(Arc::clone(&broker))))
        .add_service(rows)
        .serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    tokio::select! {
        served = serving => served.map_err(|error| RunError::Serve(error.into())),
        () = report_health(&reporter, &broker) => Ok(()),
        // Watches of the health have no end of their own.
        () = async { shutdown.cancelled().await; tokio::time::sleep(DRAIN).await } => Ok(()),
    }
}

/// Keeps the health service at the truth; never ends before the routing does.
async fn report_health(reporter: &HealthReporter, broker: &Broker) {
    let mut changed = broker.routing.changed();
    loop {
        if broker.routing.is_ready() {
            reporter.set_serving::<BrokerStatusServer<StatusService>>().await;
            reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
        } else {
            reporter.set_not_serving::<BrokerStatusServer<StatusService>>().await;
            reporter.set_service_status("", tonic_health::ServingStatus::NotServing).await;
        }
        if changed.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
