//! The shard leaders as the active coordinator tells them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use pointsman_channels::{Channels, transport_text};
use pointsman_ids::{CollectionId, ErrorCode};
use pointsman_proto::coordinator::v1::{
    GetShardLeadersRequest, ShardLeaders, query_coord_client::QueryCoordClient,
};
use pointsman_shard_client::{Coordinator, Result, ShardError, ShardListing};
use tokio::time::timeout;
use tonic::Status;
use url::Url;

use super::{failure::told, nodes::Nodes};
use crate::metrics;

/// How long one coordinator is waited for. All of them together are within the limit of a refresh, 10 s.
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(9);

/// The largest answer that is taken: some 100 bytes per leader.
const MAX_MESSAGE: usize = 256 << 20;

/// The coordinators of the local cluster, of which one is active.
#[derive(Debug)]
pub(crate) struct Coordinators {
    urls: Vec<Url>,
    channels: Channels,
    nodes: Arc<Nodes>,
    /// Place of the one that answered last.
    active: AtomicUsize,
}

/// Why one coordinator did not answer.
struct NoAnswer {
    error: ShardError,
    /// Another one may: this one stands by, or is away.
    elsewhere: bool,
}

impl Coordinators {
    pub(super) fn new(urls: Vec<Url>, channels: Channels, nodes: Arc<Nodes>) -> Self {
        Self { urls, channels, nodes, active: AtomicUsize::new(0) }
    }

    async fn leaders(&self, collection: CollectionId) -> Result<Vec<ShardListing>> {
        let first = self.active.load(Relaxed);
        let mut refused: Option<ShardError> = None;
        for step in 0..self.urls.len() {
            let at = (first + step) % self.urls.len();
            match self.ask(&self.urls[at], collection).await {
                Ok(listings) => {
                    self.active.store(at, Relaxed);
                    return Ok(listings);
                }
                Err(NoAnswer { error, elsewhere: false }) => {
                    self.active.store(at, Relaxed);
                    return Err(error);
                }
                // What a coordinator said tells more than that another one cannot be reached.
                Err(NoAnswer { error, .. }) => {
                    if refused.is_none() || error.code() == ErrorCode::ServiceNotReady {
                        refused = Some(error);
                    }
                }
            }
        }
        let error = refused.unwrap_or_else(|| unavailable("no coordinator is named"));
        // Queries route by the feed's last word while the coordinator is away, and so do requests by shard.
        let listings = self.nodes.leaders_of_feed(collection).ok_or_else(|| error.clone())?;
        tracing::debug!(%collection, %error, "no coordinator tells shard leaders; those of the feed are taken");
        metrics::leaders_of_feed();
        Ok(listings)
    }

    async fn ask(&self, url: &Url, collection: CollectionId) -> Result<Vec<ShardListing>, NoAnswer> {
        let mut client =
            QueryCoordClient::new(self.channels.channel(url)).max_decoding_message_size(MAX_MESSAGE);
        let request = GetShardLeadersRequest { collection_id: collection.0, with_unserviceable: true };
        let patience = self.patience();
        match timeout(patience, client.get_shard_leaders(request)).await {
            Ok(Ok(response)) => Ok(response.into_inner().shards.into_iter().map(listing).collect()),
            Ok(Err(status)) => Err(no_answer(url, &status)),
            Err(_) => {
                let error = unavailable(format_args!("coordinator {url} did not answer within {patience:?}"));
                Err(NoAnswer { error, elsewhere: true })
            }
        }
    }

    fn patience(&self) -> Duration {
        let count = u32::try_from(self.urls.len()).unwrap_or(u32::MAX).max(1);
        PATIENCE.min(PATIENCE_WITH_ALL / count)
    }
}

impl Coordinator for Coordinators {
    fn shard_leaders(&self, collection: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
        self.leaders(collection).boxed()
    }
}

fn listing(leaders: ShardLeaders) -> ShardListing {
    let ShardLeaders { shard, node_ids, node_addrs, serviceable, resource_groups } = leaders;
    ShardListing { shard, node_ids, node_addrs, serviceable, resource_groups }
}

/// Only what a coordinator said itself ends the search for one that answers.
fn no_answer(url: &Url, status: &Status) -> NoAnswer {
    match pointsman_proto::details(status) {
        Some(details) => {
            let error = told(details);
            NoAnswer { elsewhere: error.code() == ErrorCode::ServiceNotReady, error }
        }
        None => {
            let text = transport_text(status).unwrap_or_else(|| status.message().to_owned());
            let error = unavailable(format_args!("coordinator {url} did not answer: {text}"));
            NoAnswer { error, elsewhere: true }
        }
    }
}

fn unavailable(what: impl std::fmt::Display) -> ShardError {
    ShardError::new(ErrorCode::ServiceUnavailable, what.to_string())
}
