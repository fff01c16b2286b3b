//! Warnings that a broken peer could repeat for every request.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use pointsman_clock::MonoTime;

use crate::cache::{nanos, nanos_of};

const PAUSE: Duration = Duration::from_secs(10);

/// Lets one warning through every ten seconds.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    /// Nanoseconds since the start; 0: now.
    next: AtomicU64,
}

impl Limited {
    pub(crate) fn may_warn(&self, now: MonoTime) -> bool {
        let now = nanos(now);
        let next = self.next.load(Relaxed);
        let after = now.saturating_add(nanos_of(PAUSE));
        now >= next && self.next.compare_exchange(next, after, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_in_ten_seconds() {
        let limited = Limited::default();
        let at = |seconds| MonoTime::from_start(Duration::from_secs(seconds));
        let warned: Vec<u64> = (0..25).filter(|second| limited.may_warn(at(*second))).collect();
        assert_eq!(warned, [0, 10, 20]);
    }
}
