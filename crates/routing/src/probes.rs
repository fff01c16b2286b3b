//! Carries out the detector's probes, side by side but not all at once.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use pointsman_channels::{Answer, Channels, Verdict};
use pointsman_failure_detector::{Event, Outcome, PROBES_SIDE_BY_SIDE, Probe};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::RoutingView;

/// Probes under way.
#[derive(Debug)]
pub(crate) struct Probes {
    channels: Channels,
    timeout: Duration,
    view: Arc<ArcSwap<RoutingView>>,
    places: Arc<Semaphore>,
    running: JoinSet<Event>,
}

impl Probes {
    pub(crate) fn new(channels: Channels, timeout: Duration, view: Arc<ArcSwap<RoutingView>>) -> Self {
        let places = Arc::new(Semaphore::new(PROBES_SIDE_BY_SIDE));
        Self { channels, timeout, view, places, running: JoinSet::new() }
    }

    /// Starts a probe. When its turn comes it goes to the address that the node has then.
    pub(crate) fn start(&mut self, probe: Probe) {
        let (channels, timeout) = (self.channels.clone(), self.timeout);
        let (view, places) = (Arc::clone(&self.view), Arc::clone(&self.places));
        self.running.spawn(async move {
            let _place = places.acquire_owned().await;
            let answerer = view.load().answerer(probe.key()).cloned();
            let outcome = match answerer {
                None => Outcome::NotEnabled,
                Some(node) => {
                    // In a task of its own, so that a panic is an outcome like any other.
                    let asked = tokio::spawn(async move { channels.probe(&node.url, timeout).await });
                    asked.await.map_or_else(|error| Outcome::Error(error.to_string()), outcome)
                }
            };
            Event::Probed { probe, outcome }
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

fn outcome(answer: Answer) -> Outcome {
    let outcome = match answer.verdict {
        Verdict::Healthy => Outcome::Healthy,
        Verdict::Unhealthy(evidence) => Outcome::Unhealthy(evidence),
        Verdict::Unknown => Outcome::Unknown,
    };
    outcome.aged(answer.age, answer.took)
}
