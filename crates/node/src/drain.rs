//! When a node that was told to stop may go.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::{cache::Cache, in_flight::InFlight};

/// How often the conditions are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long no call may have run. A query opens calls one after the other, with short pauses between them.
const QUIET: Duration = Duration::from_millis(200);

/// Waits until the coordinator wants nothing of this node any more, or until no call has run for a while; at least for
/// `settle`, so that brokers hear of it, and at most for `grace`. Says whether calls still ran at the end.
pub(crate) async fn drained(cache: &Cache, in_flight: &InFlight, settle: Duration, grace: Duration) -> bool {
    let end = Instant::now() + grace;
    let waiting = async {
        sleep(settle).await;
        let mut quiet_since = Instant::now();
        loop {
            if in_flight.count() > 0 {
                quiet_since = Instant::now();
            } else if cache.wants_nothing() || quiet_since.elapsed() >= QUIET {
                return;
            }
            sleep(LOOK).await;
        }
    };
    timeout_at(end, waiting).await.is_ok()
}
