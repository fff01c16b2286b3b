//! The active coordinator.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use pointsman_ids::{Error, ErrorCode, near};
use pointsman_proto::coordinator::v1::{
    Collection, GetCollectionRequest, GetCoordinatorRequest, GetCoordinatorResponse, ListCollectionsRequest,
    ListNodesRequest, ListSegmentsRequest, Node, Segment, catalog_client::CatalogClient,
    cluster_client::ClusterClient, cluster_config_client::ClusterConfigClient,
    query_coord_client::QueryCoordClient, resource_groups_client::ResourceGroupsClient,
};
use tokio::time::{Instant, timeout};
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};

use super::{Endpoints, NO_COLLECTION};
use crate::{Exit, Failure, args::Target};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for coordinators to say whether they are active, and for others once one has said so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
const OTHERS_TIMEOUT: Duration = Duration::from_millis(250);
/// How long the lease of a coordinator that died may keep the others from taking over; its usual length is 3 s.
const TAKE_OVER: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Longest call; pushes of thousands of segments take the longest.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A page of segments with the statistics of many columns is well below.
const MAX_MESSAGE: usize = 64 << 20;

/// A connection to the active coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    channel: Channel,
    endpoints: Endpoints,
    /// What it says about itself.
    pub(crate) about: GetCoordinatorResponse,
}

/// The content of an answer, or the error that the coordinator sent.
///
/// # Errors
/// `service_unavailable` when the connection broke off instead.
pub(crate) fn answer<T>(result: Result<Response<T>, Status>) -> Result<T, Error> {
    result.map(Response::into_inner).map_err(|status| {
        // What our servers send has details; what the transport made up has a cause.
        match std::error::Error::source(&status).filter(|_| status.details().is_empty()) {
            None => pointsman_proto::error(&status),
            Some(cause) => Error::new(
                ErrorCode::ServiceUnavailable,
                format!(
                    "the connection to the coordinator broke off ({}); a change may have been made or not, and the same \
                     command again is safe",
                    pointsman_telemetry::chain(cause)
                ),
            ),
        }
    })
}

/// Whether the same call may succeed once a coordinator is active again.
pub(crate) fn is_passing(error: &Error) -> bool {
    error.is_retriable() || matches!(error.code(), ErrorCode::NodeNotAvailable | ErrorCode::DeadlineExceeded)
}

