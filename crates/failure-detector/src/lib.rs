//! Health of nodes as a state machine: (event, now) to actions and the time of the next wake-up.
//!
//! A [`Detector`] takes reports about nodes and decides who is excluded, when an excluded node is probed and when it
//! comes back. A call that dies with its connection excludes at once; a silence or a fault is a suspicion, and several
//! in a row exclude; an idle connection that drops is a reason to look. It does no I/O and reads no clock: a driver feeds it [`Event`]s with the time since its start, and
//! carries out the [`Action`]s. It knows nothing of collections or queries.
//!
//! ```
//! use std::time::Duration;
//! use pointsman_failure_detector::{Action, Detector, Event, Key, Outcome, Settings};
//! use pointsman_ids::{Incarnation, NodeKey};
//!
//! let node = NodeKey { cluster: "east".parse()?, node: "n1".parse()? };
//! let key = Key::Node(node.clone());
//! let mut detector = Detector::new(Settings::default())?;
//!
//! let failed = Event::Failed { key: key.clone(), incarnation: Some(Incarnation(1)), evidence: "refused".into() };
//! assert_eq!(detector.handle(failed, Duration::ZERO), [Action::Exclude(key.clone())]);
//! assert_eq!(detector.next_wakeup(), Some(Duration::from_secs(5)));
//!
//! let mut actions = detector.handle(Event::Tick, Duration::from_secs(5));
//! let Some(Action::Probe(probe)) = actions.pop() else { panic!("a retry is due") };
//! assert_eq!(probe.key(), &key);
//! let probed = Event::Probed { probe, outcome: Outcome::Healthy };
//! assert_eq!(detector.handle(probed, Duration::from_secs(5)), [Action::Include(key)]);
//! assert!(!detector.is_unhealthy(&node));
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod counters;
mod detector;
mod event;
mod key;
mod members;
mod probes;
mod record;
mod settings;
mod suspicions;

pub use counters::Counters;
pub use detector::Detector;
pub use event::{Action, Event, Inclusion, Outcome, SuspicionCause};
pub use key::Key;
pub use probes::{PROBES_SIDE_BY_SIDE, Probe};
pub use record::Record;
pub use settings::{Kind, Settings};
pub use suspicions::Suspicions;
