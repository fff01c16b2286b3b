//! DataFusion, distributed: SQL in, rows out, with every leaf pinned to the node that the router chose.
//!
//! The crate knows tables, segments and plans. Which node answers for a segment is the [`Router`]'s word; membership
//! and health are none of its business.

mod router;

pub use router::{Part, Routed, Router, Unavailable};
