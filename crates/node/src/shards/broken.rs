//! Other nodes whose connections broke or that were silent: who is ill is not asked again before a probe finds it well.
//!
//! Without this every request would wait for itself until a node that hangs is given up, although another replica could
//! answer. A node is probed only after a request would have asked it, so whom nobody asks any more is left in peace.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use pointsman_channels::{Channels, Verdict};
use pointsman_ids::{Error, ErrorCode};
use pointsman_telemetry::spawn;
use tokio::time::Instant;
use url::Url;

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(2);
/// The shortest and the longest pause between probes of one node.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Nodes that are remembered; more are taken for well.
const REMEMBERED: usize = 1024;

/// What is held against other nodes, by address. Clones are one and the same.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    channels: Channels,
    nodes: Arc<Mutex<BTreeMap<Url, Doubt>>>,
}

#[derive(Debug)]
struct Doubt {
    /// What is told instead of asking; `None`: it may be well.
    error: Option<Error>,
    /// When the next probe may begin; `None`: one is under way.
    due: Option<Instant>,
    pause: Duration,
}

impl Broken {
    pub(super) fn new(channels: Channels) -> Self {
        Self { channels, nodes: Arc::default() }
    }

    /// Whether the node at an address may be asked.
    ///
    /// # Errors
    /// The error that ended a call to it, while no probe has found it well since.
    pub(super) fn check(&self, url: &Url) -> Result<(), Error> {
        let mut nodes = self.nodes.lock();
        let Some(doubt) = nodes.get_mut(url) else { return Ok(()) };
        let Some(error) = doubt.error.clone() else { return Ok(()) };
        if doubt.due.is_some_and(|due| due <= Instant::now()) {
            doubt.due = None;
            self.probe(url.clone());
        }
        Err(error)
    }

    /// A call ended with its connection, or there was none.
    pub(super) fn broke(&self, url: &Url, error: Error) {
        self.doubt(url, Some(error));
    }

    /// A call got no answer in its time, which may have been short: the node is probed before it is blamed.
    pub(super) fn was_silent(&self, url: &Url) {
        self.doubt(url, None);
    }

    fn doubt(&self, url: &Url, error: Option<Error>) {
        let mut nodes = self.nodes.lock();
        if let Some(doubt) = nodes.get_mut(url) {
            doubt.error = error.or(doubt.error.take());
            return;
        }
        if nodes.len() >= REMEMBERED {
            nodes.retain(|_, doubt| doubt.due.is_none());
        }
        if nodes.len() < REMEMBERED {
            nodes.insert(url.clone(), Doubt { error, due: None, pause: PAUSES.0 });
            self.probe(url.clone());
        }
    }

    fn probe(&self, url: Url) {
        let this = self.clone();
        spawn("probe of another node", async move {
            let answer = this.channels.probe(&url, PROBE).await;
            let mut nodes = this.nodes.lock();
            let Some(doubt) = nodes.get_mut(&url) else { return };
            if answer.reached && !answer.is_from_before() {
                nodes.remove(&url);
                return;
            }
            doubt.error.get_or_insert_with(|| {
                let why =
                    if let Verdict::Unhealthy(why) = answer.verdict { why } else { "nothing since".into() };
                Error::new(ErrorCode::NodeSilent, format!("it was silent, and then: {why}"))
            });
            doubt.due = Some(Instant::now() + doubt.pause);
            doubt.pause = (doubt.pause * 2).min(PAUSES.1);
        });
    }
}
