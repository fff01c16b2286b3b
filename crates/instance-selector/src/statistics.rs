//! What is measured of the nodes under their requests.
//!
//! [`NodeStatistics`] of one node are fed by every request to it, whatever asked: [`NodeStatistics::sent`] gives a
//! guard, and its end is counted exactly once, also when nobody ends it. No lock is taken. [`Measured`] is what they
//! say at one moment, and all that a ranking knows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{AdaptiveSettings, Measured, adaptive::float};

/// How a request ended, as far as statistics care. A fast failure must not look like a fast node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The node answered completely after so long.
    Answered(Duration),
    /// It failed: broke off, was silent, had too many requests, or answered with an error of its own.
    Failed {
        /// How long that took.
        took: Duration,
        /// How long the call was allowed to take as a whole.
        allowance: Duration,
    },
    /// With an error of the query, or nobody wanted the answer any more. Says nothing about the node.
    NoEvidence,
}

impl Ended {
    /// The latency that this counts as.
    fn latency(self) -> Option<Duration> {
        match self {
            Self::Answered(took) => Some(took),
            Self::Failed { took, allowance } => Some(took.max(allowance)),
            Self::NoEvidence => None,
        }
    }
}

/// The statistics of one process of a node, from its first request on. Times are since the broker's start.
#[derive(Debug)]
pub struct NodeStatistics {
    settings: AdaptiveSettings,
    created: Duration,
    in_flight: AtomicU64,
    in_flight_average: Average,
    latency: Average,
}

impl NodeStatistics {
    /// Of a node that gets its first request now.
    pub fn new(settings: AdaptiveSettings, now: Duration) -> Self {
        let average = || Average::new(settings.initial);
        let in_flight = AtomicU64::new(0);
        Self { settings, created: now, in_flight, in_flight_average: average(), latency: average() }
    }

    /// Counts a request that is being sent, until the guard is ended or dropped.
    pub fn sent(self: &Arc<Self>, now: Duration) -> InFlight {
        let before = self.in_flight.fetch_add(1, Relaxed);
        if self.is_warm(now) {
            self.in_flight_average.feed(float(before.saturating_add(1)), self.settings.alpha, now);
        }
        InFlight { node: Arc::clone(self) }
    }

    /// The figures of the moment. They are read one by one, beside requests that change them.
    pub fn measured(&self) -> Measured {
        Measured {
            in_flight: self.in_flight.load(Relaxed),
            in_flight_average: self.in_flight_average.value(),
            latency_ms: self.latency.value(),
            samples: self.latency.feeds.load(Relaxed),
        }
    }

    /// Puts other figures in their place, for scenarios. Requests under way are not expected meanwhile.
    pub fn set(&self, measured: Measured) {
        self.in_flight.store(measured.in_flight, Relaxed);
        self.in_flight_average.set(measured.in_flight_average, measured.samples);
        self.latency.set(measured.latency_ms, measured.samples);
    }

    fn is_warm(&self, now: Duration) -> bool {
        now.saturating_sub(self.created) >= self.settings.warmup
    }

    /// Feeds the averages that were fed before, but not for a whole window, with what the others have.
    fn tick(&self, others: [f64; 2], now: Duration) {
        let Self { settings, .. } = self;
        let averages = [&self.in_flight_average, &self.latency];
        for (average, others) in averages.into_iter().zip(others) {
            if average.is_measured() && now.saturating_sub(average.fed_last()) > settings.decay_window {
                average.feed(others, settings.alpha, now);
            }
        }
    }
}

/// One tick of the decay window over all nodes, to be called once per window: a slow node that is left alone drifts
/// to the ordinary one, not to the fastest. All means are taken before anything is fed, so that the order of the nodes
/// does not matter. Where no other node was measured the mean is 0.
pub fn decay(nodes: &[Arc<NodeStatistics>], now: Duration) {
    let in_flight: Vec<Option<f64>> = nodes.iter().map(|node| node.in_flight_average.measured()).collect();
    let latency: Vec<Option<f64>> = nodes.iter().map(|node| node.latency.measured()).collect();
    let means = (0..nodes.len()).map(|at| [mean_of_others(&in_flight, at), mean_of_others(&latency, at)]);
    for (node, others) in nodes.iter().zip(means) {
        if !node.settings.decay_window.is_zero() {
            node.tick(others, now);
        }
    }
}

/// The mean of the averages that were fed, the one at `at` left out.
fn mean_of_others(averages: &[Option<f64>], at: usize) -> f64 {
    let others = averages.iter().enumerate().filter(|(other, _)| *other != at);
    let (sum, count) = others
        .filter_map(|(_, average)| *average)
        .fold((0.0, 0), |(sum, count), average| (sum + average, count + 1));
    if count == 0 { 0.0 } else { sum / float(count) }
}

/// A request under way. Dropped without a word it counts as cancelled: no count is ever lost.
#[derive(Debug)]
#[must_use = "dropping it ends the request in the statistics"]
pub struct InFlight {
    node: Arc<NodeStatistics>,
}

impl InFlight {
    /// The request has ended.
    pub fn ended(self, ended: Ended, now: Duration) {
        let node = &self.node;
        if let (Some(latency), true) = (ended.latency(), node.is_warm(now)) {
            node.latency.feed(latency.as_secs_f64() * 1000.0, node.settings.alpha, now);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Below zero only where `set` came between.
        let less = |in_flight: u64| in_flight.checked_sub(1);
        self.node.in_flight.fetch_update(Relaxed, Relaxed, less).ok();
    }
}

/// A moving average. Value and feeds are not changed together; readers do not mind.
#[derive(Debug)]
struct Average {
    /// The bits of the value.
    bits: AtomicU64,
    feeds: AtomicU64,
    /// When it was fed last, nanoseconds since the broker's start.
    fed_last: AtomicU64,
}

impl Average {
    fn new(initial: f64) -> Self {
        Self {
            bits: AtomicU64::new(initial.to_bits()),
            feeds: AtomicU64::new(0),
            fed_last: AtomicU64::new(0),
        }
    }

    fn value(&self) -> f64 {
        f64::from_bits(self.bits.load(Relaxed))
    }

    fn is_measured(&self) -> bool {
        self.feeds.load(Relaxed) > 0
    }

    /// The value, if it was ever fed.
    fn measured(&self) -> Option<f64> {
        self.is_measured().then(|| self.value())
    }

    fn fed_last(&self) -> Duration {
        Duration::from_nanos(self.fed_last.load(Relaxed))
    }

    fn feed(&self, value: f64, alpha: f64, now: Duration) {
        let mixed = |bits: u64| {
            let old = f64::from_bits(bits);
            // Rounding must not lead out of what was fed.
            let mixed = (value * alpha + old * (1.0 - alpha)).clamp(old.min(value), old.max(value));
            Some(mixed.to_bits())
        };
        self.bits.fetch_update(Relaxed, Relaxed, mixed).ok();
        self.feeds.fetch_update(Relaxed, Relaxed, |feeds| feeds.checked_add(1)).ok();
        self.fed_last.fetch_max(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn set(&self, value: f64, feeds: u64) {
        self.bits.store(value.to_bits(), Relaxed);
        self.feeds.store(feeds, Relaxed);
    }
}