impl Coordinator {
    /// Finds the active coordinator among those that the command line names.
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        Self::find(&target.coordinators()?).await
    }

    /// Finds the active one again, which may be another by now.
    pub(crate) async fn find_again(&self) -> anyhow::Result<Self> {
        Self::look(&self.endpoints).await
    }

    /// Finds the active one; while others only stand by, it waits a while for one of them to take over.
    ///
    /// # Errors
    /// [`Failure::Unreachable`] when nobody answers, [`Failure::NotReady`] when all that answer stand by; each names
    /// the addresses.
    pub(crate) async fn find(endpoints: &Endpoints) -> anyhow::Result<Self> {
        let deadline = Instant::now() + TAKE_OVER;
        loop {
            match Self::look(endpoints).await {
                Err(error) if Exit::of(&error) == Exit::NotReady && Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                }
                found => return found,
            }
        }
    }

    /// Makes a call that may be made twice, again and again while no coordinator is active, for a while.
    ///
    /// # Errors
    /// Those of the call; at the end of patience, the last passing one.
    pub(crate) async fn persist<T>(&self, call: impl AsyncFn(&Self) -> Result<T, Error>) -> Result<T, Error> {
        let deadline = Instant::now() + TAKE_OVER;
        let mut coordinator = self.clone();
        loop {
            match call(&coordinator).await {
                Err(error) if is_passing(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                    coordinator = coordinator.find_again().await.unwrap_or(coordinator);
                }
                ended => return ended,
            }
        }
    }

    async fn look(endpoints: &Endpoints) -> anyhow::Result<Self> {
        let mut active: Option<Self> = None;
        let mut stand_by = Vec::new();
        let mut causes = Vec::new();
        // All at once: one that is cut off must not keep those waiting that are there.
        let ask = endpoints.urls.iter().map(|url| Self::ask_soon(url, endpoints));
        let mut asked: FuturesUnordered<_> = ask.collect();
        let mut patience = ANSWER_TIMEOUT * 2;
        while let Ok(Some((url, answer))) = timeout(patience, asked.next()).await {
            match answer {
                Ok(coordinator) if coordinator.about.active => {
                    patience = OTHERS_TIMEOUT;
                    // One that does not know yet that it was replaced has the lower epoch.
                    let newer = |best: &Self| best.about.epoch < coordinator.about.epoch;
                    if active.as_ref().is_none_or(newer) {
                        active = Some(coordinator);
                    }
                }
                Ok(_) => stand_by.push(url),
                Err(cause) => causes.push(format!("{url}: {cause}")),
            }
        }
        if let Some(active) = active {
            return Ok(active);
        }
        let named_by = &endpoints.named_by;
        if stand_by.is_empty() {
            let causes = causes.join("; ");
            let text = format!(
                "no coordinator answers ({causes}); addresses from {named_by}. Is the cluster up? `pointsman dev` starts one"
            );
            return Err(Failure::Unreachable(text).into());
        }
        let text = format!(
            "none of the coordinators from {named_by} is active; standing by: {}",
            stand_by.join(", ")
        );
        Err(Failure::NotReady(text).into())
    }

    /// Asks the one at this URL, which may hang.
    async fn ask_soon<'u>(url: &'u str, endpoints: &Endpoints) -> (&'u str, Result<Self, String>) {
        let silent = |_| Err(format!("no answer within {ANSWER_TIMEOUT:?}"));
        (url, timeout(ANSWER_TIMEOUT, Self::ask(url, endpoints)).await.unwrap_or_else(silent))
    }

    async fn ask(url: &str, endpoints: &Endpoints) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| "is not a URL".to_owned())?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .tcp_nodelay(true)
            .connect()
            .await
            .map_err(|error| pointsman_telemetry::chain(&error))?;
        let about = ClusterClient::new(channel.clone()).get_coordinator(GetCoordinatorRequest {}).await;
        let about = answer(about).map_err(|error| error.to_string())?;
        Ok(Self { channel, endpoints: endpoints.clone(), about })
    }

    /// Collections and segments.
    pub(crate) fn catalog(&self) -> CatalogClient<Channel> {
        CatalogClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// Loads.
    pub(crate) fn query_coord(&self) -> QueryCoordClient<Channel> {
        QueryCoordClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// Resource groups.
    pub(crate) fn resource_groups(&self) -> ResourceGroupsClient<Channel> {
        ResourceGroupsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// Processes.
    pub(crate) fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// Settings of the running cluster.
    pub(crate) fn config(&self) -> ClusterConfigClient<Channel> {
        ClusterConfigClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// Every node, by name.
    pub(crate) async fn nodes(&self) -> Result<Vec<Node>, Error> {
        Ok(answer(self.cluster().list_nodes(ListNodesRequest {}).await)?.nodes)
    }

    /// Every collection, by name.
    pub(crate) async fn collections(&self) -> Result<Vec<Collection>, Error> {
        Ok(answer(self.catalog().list_collections(ListCollectionsRequest {}).await)?.collections)
    }

    /// The collection of this name, if there is one.
    pub(crate) async fn collection_if_any(&self, name: &str) -> Result<Option<Collection>, Error> {
        let request = GetCollectionRequest { name: name.to_owned() };
        let call = async |active: &Self| answer(active.catalog().get_collection(request.clone()).await);
        match self.persist(call).await {
            Ok(answer) => Ok(answer.collection),
            Err(error) if error.code() == ErrorCode::CollectionNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The collection of this name.
    ///
    /// # Errors
    /// `collection_not_found` that lists names that are near.
    pub(crate) async fn collection(&self, name: &str) -> Result<Collection, Error> {
        match self.collection_if_any(name).await? {
            Some(collection) => Ok(collection),
            None => Err(self.unknown_collection(name).await),
        }
    }

    /// An error about an unknown collection, with names that are near. Others pass.
    pub(crate) async fn explain(&self, error: Error, name: &str) -> Error {
        if error.code() == ErrorCode::CollectionNotFound {
            self.unknown_collection(name).await
        } else {
            error
        }
    }

    async fn unknown_collection(&self, name: &str) -> Error {
        let known = self.collections().await.unwrap_or_default();
        let hint = near(name, known.iter().map(|collection| collection.name.as_str()), NO_COLLECTION);
        Error::new(ErrorCode::CollectionNotFound, format!("no collection '{name}'; {hint}"))
    }

    /// All segments of a collection, by name.
    pub(crate) async fn segments(&self, collection: &str) -> Result<Vec<Segment>, Error> {
        let mut segments: Vec<Segment> = Vec::new();
        loop {
            let after = segments.last().map(|segment| segment.name.clone()).unwrap_or_default();
            let request = ListSegmentsRequest { collection: collection.to_owned(), after, limit: 0 };
            let page = match answer(self.catalog().list_segments(request).await) {
                Ok(page) => page,
                Err(error) => return Err(self.explain(error, collection).await),
            };
            let more = page.more && !page.segments.is_empty();
            segments.extend(page.segments);
            if !more {
                return Ok(segments);
            }
        }
    }
}
