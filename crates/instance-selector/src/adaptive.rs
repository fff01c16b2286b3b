//! What measured figures of a node are worth in the ranking.

use std::time::Duration;

use crate::Standing;

/// What nodes are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdaptiveKind {
    /// Nothing: adaptive selection is off.
    #[default]
    None,
    /// The average of their latency.
    Latency,
    /// Their requests in flight.
    InFlight,
    /// Both.
    Hybrid,
}

/// How statistics are taken, and what they are worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSettings {
    /// What nodes are ranked by.
    pub kind: AdaptiveKind,
    /// Weight of a new value in an average, in [0, 1].
    pub alpha: f64,
    /// An average that has not been fed for longer takes the mean of the other nodes; zero: never.
    pub decay_window: Duration,
    /// For how long after the creation of a node's statistics values are ignored.
    pub warmup: Duration,
    /// Where averages begin.
    pub initial: f64,
    /// A node whose latency was fed fewer times is on trial.
    pub trial_samples: u64,
    /// Requests that may be under way to a node on trial before it comes after all others.
    pub trial_in_flight: u64,
    /// Exponent of the load in the score of [`AdaptiveKind::Hybrid`].
    pub hybrid_exponent: f64,
    /// What is added to the load in that score.
    pub hybrid_floor: f64,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            kind: AdaptiveKind::None,
            alpha: 0.666,
            decay_window: Duration::from_secs(10),
            warmup: Duration::ZERO,
            initial: 1.0,
            trial_samples: 5,
            trial_in_flight: 2,
            hybrid_exponent: 3.0,
            hybrid_floor: 0.0,
        }
    }
}

impl AdaptiveSettings {
    /// Whether nodes are ranked at all.
    pub fn is_on(&self) -> bool {
        self.kind != AdaptiveKind::None
    }

    /// What a node's figures mean for the ranking; `None`: it has none yet. Selectors and those who explain a choice
    /// both ask here.
    pub fn standing(&self, measured: Option<&Measured>) -> Standing {
        match measured {
            None => Standing::Unmeasured,
            Some(measured) if measured.samples >= self.trial_samples => {
                Standing::Measured(self.score(measured))
            }
            Some(measured) if measured.in_flight < self.trial_in_flight => Standing::Unmeasured,
            Some(_) => Standing::TrialFull,
        }
    }

    /// The score of a node; lower is better. Zero while adaptive selection is off.
    pub fn score(&self, measured: &Measured) -> f64 {
        match self.kind {
            AdaptiveKind::None => 0.0,
            AdaptiveKind::Latency => measured.latency_ms,
            AdaptiveKind::InFlight => float(measured.in_flight),
            AdaptiveKind::Hybrid => {
                let load = self.hybrid_floor + float(measured.in_flight) + measured.in_flight_average;
                load.powf(self.hybrid_exponent) * measured.latency_ms
            }
        }
    }
}

/// The figures of one node at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Requests under way.
    pub in_flight: u64,
    /// Moving average of that number, taken at each sending.
    pub in_flight_average: f64,
    /// Moving average of the latency, in milliseconds.
    pub latency_ms: f64,
    /// How often the latency was fed.
    pub samples: u64,
}

impl Measured {
    /// Figures that somebody states instead of measuring them: what is `None` stays as it was `before`, at first no
    /// request and 1 ms. The average in flight is the number in flight, and the node has been measured often enough.
    pub fn observed(before: Option<Self>, in_flight: Option<u64>, latency_ms: Option<f64>) -> Self {
        let in_flight = in_flight.or(before.map(|before| before.in_flight)).unwrap_or(0);
        let latency_ms = latency_ms.or(before.map(|before| before.latency_ms)).unwrap_or(1.0);
        Self { in_flight, in_flight_average: float(in_flight), latency_ms, samples: u64::MAX }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are small")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}
