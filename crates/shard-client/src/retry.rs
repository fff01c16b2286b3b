//! When a failed try is repeated, and which of several errors is told.

use std::time::Duration;

use pointsman_clock::MonoTime;

use crate::{Result, ShardError};

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Until when a request goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The caller's deadline.
    pub(crate) deadline: Option<MonoTime>,
    /// From here on nothing is tried again.
    pub(crate) retries: Option<MonoTime>,
}

impl Limits {
    /// Those of what a retry has to find out before it asks anybody.
    pub(crate) fn of_a_retry(self) -> Self {
        let deadline = [self.deadline, self.retries].into_iter().flatten().min();
        Self { deadline, ..self }
    }
}

/// The tries of one piece of work. Pauses have no jitter.
#[derive(Clone, Debug)]
pub struct Retry {
    attempts: u64,
    deadline: Option<MonoTime>,
    until: Option<MonoTime>,
    failed: u64,
    pause: Duration,
    /// The newest error that says more than that the caller has gone or had no time.
    earlier: Option<ShardError>,
}

impl Retry {
    /// Up to so many runs, of which the first is about to begin.
    ///
    /// # Errors
    /// `deadline_exceeded` when there is no time left for it.
    pub fn new(attempts: u64, deadline: Option<MonoTime>, now: MonoTime) -> Result<Self> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(ShardError::deadline("no time was left to begin"));
        }
        Ok(Self { attempts, deadline, until: None, failed: 0, pause: FIRST_PAUSE, earlier: None })
    }

    /// The same, where no run begins at this time or later, however many are left. What the caller is told in the end says
    /// then when trying again makes sense: after the pause that would have come next.
    #[must_use]
    pub fn until(self, until: Option<MonoTime>) -> Self {
        Self { until, ..self }
    }

    /// Whether another run follows a failure, and after which pause. `is_final`: the run called its error final.
    ///
    /// # Errors
    /// What the caller is told when no run follows: this error, or an earlier one when this one only says that the
    /// caller went away or that time is over.
    pub fn failed(&mut self, error: ShardError, is_final: bool, now: MonoTime) -> Result<Duration> {
        self.failed += 1;
        if is_final || self.is_too_late(now) {
            let error = self.what_says_more(error);
            return Err(self.with_hint(error));
        }
        if self.failed >= self.attempts {
            return Err(self.with_hint(error));
        }
        if !error.is_callers() {
            self.earlier = Some(error);
        }
        let pause = self.pause;
        self.pause = LONGEST_PAUSE.min(pause * 2);
        Ok(pause)
    }

    /// Runs that have failed.
    pub fn failures(&self) -> u64 {
        self.failed
    }

    fn is_too_late(&self, now: MonoTime) -> bool {
        [self.deadline, self.until].into_iter().flatten().any(|end| end - now <= self.pause)
    }

    fn with_hint(&self, error: ShardError) -> ShardError {
        if self.until.is_some() { error.retry_after_at_least(self.pause) } else { error }
    }

    fn what_says_more(&mut self, error: ShardError) -> ShardError {
        if error.is_callers() && !error.is_input() { self.earlier.take().unwrap_or(error) } else { error }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{ErrorClass, ErrorCode};

    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_start(Duration::from_millis(ms))
    }

    fn error(code: ErrorCode) -> ShardError {
        ShardError::new(code, "it")
    }

    #[test]
    fn pauses_double_up_to_three_seconds_and_none_follows_the_last_run() {
        let mut retry = Retry::new(10, None, at(0)).unwrap();
        let mut pauses = Vec::new();
        while let Ok(pause) = retry.failed(error(ErrorCode::ServiceNotReady), false, at(0)) {
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3000, 3000, 3000, 3000, 3000]);
        assert_eq!(pauses.iter().sum::<u128>(), 18_000);
        assert_eq!(retry.failures(), 10);
    }

    #[test]
    fn exactly_as_long_as_the_pause_is_too_short() {
        for (deadline, goes_on) in [(200, false), (201, true)] {
            let mut retry = Retry::new(5, Some(at(deadline)), at(0)).unwrap();
            assert_eq!(retry.failed(error(ErrorCode::ServiceNotReady), false, at(0)).is_ok(), goes_on);
        }
        assert_eq!(Retry::new(5, Some(at(7)), at(7)).unwrap_err().code(), ErrorCode::DeadlineExceeded);
        assert!(Retry::new(5, Some(at(7)), at(6)).is_ok());
    }

    #[test]
    fn an_earlier_error_says_more_than_the_end_of_time() {
        let told = |runs: &[(ErrorCode, bool)]| {
            let mut retry = Retry::new(9, None, at(0)).unwrap();
            let mut outcomes =
                runs.iter().filter_map(|(code, last)| retry.failed(error(*code), *last, at(0)).err());
            outcomes.next().unwrap().code()
        };
        use ErrorCode::{Cancelled, DeadlineExceeded, NodeOffline, ServiceNotReady};
        assert_eq!(told(&[(ServiceNotReady, false), (DeadlineExceeded, true)]), ServiceNotReady);
        assert_eq!(told(&[(ServiceNotReady, false), (Cancelled, false), (Cancelled, true)]), ServiceNotReady);
        assert_eq!(told(&[(ServiceNotReady, false), (NodeOffline, true)]), NodeOffline);
        assert_eq!(told(&[(DeadlineExceeded, true)]), DeadlineExceeded);
        // The last of all attempts is told as it is.
        let mut retry = Retry::new(2, None, at(0)).unwrap();
        retry.failed(error(ServiceNotReady), false, at(0)).unwrap();
        assert_eq!(retry.failed(error(DeadlineExceeded), false, at(0)).unwrap_err().code(), DeadlineExceeded);
    }

    #[test]
    fn an_input_error_is_told_as_it_is() {
        let mut retry = Retry::new(9, None, at(0)).unwrap();
        retry.failed(error(ErrorCode::ServiceNotReady), false, at(0)).unwrap();
        let wrong = error(ErrorCode::DeadlineExceeded).with_class(ErrorClass::Input);
        assert_eq!(retry.failed(wrong.clone(), true, at(0)).unwrap_err(), wrong);
    }

    #[test]
    fn a_limit_on_their_time_ends_retries_as_a_deadline_does_and_says_when_to_come_back() {
        for (until, goes_on) in [(200, false), (201, true)] {
            let mut retry = Retry::new(5, None, at(0)).unwrap().until(Some(at(until)));
            assert_eq!(retry.failed(error(ErrorCode::ServiceNotReady), false, at(0)).is_ok(), goes_on);
        }
        let hint = |until: Option<u64>, code| {
            let mut retry = Retry::new(2, None, at(0)).unwrap().until(until.map(at));
            retry.failed(error(code), false, at(0)).unwrap();
            retry.failed(error(code), false, at(0)).unwrap_err().retry_after()
        };
        assert_eq!(hint(Some(9_000), ErrorCode::ServiceNotReady), Some(Duration::from_millis(400)));
        assert_eq!(hint(None, ErrorCode::ServiceNotReady), None, "switched off");
        assert_eq!(hint(Some(9_000), ErrorCode::NodeOffline), None, "it makes no sense to come back");
    }
}
