//! How long to wait before the next try.

use std::time::Duration;

use rand::Rng;

/// Pauses that double with every failure up to a longest one. Half of each pause is random, so that nodes that lost one
/// coordinator do not all come back at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next pause.
    pub(crate) fn pause(&mut self, rng: &mut impl Rng) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause.mul_f64(rng.random_range(0.5..=1.0))
    }

    /// It went well: begins with the first pause again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_begin_anew() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for longest in [100, 200, 400, 800, 1000, 1000] {
            let pause = backoff.pause(&mut rng);
            let longest = Duration::from_millis(longest);
            assert!(pause <= longest && pause >= longest / 2, "{pause:?} of {longest:?}");
        }
        backoff.reset();
        assert!(backoff.pause(&mut rng) <= Duration::from_millis(100));
    }
}
