//! Connections to nodes, for the client's pools.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use pointsman_channels::{Channels, OwnConnection, Verdict, transport_text};
use pointsman_ids::{ErrorCode, NodeId};
use pointsman_shard_client::{Connect, Result, ShardError};
use url::Url;

use super::nodes::Nodes;

/// Opens connections. A node that cannot be reached is told to the failure detector.
#[derive(Debug)]
pub(crate) struct Connector {
    channels: Channels,
    nodes: Arc<Nodes>,
    check_timeout: Duration,
}

impl Connector {
    pub(super) fn new(channels: Channels, nodes: Arc<Nodes>, check_timeout: Duration) -> Self {
        Self { channels, nodes, check_timeout }
    }
}

impl Connect for Connector {
    type Connection = OwnConnection;

    fn connect(&self, node: NodeId, address: Arc<str>) -> BoxFuture<'static, Result<OwnConnection>> {
        let (channels, nodes) = (self.channels.clone(), self.nodes.clone());
        async move {
            let url = Url::parse(&address).map_err(|error| {
                let text = format!("'{address}' is no address such as http://127.0.0.1:8290: {error}");
                ShardError::new(ErrorCode::NodeNotAvailable, text)
            })?;
            channels.open(&url).await.map_err(|error| {
                let text = transport_text(&error).unwrap_or_else(|| error.to_string());
                nodes.report_unreachable(node, &text);
                ShardError::new(ErrorCode::NodeNotAvailable, text)
            })
        }
        .boxed()
    }

    fn is_closed(&self, connection: &OwnConnection) -> bool {
        connection.is_closed()
    }

    fn close(&self, connection: &OwnConnection) {
        connection.close();
    }

    fn check(&self, connection: OwnConnection) -> BoxFuture<'static, Result<bool>> {
        let limit = self.check_timeout;
        async move {
            let answer = connection.probe(limit).await;
            match answer.verdict {
                Verdict::Healthy | Verdict::Unknown if answer.is_from_before() => {
                    let (url, age) = (connection.url(), answer.age);
                    tracing::debug!(%url, ?age, "a health check was answered with what was known before");
                    Ok(false)
                }
                // A connection stands, and there is nobody to ask for more.
                Verdict::Healthy | Verdict::Unknown => Ok(true),
                Verdict::Unhealthy(why) => {
                    tracing::debug!(url = %connection.url(), why, "a health check failed");
                    Ok(false)
                }
            }
        }
        .boxed()
    }
}
