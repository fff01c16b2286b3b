//! The HTTP surface: queries, requests by shard, health, metrics, and what the broker knows.

mod debug;
mod ops;
mod query;
mod route;
mod rows;
mod shards;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
    serve::ListenerExt,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{RunError, broker::Broker};

/// Largest body of a query in bytes. SQL texts may have 256 KiB; written as JSON with every character escaped they
/// take six times as much.
const MAX_BODY: usize = 2 << 20;

/// How long running queries may take to end once the broker is told to stop.
const DRAIN: Duration = Duration::from_secs(30);

/// All routes.
pub(crate) fn routes(broker: Arc<Broker>) -> Router {
    Router::new()
        .route("/query/sql", post(query::post).get(query::get))
        .route("/v1/search", post(rows::search).layer(DefaultBodyLimit::max(rows::MAX_BODY)))
        .route("/v1/get", post(rows::get).layer(DefaultBodyLimit::max(rows::MAX_BODY)))
        .route("/v1/query", post(rows::query).layer(DefaultBodyLimit::max(rows::MAX_BODY)))
        .route("/health", get(ops::health))
        .route("/ready", get(ops::ready))
        .route("/metrics", get(ops::metrics))
        .route("/debug/routing/{collection}", get(debug::routing))
        .route("/debug/route", get(route::route))
        .route("/debug/nodes", get(debug::nodes))
        .route("/debug/shards", get(shards::show).delete(shards::clear))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(broker)
}

/// Serves until told to stop; then takes no new connection and lets running queries end for a while.
///
/// # Errors
/// [`RunError::Serve`] when the listener breaks.
pub(crate) async fn serve(
    listener: TcpListener,
    broker: Arc<Broker>,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    // Small answers must not wait for the client's acknowledgements. Where it cannot be set they do; that is all.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let stop = shutdown.clone().cancelled_owned();
    let serving = axum::serve(listener, routes(broker)).with_graceful_shutdown(stop).into_future();
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        () = shutdown.cancelled() => match tokio::time::timeout(DRAIN, serving).await {
            Ok(served) => served,
            Err(_) => {
                tracing::warn!("queries still ran {DRAIN:?} after the broker was told to stop; they are cut off");
                Ok(())
            }
        },
    };
    served.map_err(|error| RunError::Serve(error.into()))
}
