//! The node: holds segments and executes queries on them.
//!
//! It opens a session with the active coordinator, reads its desired state there (the whole wish, not commands), and
//! makes it true: fetches segments from the object store into a bounded folder, verifies length and checksum of every
//! file before it serves it, drops what is not wanted any more, and reports what it holds. Queries read segments that
//! are held, and nothing else. Of the shards that it should lead it knows which segments it answers for and which node of
//! the replica holds each, and says whether it can. When the coordinator is away the node keeps what it has and keeps serving, also over its
//! own restart.
//!
//! What it decides is pure and apart from what it does: [`run()`] is the way in, everything else is inside.
//!
//! ```no_run
//! use pointsman_node::{Deps, run};
//! use pointsman_settings::NodeSettings;
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> anyhow::Result<()> {
//! let settings = NodeSettings { name: "n1".into(), data_dir: "data/n1".into(), ..NodeSettings::default() };
//! run(settings, Deps::open()?, CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```

mod cache;
pub mod cli;
mod computing;
mod data_dir;
mod deps;
mod drain;
mod http;
mod in_flight;
mod leads;
mod metrics;
mod run;
mod session;
mod shards;
mod worker;

pub use data_dir::DataDirError;
pub use deps::{Deps, Pace};
pub use run::{RunError, run};
