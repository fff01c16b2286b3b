//! The attempts of one query, and the coverage report of its answer.
//!
//! When nodes fail under a query, the whole query runs again without them, before anything was sent to the client.
//! [`Attempts`] keeps who failed, how many tries and how much time are left, and decides: again, or give up, and with
//! which error. [`Coverage`] says what an answer rests on. Both are plain values; times are since a start of the
//! caller's choice.
//!
//! ```
//! use std::time::Duration;
//! use pointsman_scatter::{Attempts, Decision, Limits};
//! use pointsman_ids::{Error, ErrorCode, NodeKey};
//!
//! let limits = Limits { max_attempts: 3, timeout: Duration::from_secs(10) };
//! let mut attempts = Attempts::new(limits, Duration::ZERO);
//! let node = NodeKey { cluster: "local".parse()?, node: "n1".parse()? };
//! let reset = Error::new(ErrorCode::NodeNotAvailable, "node 'n1' broke off");
//! let decision = attempts.failed([(node.clone(), reset)], Duration::from_secs(1));
//! assert_eq!(decision, Decision::Again);
//! assert!(attempts.failed_nodes().contains(&node));
//! assert_eq!(attempts.remaining(Duration::from_secs(1)), Duration::from_secs(9));
//! # Ok::<(), Error>(())
//! ```

mod attempts;
mod coverage;

pub use attempts::{Attempts, Decision, Limits};
pub use coverage::{Coverage, LeftOut, MAX_LISTED, UnavailableSegment};
