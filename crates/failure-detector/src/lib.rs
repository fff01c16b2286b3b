//! Health of nodes as a state machine: (event, now) to actions and the time of the next wake-up.
//!
//! A [`Detector`] takes reports about nodes and decides who is excluded, when an excluded node is probed and when it
//! comes back. It does no I/O and reads no clock: a driver feeds it [`Event`]s with the time since its start, and
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
//! assert_eq!(detector.handle(Event::Tick, Duration::from_secs(5)), [Action::Probe(key.clone())]);
//!
//! let probed = Event::Probed { key: key.clone(), outcome: Outcome::Healthy };
//! assert_eq!(detector.handle(probed, Duration::from_secs(5)), [Action::Include(key)]);
//! assert!(!detector.is_unhealthy(&node));
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod counters;
mod detector;
mod event;
mod key;
mod settings;

pub use counters::Counters;
pub use detector::{Detector, Record};
pub use event::{Action, Event, Inclusion, Outcome};
pub use key::Key;
pub use settings::{Kind, Settings};
