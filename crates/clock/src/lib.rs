//! Time as values. Decisions get `now` as an argument; only drivers hold a [`Clock`].
//!
//! ```
//! use std::time::Duration;
//! use pointsman_clock::{Clock, ManualClock};
//!
//! let clock = ManualClock::default();
//! let start = clock.mono();
//! clock.advance(Duration::from_secs(5));
//! assert_eq!(clock.mono() - start, Duration::from_secs(5));
//! ```

use std::{
    fmt,
    ops::{Add, Sub},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A point on the monotonic time line of one process. Zero is the clock's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(Duration);

impl MonoTime {
    /// The point that lies `since_start` after the clock's start.
    pub fn from_start(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long after the clock's start this is.
    pub fn since_start(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for MonoTime {
    type Output = Self;
    /// Saturates at the end of time.
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

impl Sub for MonoTime {
    type Output = Duration;
    /// Zero when `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Wall-clock time: nanoseconds since the Unix epoch. For people and for records, never for measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

/// Where drivers read time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic time.
    fn mono(&self) -> MonoTime;
    /// Wall-clock time.
    fn wall(&self) -> WallTime;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn mono(&self) -> MonoTime {
        MonoTime(self.start.elapsed())
    }

    fn wall(&self) -> WallTime {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A clock that moves only when told to. Both times start at zero.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn mono(&self) -> MonoTime {
        MonoTime(Duration::from_nanos(self.nanos.load(Ordering::SeqCst)))
    }

    fn wall(&self) -> WallTime {
        WallTime(self.nanos.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let end = MonoTime::from_start(Duration::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(MonoTime::default() - end, Duration::ZERO);
    }

    #[test]
    fn the_system_clock_runs_forward() {
        let clock = SystemClock::default();
        let first = clock.mono();
        assert!(clock.mono() >= first);
        assert!(clock.wall() > WallTime(0));
    }
}
