//! When observers look that nobody woke.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_settings::CoordinatorSettings;

/// Observers that are to look now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// How far loads are.
    pub(crate) progress: bool,
    /// Which next targets there are.
    pub(crate) targets: bool,
    /// Where segments should be, and whether they come.
    pub(crate) segments: bool,
    /// Who should lead, and whether they do.
    pub(crate) leaders: bool,
    /// Which nodes replicas have.
    pub(crate) replicas: bool,
    /// Which replicas queries may see.
    pub(crate) visibility: bool,
}

impl Due {
    /// All but progress and visibility, whose times do not depend on what happens.
    pub(crate) const ON_DEMAND: Self = Self {
        progress: false,
        targets: true,
        segments: true,
        leaders: true,
        replicas: true,
        visibility: false,
    };

    fn or(self, other: Self) -> Self {
        Self {
            progress: self.progress || other.progress,
            targets: self.targets || other.targets,
            segments: self.segments || other.segments,
            leaders: self.leaders || other.leaders,
            replicas: self.replicas || other.replicas,
            visibility: self.visibility || other.visibility,
        }
    }
}

/// When each observer looks next.
#[derive(Debug, Default)]
pub(crate) struct Cadence {
    progress: MonoTime,
    targets: MonoTime,
    segments: MonoTime,
    leaders: MonoTime,
    replicas: MonoTime,
    visibility: MonoTime,
}

impl Cadence {
    /// Whose time has come.
    pub(crate) fn due(&self, now: MonoTime) -> Due {
        Due {
            progress: now >= self.progress,
            targets: now >= self.targets,
            segments: now >= self.segments,
            leaders: now >= self.leaders,
            replicas: now >= self.replicas,
            visibility: now >= self.visibility,
        }
    }

    /// Who looks now: those whose time has come, and with `woken` those that look on demand. Their time begins anew.
    pub(crate) fn take(&mut self, now: MonoTime, settings: &CoordinatorSettings, woken: bool) -> Due {
        let due = self.due(now).or(if woken { Due::ON_DEMAND } else { Due::default() });
        let next = [
            (due.progress, &mut self.progress, settings.progress_interval),
            (due.targets, &mut self.targets, settings.target_check_interval),
            (due.segments, &mut self.segments, settings.segment_check_interval),
            (due.leaders, &mut self.leaders, settings.leader_check_interval),
            (due.replicas, &mut self.replicas, settings.replica_check_interval),
            (due.visibility, &mut self.visibility, settings.visibility_interval),
        ];
        for (due, at, interval) in next {
            if due {
                *at = now + interval;
            } else {
                // A shorter interval counts at once.
                *at = (*at).min(now + interval);
            }
        }
        due
    }
}

/// How long nobody looks at the most, unless woken.
pub(crate) fn pause(settings: &CoordinatorSettings) -> Duration {
    let intervals = [
        settings.progress_interval,
        settings.target_check_interval,
        settings.segment_check_interval,
        settings.leader_check_interval,
        settings.replica_check_interval,
        settings.visibility_interval,
        settings.balance_interval,
    ];
    intervals.into_iter().min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> MonoTime {
        MonoTime::from_start(Duration::from_millis(millis))
    }

    /// Who looks at each of these times, in milliseconds, by the first letter.
    fn looks(
        cadence: &mut Cadence,
        settings: &CoordinatorSettings,
        times: &[u64],
        woken: bool,
    ) -> Vec<String> {
        let look = |millis: &u64| {
            let due = cadence.take(at(*millis), settings, woken);
            let named = [
                (due.progress, 'p'),
                (due.targets, 't'),
                (due.segments, 's'),
                (due.leaders, 'l'),
                (due.replicas, 'r'),
                (due.visibility, 'v'),
            ];
            named.into_iter().filter(|(due, _)| *due).map(|(_, name)| name).collect()
        };
        times.iter().map(look).collect()
    }

    #[test]
    fn everybody_looks_when_the_time_has_come() {
        let settings = CoordinatorSettings::default();
        let times = [0, 199, 200, 399, 400, 2_999, 3_000, 10_000, 59_999, 60_000];
        let expected = ["ptslrv", "", "p", "", "p", "p", "slv", "ptslv", "ptslv", "r"];
        assert_eq!(looks(&mut Cadence::default(), &settings, &times, false), expected);
    }

    #[test]
    fn who_was_woken_looks_at_once_but_for_progress_and_visibility() {
        let settings = CoordinatorSettings::default();
        let mut cadence = Cadence::default();
        assert_eq!(looks(&mut cadence, &settings, &[0, 100, 2_900], true), ["ptslrv", "tslr", "ptslr"]);
        // The times of those who looked on demand began anew.
        assert_eq!(looks(&mut cadence, &settings, &[3_000, 5_899, 5_900], false), ["v", "p", "sl"]);
    }

    #[test]
    fn every_interval_has_its_observer_and_counts_at_once() {
        let second = Duration::from_secs(1);
        let day = Duration::from_secs(86_400);
        let slow = CoordinatorSettings {
            progress_interval: day,
            target_check_interval: day,
            segment_check_interval: day,
            leader_check_interval: day,
            replica_check_interval: day,
            visibility_interval: day,
            ..CoordinatorSettings::default()
        };
        let changed = |change: fn(&mut CoordinatorSettings, Duration)| {
            let mut settings = slow.clone();
            change(&mut settings, second);
            let mut cadence = Cadence::default();
            looks(&mut cadence, &slow, &[0], false);
            looks(&mut cadence, &settings, &[1, 1_000, 1_001], false).concat()
        };
        assert_eq!(changed(|settings, time| settings.progress_interval = time), "p");
        assert_eq!(changed(|settings, time| settings.target_check_interval = time), "t");
        assert_eq!(changed(|settings, time| settings.segment_check_interval = time), "s");
        assert_eq!(changed(|settings, time| settings.leader_check_interval = time), "l");
        assert_eq!(changed(|settings, time| settings.replica_check_interval = time), "r");
        assert_eq!(changed(|settings, time| settings.visibility_interval = time), "v");
    }
}
