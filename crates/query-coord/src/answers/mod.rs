//! The coordinator's answers: how far is the load, may I route there, route to whom. Pure functions over [`crate::Wired`];
//! the same state always gives the same answer.
//!
//! A group is named or not: `None` and the empty name ask without a filter, and are never looked up. [`Entry`] is what
//! callers from outside ask: the same questions behind the gate of the server's state.

mod causes;
mod checks;
mod entry;
mod health;
mod leaders;
mod overlap;
mod progress;
mod readiness;
mod registered;

pub use causes::{Cause, ReplicaCause, UnreadyShard};
pub use entry::{Entry, ServerState};
pub use health::{Unqueryable, health_check};
pub use leaders::{Form, ListedLeader, ShardLeaders, shard_leaders};
pub use progress::{ReplicaProgress, load_percentage, replica_percentages, replica_progress};
pub use readiness::{Readiness, readiness};
pub use registered::{Registered, show_load, show_loads, show_partitions};
