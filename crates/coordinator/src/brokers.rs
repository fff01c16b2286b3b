//! Brokers that watch the feed: who lives, and which version each routes by.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, FeedVersion};
use tokio::sync::watch;

/// All live watches. A broker is live while it has one.
#[derive(Debug, Default)]
pub(crate) struct Brokers {
    watches: Mutex<Watches>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Watches {
    /// The number that was given last; they begin with 1.
    last: u64,
    by_number: BTreeMap<u64, Watch>,
}

#[derive(Debug)]
struct Watch {
    broker: String,
    sent: FeedVersion,
    /// What it routes by, and when it said so last; `None`: it reads whole snapshots and says nothing.
    acknowledged: Option<(FeedVersion, MonoTime)>,
}

/// A live broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveBroker {
    /// The newest version that was sent to it.
    pub(crate) sent: FeedVersion,
    /// The newest version that it routes by; what was sent, for one that does not say so.
    pub(crate) routes_by: FeedVersion,
}

impl Brokers {
    /// Counts a new watch and gives its number.
    pub(crate) fn open(&self, broker: &str, acknowledges: bool, now: MonoTime) -> u64 {
        let mut watches = self.watches.lock();
        watches.last += 1;
        let number = watches.last;
        let acknowledged = acknowledges.then_some((FeedVersion(0), now));
        let watch = Watch { broker: broker.to_owned(), sent: FeedVersion(0), acknowledged };
        watches.by_number.insert(number, watch);
        self.changed.send_replace(());
        number
    }

    pub(crate) fn close(&self, number: u64) {
        self.watches.lock().by_number.remove(&number);
        self.changed.send_replace(());
    }

    pub(crate) fn sent(&self, number: u64, version: FeedVersion) {
        if let Some(watch) = self.watches.lock().by_number.get_mut(&number) {
            watch.sent = watch.sent.max(version);
            if watch.acknowledged.is_none() {
                self.changed.send_replace(());
            }
        }
    }

    /// A broker routes by `version`.
    ///
    /// # Errors
    /// `service_not_ready` for a watch that is not there, or not this broker's.
    pub(crate) fn acknowledge(
        &self,
        broker: &str,
        number: u64,
        version: FeedVersion,
        now: MonoTime,
    ) -> Result<(), Error> {
        let mut watches = self.watches.lock();
        let watch = watches.by_number.get_mut(&number).filter(|watch| watch.broker == broker);
        let Some(acknowledged) = watch.and_then(|watch| watch.acknowledged.as_mut()) else {
            let text = format!("watch {number} of broker '{broker}' has ended; open another");
            return Err(Error::new(ErrorCode::ServiceNotReady, text));
        };
        let newer = version > acknowledged.0;
        *acknowledged = (acknowledged.0.max(version), now);
        if newer {
            self.changed.send_replace(());
        }
        Ok(())
    }

    /// When the broker was heard last; `None` for a watch that says nothing or is not there.
    pub(crate) fn heard(&self, number: u64) -> Option<MonoTime> {
        self.watches.lock().by_number.get(&number)?.acknowledged.map(|(_, heard)| heard)
    }

    /// Live brokers by name.
    pub(crate) fn live(&self) -> BTreeMap<String, LiveBroker> {
        let mut brokers = BTreeMap::<String, LiveBroker>::new();
        for watch in self.watches.lock().by_number.values() {
            let broker = brokers.entry(watch.broker.clone()).or_default();
            broker.sent = broker.sent.max(watch.sent);
            let routes_by = watch.acknowledged.map_or(watch.sent, |(version, _)| version);
            broker.routes_by = broker.routes_by.max(routes_by);
        }
        brokers
    }

    /// The oldest version that a live broker routes by; the highest there can be when there is none.
    pub(crate) fn lowest(&self) -> FeedVersion {
        self.live().values().map(|broker| broker.routes_by).min().unwrap_or(FeedVersion(u64::MAX))
    }

    /// Whether every live broker routes by `version` or a later one.
    pub(crate) fn applied(&self, version: FeedVersion) -> bool {
        self.lowest() >= version
    }

    /// Live brokers that do not route by `version` or a later one yet, by name.
    pub(crate) fn lagging(&self, version: FeedVersion) -> Vec<(String, LiveBroker)> {
        self.live().into_iter().filter(|(_, broker)| broker.routes_by < version).collect()
    }

    /// Tells whenever a broker comes, goes, or routes by something newer.
    pub(crate) fn changed(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_start(Duration::from_secs(seconds))
    }

    #[test]
    fn a_version_is_applied_when_every_live_broker_routes_by_it_or_a_later_one() {
        let brokers = Brokers::default();
        assert!(brokers.applied(FeedVersion(9)), "nobody routes by anything older");
        let (one, two) = (brokers.open("b1", true, at(0)), brokers.open("b2", true, at(0)));
        brokers.acknowledge("b1", one, FeedVersion(9), at(1)).unwrap();
        assert!(!brokers.applied(FeedVersion(5)));
        brokers.acknowledge("b2", two, FeedVersion(5), at(1)).unwrap();
        assert!(brokers.applied(FeedVersion(5)) && !brokers.applied(FeedVersion(6)));
        brokers.close(two);
        assert!(brokers.applied(FeedVersion(9)));
    }

    #[test]
    fn a_version_that_was_merely_sent_is_not_applied() {
        let brokers = Brokers::default();
        let (says, silent) = (brokers.open("b1", true, at(0)), brokers.open("b2", false, at(0)));
        brokers.sent(says, FeedVersion(4));
        brokers.sent(silent, FeedVersion(4));
        let live = brokers.live();
        assert_eq!(live["b1"], LiveBroker { sent: FeedVersion(4), routes_by: FeedVersion(0) });
        assert_eq!(live["b2"], LiveBroker { sent: FeedVersion(4), routes_by: FeedVersion(4) });
        assert_eq!((brokers.heard(says), brokers.heard(silent)), (Some(at(0)), None));
    }

    #[test]
    fn a_late_acknowledgement_of_an_older_version_keeps_the_watch_alive_and_takes_nothing_back() {
        let brokers = Brokers::default();
        let number = brokers.open("b1", true, at(0));
        brokers.acknowledge("b1", number, FeedVersion(7), at(1)).unwrap();
        brokers.acknowledge("b1", number, FeedVersion(3), at(2)).unwrap();
        assert!(brokers.applied(FeedVersion(7)));
        assert_eq!(brokers.heard(number), Some(at(2)));
    }

    #[test]
    fn an_acknowledgement_for_a_watch_that_is_not_ones_own_is_refused() {
        let brokers = Brokers::default();
        let number = brokers.open("b1", true, at(0));
        let refused = brokers.acknowledge("b2", number, FeedVersion(7), at(1)).unwrap_err();
        assert_eq!(refused.to_string(), format!("watch {number} of broker 'b2' has ended; open another"));
        brokers.close(number);
        assert!(brokers.acknowledge("b1", number, FeedVersion(7), at(1)).unwrap_err().is_retriable());
    }
}
