//! Tells a coordinator which version is routed by.

use std::time::Duration;

use pointsman_channels::Channel;
use pointsman_ids::{Error, FeedVersion};
use pointsman_proto::broker::v1::{AcknowledgeRequest, routing_feed_client::RoutingFeedClient};
use tokio::{sync::watch, time::timeout};

use crate::watch::{STALLED_AFTER, away};

/// Pause between two acknowledgements while nothing changes: they tell the coordinator that the broker lives.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);

/// Tells the coordinator what is routed by: at once when that changes, and every now and then. Returns when it cannot.
pub(crate) async fn acknowledge(
    mut client: RoutingFeedClient<Channel>,
    broker: String,
    mut applied: watch::Receiver<(u64, FeedVersion)>,
) -> Error {
    loop {
        if let Ok(Err(_)) = timeout(ACKNOWLEDGE_EVERY, applied.changed()).await {
            return away("the watch has ended");
        }
        let (watch, FeedVersion(version)) = *applied.borrow_and_update();
        // A watch without a number is one of a coordinator that expects nothing, or has not spoken yet.
        if watch == 0 {
            continue;
        }
        let request = AcknowledgeRequest { broker: broker.clone(), watch, version };
        match timeout(STALLED_AFTER, client.acknowledge(request)).await {
            Ok(Ok(_)) => {}
            Ok(Err(status)) => return pointsman_proto::error(&status),
            Err(_) => return away(format!("no answer within {STALLED_AFTER:?}")),
        }
    }
}
