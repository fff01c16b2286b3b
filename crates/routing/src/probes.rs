//! Carries out the detector's probes, side by side but not all at once.

use std::{sync::Arc, time::Duration};

use pointsman_channels::{Channels, Verdict};
use pointsman_failure_detector::{Event, Outcome, PROBES_SIDE_BY_SIDE, Probe};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::RoutingView;

/// Probes under way.
#[derive(Debug)]
pub(crate) struct Probes {
    channels: Channels,
    timeout: Duration,
    places: Arc<Semaphore>,
    running: JoinSet<Event>,
}

impl Probes {
    pub(crate) fn new(channels: Channels, timeout: Duration) -> Self {
        Self {
            channels,
            timeout,
            places: Arc::new(Semaphore::new(PROBES_SIDE_BY_SIDE)),
            running: JoinSet::new(),
        }
    }

    /// Starts a probe at the address that the node has now.
    pub(crate) fn start(&mut self, started: Probe, view: &RoutingView) {
        let url = view.answerer(started.key()).map(|node| node.url);
        let (channels, timeout, places) = (self.channels.clone(), self.timeout, self.places.clone());
        self.running.spawn(async move {
            let outcome = match url {
                None => Outcome::NotEnabled,
                Some(url) => {
                    let _place = places.acquire_owned().await;
                    // In a task of its own, so that a panic is an outcome like any other.
                    let probe = tokio::spawn(async move { channels.probe(&url, timeout).await });
                    probe.await.map_or_else(|error| Outcome::Error(error.to_string()), outcome)
                }
            };
            Event::Probed { probe: started, outcome }
        });
    }

    /// The next probe that has ended; never, while none runs.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            match self.running.join_next().await {
                Some(Ok(event)) => return event,
                // Only a runtime that is going down ends such a task.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Healthy => Outcome::Healthy,
        Verdict::Unhealthy(evidence) => Outcome::Unhealthy(evidence),
        Verdict::Unknown => Outcome::Unknown,
    }
}
