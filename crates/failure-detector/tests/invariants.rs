//! What holds whatever happens, in whatever order.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{collections::BTreeSet, time::Duration};

use pointsman_failure_detector::{Action, Detector, Event, Key, Outcome, Settings};
use pointsman_ids::{Incarnation, NodeKey};
use proptest::prelude::*;

fn node() -> impl Strategy<Value = NodeKey> {
    (0..2, 0..3).prop_map(|(cluster, node)| NodeKey {
        cluster: format!("c{cluster}").parse().unwrap(),
        node: format!("n{node}").parse().unwrap(),
    })
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![4 => node().prop_map(Key::Node), 1 => node().prop_map(|node| Key::Bare(node.node))]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        1 => Just(Outcome::Healthy),
        1 => Just(Outcome::Unknown),
        1 => Just(Outcome::NotEnabled),
        1 => Just(Outcome::Error("panic".into())),
        3 => Just(Outcome::Unhealthy("silent".into())),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (key(), 0..3u64).prop_map(|(key, incarnation)| Event::Failed {
            key,
            incarnation: Some(Incarnation(incarnation)),
            evidence: "reset".into()
        }),
        1 => key().prop_map(|key| Event::Recovered { key }),
        2 => node().prop_map(|node| Event::Suspected { node }),
        4 => (key(), outcome()).prop_map(|(key, outcome)| Event::Probed { key, outcome }),
        2 => (node(), 0..3u64, any::<bool>()).prop_map(|(node, incarnation, enabled)| Event::Member {
            node,
            incarnation: Incarnation(incarnation),
            enabled
        }),
        1 => node().prop_map(|node| Event::Removed { node }),
        4 => Just(Event::Tick),
    ]
}

proptest! {
    #[test]
    fn actions_and_the_unhealthy_set_agree(events in proptest::collection::vec((event(), 0..10_000u64), 1..200)) {
        let mut detector = Detector::new(Settings { max_retries: 2, ..Settings::default() }).unwrap();
        let mut now = Duration::ZERO;
        let (mut excluded, mut probing) = (BTreeSet::new(), BTreeSet::new());
        for (event, pause) in events {
            now += Duration::from_millis(pause);
            if let Event::Probed { key, .. } = &event {
                probing.remove(key);
            }
            let is_tick = event == Event::Tick;
            for action in detector.handle(event, now) {
                match action {
                    Action::Exclude(key) => prop_assert!(excluded.insert(key), "excluded twice"),
                    Action::Include(key) => prop_assert!(excluded.remove(&key), "included without need"),
                    Action::Probe(key) => prop_assert!(probing.insert(key), "two probes of one node"),
                }
            }
            let unhealthy: BTreeSet<Key> = detector.unhealthy().map(|(key, _)| key.clone()).collect();
            prop_assert_eq!(&unhealthy, &excluded);
            if is_tick {
                prop_assert!(detector.next_wakeup().is_none_or(|next| next > now), "a retry was left behind");
            }
            for (key, record) in detector.unhealthy() {
                prop_assert!(record.tries <= 2);
                prop_assert!(record.next <= now + Duration::from_secs(60) || probing.contains(key));
            }
        }
    }
}
