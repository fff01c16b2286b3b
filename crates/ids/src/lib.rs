//! Identifiers, names and plain value types that cross borders between crates, and the closed tables of
//! error codes (ours) and answer codes (what HTTP clients read).
//!
//! The crate decides nothing: no I/O, no clock, no async, no serialisation. What travels on the wire or into a
//! database is converted by the crate that owns the format (`proto`, `metastore`).
//!
//! ```
//! use pointsman_ids::{ErrorCode, Error, NodeName};
//!
//! let node: NodeName = "n1".parse()?;
//! let error = Error::new(ErrorCode::NodeNotFound, format!("node '{node}' is not a member"));
//! assert_eq!(error.code().number(), 901);
//! assert!(!error.is_retriable());
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

pub mod answer;
pub mod catalog;
mod coverage;
mod error;
pub mod feed;
mod labels;
mod names;
mod near;
mod numbers;
mod readiness;
pub mod request;

pub use answer::AnswerCode;
pub use coverage::UnavailableCause;
pub use error::{Error, ErrorClass, ErrorCode, Result};
pub use labels::{MAX_LABEL_BYTES, MAX_LABELS, check_labels};
pub use names::{
    ClusterName, CollectionName, GroupName, NodeKey, NodeName, PartitionName, SegmentName, ShardName,
};
pub use near::near;
pub use numbers::{
    CollectionId, Epoch, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId, TargetVersion,
};
pub use readiness::ReadinessReason;
