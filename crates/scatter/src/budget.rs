//! What all queries of a broker may spend on retries together.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Seconds that are looked back.
const WINDOW: usize = 10;

/// Retries that are granted in a window however little is sent: a quiet broker must be able to help itself.
const FLOOR: u64 = 10;

/// A bound on retries over all queries, so that a cluster in trouble is not asked for several times as much. Within
/// the last 10 s, counted in whole seconds, the parts that are routed again are at most the larger of 10 and a share
/// of the parts that were sent. Times are since a start of the caller's choice.
///
/// ```
/// use std::time::Duration;
/// use pointsman_scatter::RetryBudget;
///
/// let budget = RetryBudget::new(0.2);
/// budget.sent(100, Duration::ZERO);
/// assert_eq!((0..100).filter(|_| budget.take(1, Duration::ZERO)).count(), 20);
/// assert_eq!(budget.exhausted(), 80);
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    ratio: f64,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    seconds: [Second; WINDOW],
    exhausted: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    sent: u64,
    again: u64,
}

impl RetryBudget {
    /// A budget of this share of the parts that are sent; not negative.
    pub fn new(ratio: f64) -> Self {
        Self { ratio, window: Mutex::default() }
    }

    /// Counts parts that are sent, for the first time or again.
    pub fn sent(&self, parts: u64, now: Duration) {
        self.with(|window| window.second(now).sent += parts);
    }

    /// Asks to route parts again: all of them or, with the answer false, none. A refusal is counted.
    pub fn take(&self, parts: u64, now: Duration) -> bool {
        self.with(|window| {
            let (sent, again) = window.sums(now);
            let granted = again.saturating_add(parts) <= self.limit(sent);
            if granted {
                window.second(now).again += parts;
            } else {
                window.exhausted += 1;
            }
            granted
        })
    }

    /// How often parts were not routed again because the budget was used up.
    pub fn exhausted(&self) -> u64 {
        self.with(|window| window.exhausted)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count, cut to whole parts; casts from floating point saturate"
    )]
    fn limit(&self, sent: u64) -> u64 {
        FLOOR.max((sent as f64 * self.ratio) as u64)
    }

    fn with<T>(&self, action: impl FnOnce(&mut Window) -> T) -> T {
        // Every state of the counters is a valid one, so one left by a panic is as well.
        action(&mut self.window.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Window {
    fn second(&mut self, now: Duration) -> &mut Second {
        let number = now.as_secs();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the remainder is below the length of the window"
        )]
        let second = &mut self.seconds[(number % WINDOW as u64) as usize];
        // A caller whose clock reading is a little older counts with what came since.
        if second.number < number {
            *second = Second { number, ..Second::default() };
        }
        second
    }

    /// Parts sent and parts routed again in the window.
    fn sums(&self, now: Duration) -> (u64, u64) {
        let first = (now.as_secs() + 1).saturating_sub(WINDOW as u64);
        let counted = self.seconds.iter().filter(|second| second.number >= first);
        counted.fold((0, 0), |(sent, again), second| (sent + second.sent, again + second.again))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn granted(budget: &RetryBudget, tries: u64, now: u64) -> u64 {
        (0..tries).map(|_| u64::from(budget.take(1, Duration::from_secs(now)))).sum()
    }

    #[test]
    fn a_quiet_broker_may_retry_ten_parts() {
        let budget = RetryBudget::new(0.2);
        assert_eq!(granted(&budget, 15, 0), 10);
        assert_eq!(budget.exhausted(), 5);
    }

    #[test]
    fn what_was_sent_long_ago_grants_nothing_and_what_was_taken_weighs_nothing() {
        let budget = RetryBudget::new(0.2);
        budget.sent(1000, Duration::from_secs(3));
        assert_eq!(granted(&budget, 300, 12), 200);
        assert_eq!(granted(&budget, 300, 13), 0, "taken within the window, sent before it");
        assert_eq!(granted(&budget, 300, 22), 10);
    }

    #[test]
    fn several_parts_are_granted_together_or_not_at_all() {
        let budget = RetryBudget::new(0.0);
        assert!(budget.take(6, Duration::ZERO));
        assert!(!budget.take(5, Duration::ZERO));
        assert!(budget.take(4, Duration::ZERO));
    }

    proptest! {
        #[test]
        fn no_window_grants_more_than_its_share(
            steps in proptest::collection::vec((0..4u64, 0..40u64, 0..20u64), 1..80),
        ) {
            let budget = RetryBudget::new(0.2);
            let (mut now, mut window) = (0, VecDeque::new());
            for (pause, sent, tries) in steps {
                now += pause;
                budget.sent(sent, Duration::from_secs(now));
                let again = granted(&budget, tries, now);
                window.push_back((now, sent, again));
                window.retain(|(at, ..)| at + 10 > now);
                let sent: u64 = window.iter().map(|(_, sent, _)| sent).sum();
                let taken: u64 = window.iter().map(|(_, _, again)| again).sum();
                // What was granted rested on more than is in the window now; nothing is granted beyond the share.
                prop_assert!(again == 0 || taken <= 10.max(sent / 5), "{taken} of {sent}");
            }
        }
    }
}
