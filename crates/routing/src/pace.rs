//! How a watch goes on after troubles: when it tries again, and which of them are news to people.

use std::{collections::BTreeMap, time::Duration};

/// The first wait, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The longest wait for a coordinator whose words are not taken: that is a mistake of somebody, and lasts.
const LONGEST_REFUSED: Duration = Duration::from_secs(30);

/// A watch that lived for so long was a good one.
const STEADY: Duration = Duration::from_secs(10);

/// The pace of the watch of one cluster.
#[derive(Debug)]
pub(crate) struct Pace {
    wait: Duration,
    /// What was told last, by place of the coordinator.
    told: BTreeMap<usize, String>,
    /// It was told that nobody can be watched.
    told_alone: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { wait: FIRST_WAIT, told: BTreeMap::new(), told_alone: false }
    }
}

impl Pace {
    /// A watch that lived so long has ended; `refused`: its last words were not taken. Says whether the trouble is news,
    /// and not what has been told already.
    pub(crate) fn ended(
        &mut self,
        coordinator: usize,
        lived: Duration,
        refused: bool,
        trouble: &str,
    ) -> bool {
        self.told_alone = false;
        if lived > STEADY {
            self.wait = FIRST_WAIT;
            self.told.clear();
        } else {
            // One that ends again at once, for a lasting mistake, is tried less and less often.
            self.longer(refused);
        }
        self.told.insert(coordinator, trouble.to_owned()).as_deref() != Some(trouble)
    }

    /// Nobody of all coordinators can be watched; `refused` as above. Says whether that is news.
    pub(crate) fn alone(&mut self, refused: bool) -> bool {
        self.longer(refused);
        // Where a word was heard at all, its trouble has been told.
        self.told.is_empty() && !std::mem::replace(&mut self.told_alone, true)
    }

    /// The wait before the next try.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    fn longer(&mut self, refused: bool) {
        let longest = if refused { LONGEST_REFUSED } else { LONGEST_WAIT };
        self.wait = (self.wait * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEF: Duration = Duration::from_millis(5);

    #[test]
    fn a_lasting_mistake_is_told_once_and_tried_less_and_less_often() {
        let mut pace = Pace::default();
        let mut told = 0;
        let mut waits = vec![];
        for _ in 0..20 {
            told += u32::from(pace.ended(0, BRIEF, true, "another cluster"));
            waits.push(pace.wait());
        }
        assert_eq!(told, 1);
        assert!(waits.is_sorted() && waits[0] < Duration::from_secs(1), "{waits:?}");
        assert_eq!(waits.last(), Some(&LONGEST_REFUSED));
        assert!(pace.ended(0, BRIEF, true, "something else"), "another trouble is news");
        assert!(pace.ended(1, BRIEF, true, "something else"), "and so is that of another coordinator");
    }

    #[test]
    fn a_coordinator_that_is_merely_away_is_tried_often_and_told_once() {
        let mut pace = Pace::default();
        let told = (0..20).filter(|_| pace.alone(false)).count();
        assert_eq!((told, pace.wait()), (1, LONGEST_WAIT));
    }

    #[test]
    fn a_good_watch_begins_anew() {
        let mut pace = Pace::default();
        assert!(pace.ended(0, BRIEF, true, "x") && !pace.ended(0, BRIEF, true, "x"));
        assert!(pace.ended(0, STEADY * 2, false, "x"), "it was well in between");
        assert_eq!(pace.wait(), FIRST_WAIT);
    }
}
