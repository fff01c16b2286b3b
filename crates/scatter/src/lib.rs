//! Retries inside a query, and the coverage report of its answer.
//!
//! A query is sent in parts, a node with its segments each. [`Parts`] keep who is asked for what and which rows count;
//! when a part fails they decide which segments are routed again, around whom, and which are given up. Where rows
//! cannot be taken back any more the whole query runs again: [`Attempts`] keep who failed, how many tries and how much
//! time are left. Both spend from one [`RetryBudget`] of all queries. [`Coverage`] says what an answer rests on. All of
//! them are plain values; times are since a start of the caller's choice, and rows stay with the caller.
//!
//! ```
//! use std::time::Duration;
//! use pointsman_scatter::{Attempts, Failure, Limits, Next, Parts, Pick, Place};
//! use pointsman_ids::{Error, ErrorCode, NodeKey};
//!
//! let (now, timeout) = (Duration::ZERO, Duration::from_secs(10));
//! let node = |name: &str| Ok::<_, Error>(NodeKey { cluster: "local".parse()?, node: name.parse()? });
//! let mut parts = Parts::new(Attempts::new(Limits { max_attempts: 3, timeout }, now));
//! let scan = parts.add_scan([None, None]);
//! let picks = [0, 1].map(|at| Pick { place: Place { scan, at }, fail_open: false });
//! let part = parts.sent(node("n1")?, picks, now)?;
//!
//! let reset = Error::new(ErrorCode::NodeNotAvailable, "node 'n1' broke off");
//! let Next::GoOn { again, .. } = parts.failed(part, Failure::Node(reset), now) else { panic!("one try of three") };
//! assert_eq!(again[0].segments, [0, 1]);
//! assert!(again[0].without.contains(&node("n1")?));
//!
//! let retry = parts.sent(node("n2")?, picks, now)?;
//! assert!(!parts.ended(part), "a late answer");
//! assert!(parts.ended(retry) && parts.is_settled());
//! # Ok::<(), Error>(())
//! ```

mod attempts;
mod budget;
mod coverage;
mod parts;

pub use attempts::{Attempts, Decision, Limits};
pub use budget::RetryBudget;
pub use coverage::{Coverage, LeftOut, MAX_LISTED, UnavailableSegment};
pub use parts::{Failure, Lacking, Next, NodesOfParts, PartNumber, Parts, Pick, Place, RouteAgain, Silence};
