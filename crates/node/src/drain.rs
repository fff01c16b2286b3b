//! When a node that was told to stop may go.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{cache::Cache, in_flight::InFlight, session::Standing};

/// How often the conditions are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long no call may have run. A query opens calls one after the other, with short pauses between them.
const QUIET: Duration = Duration::from_millis(200);

/// Tells all parts of a node that it drains, and until when it may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining {
    begun: CancellationToken,
    end: Arc<OnceLock<Instant>>,
}

impl Draining {
    /// Begins to drain; when that has to be over.
    pub(crate) fn begin(&self, grace: Duration) -> Instant {
        let end = *self.end.get_or_init(|| Instant::now() + grace);
        self.begun.cancel();
        end
    }

    /// Cancelled when it begins.
    pub(crate) fn begun(&self) -> CancellationToken {
        self.begun.clone()
    }

    /// What is left of the grace; none before it begins.
    pub(crate) fn remaining(&self) -> Duration {
        self.end.get().map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Waits until the coordinator says that the node may leave, at most until `end`. False at once when the coordinator
/// never says so, and after `patience` when there is none.
pub(crate) async fn told_to_leave(
    leave: &CancellationToken,
    standing: watch::Receiver<Standing>,
    patience: Duration,
    end: Instant,
) -> bool {
    tokio::select! {
        biased;
        () = leave.cancelled() => true,
        () = nobody_tells(standing, patience) => false,
        () = sleep_until(end) => false,
    }
}

async fn nobody_tells(mut standing: watch::Receiver<Standing>, patience: Duration) {
    loop {
        let now = standing.borrow_and_update().clone();
        let stands = if now.coordinator.is_none() {
            let session = standing.wait_for(|standing| standing.coordinator.is_some());
            matches!(timeout(patience, session).await, Ok(Ok(_)))
        } else if now.tells_leave {
            standing.wait_for(|standing| standing.coordinator.is_none()).await.is_ok()
        } else {
            false
        };
        if !stands {
            return;
        }
    }
}

/// Waits until no call has run for a while, at most until `end`. Says whether that was so.
pub(crate) async fn quiet(in_flight: &InFlight, end: Instant) -> bool {
    timeout_at(end, until_quiet(in_flight, || false)).await.is_ok()
}

/// For a node whom nobody tells when it may leave: waits until the coordinator wants nothing of it any more, or until no
/// call has run for a while; at least for `settle`, so that brokers hear of it, and at most until `end`. Says whether
/// that was so.
pub(crate) async fn idle(cache: &Cache, in_flight: &InFlight, settle: Duration, end: Instant) -> bool {
    let waiting = async {
        sleep(settle).await;
        until_quiet(in_flight, || cache.wants_nothing()).await;
    };
    timeout_at(end, waiting).await.is_ok()
}

/// Until no call runs, and none has for a while unless `enough` says that this need not be waited for.
async fn until_quiet(in_flight: &InFlight, enough: impl Fn() -> bool) {
    let mut quiet_since = Instant::now();
    loop {
        if in_flight.count() > 0 {
            quiet_since = Instant::now();
        } else if enough() || quiet_since.elapsed() >= QUIET {
            return;
        }
        sleep(LOOK).await;
    }
}
