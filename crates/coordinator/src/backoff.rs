//! Pauses between tries of something that fails, growing and with jitter.

use std::time::Duration;

use pointsman_clock::MonoTime;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// Counts failures in a row and says how long to wait.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    until: MonoTime,
    random: StdRng,
}

impl Backoff {
    /// Nothing has failed yet. The seed decides the jitter.
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, until: MonoTime::default(), random: StdRng::seed_from_u64(seed) }
    }

    /// Whether the pause is over.
    pub(crate) fn is_over(&self, now: MonoTime) -> bool {
        now >= self.until
    }

    /// Whether the last try failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// It worked.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// It failed; how long to wait: twice as long as before, between half of that and all of it.
    pub(crate) fn fail(&mut self, now: MonoTime) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let pause = pause.mul_f64(self.random.random_range(0.5..=1.0));
        self.until = now + pause;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew() {
        let mut backoff = Backoff::new(1);
        let pauses: Vec<Duration> = (0..40).map(|_| backoff.fail(MonoTime::default())).collect();
        assert!(pauses[0] <= FIRST && pauses[0] >= FIRST / 2);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
        assert!(pauses[39] >= LONGEST / 2);
        assert!(!backoff.is_over(MonoTime::default()));
        backoff.reset();
        assert!(backoff.fail(MonoTime::default()) <= FIRST);
    }
}
