//! What the coordinator decides, as pure functions over read-only stores: placement of segments, progress and
//! readiness per resource group, promotion of targets.
//!
//! The crate knows no database, no wire and no clock: stores and `now` come in, plans and answers come out. The same
//! state always gives the same answer, because nothing here iterates over a hash map.

mod records;

pub use records::{LoadRecord, LoadStatus, NodeRecord, Replica, ResourceGroup, Target};
