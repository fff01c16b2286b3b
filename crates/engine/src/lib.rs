//! DataFusion, distributed: SQL in, rows out, with every scan pinned to the node that the router chose.
//!
//! The crate knows tables, segments and plans. Which node answers for a segment is the [`Router`]'s word; membership
//! and health are none of its business.
//!
//! In the broker, [`Statement::check`] takes a text within limits, [`Engine::plan`] turns it into a [`PlannedQuery`]
//! against a [`Catalog`], and [`PlannedQuery::execute`] gives the rows. On a node, [`worker_routes`] serves the
//! segments of a [`SegmentStore`]. Failures are classified in one place: [`QueryError`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::TryStreamExt;
//! use pointsman_channels::{ChannelSettings, Channels};
//! use pointsman_engine::{Catalog, Engine, EngineSettings, QueryError, Routed, Router, Statement};
//! use pointsman_ids::{ClusterName, NodeKey, Result, feed::{CollectionEntry, Snapshot}};
//!
//! /// Routes nothing: there is nothing to route.
//! #[derive(Debug)]
//! struct Nobody;
//!
//! impl Router for Nobody {
//!     fn route(&self, _: &CollectionEntry, _: &[u32]) -> Result<Routed> {
//!         Ok(Routed::default())
//!     }
//!     fn stage_nodes(&self) -> Vec<(NodeKey, url::Url)> {
//!         vec![]
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), QueryError> {
//! let engine = Engine::new(EngineSettings::default(), Channels::tcp(ChannelSettings::default()))?;
//! let catalog = Arc::new(Catalog::build(&Snapshot::empty(ClusterName::new("local")?), None));
//! let statement = Statement::check("SELECT 6 * 7 AS answer")?;
//! let planned = engine.plan(&statement, &catalog, Arc::new(Nobody)).await?;
//! let rows: Vec<_> = planned.execute()?.try_collect().await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```

mod bounded;
mod bounds;
mod broadcast;
mod catalog;
mod deadline;
mod engine;
mod estimate;
mod failure;
mod first;
mod idle;
pub mod ingest;
mod limits;
mod location;
mod logical;
mod options;
mod pace;
mod pinning;
mod planned;
mod planners;
mod retry;
mod router;
pub mod rows;
mod scans;
mod size;
mod statement;
mod store;
mod table;
mod tagging;
pub mod tpch;
mod values;
mod verify;
mod watch;
mod worker;

pub use catalog::Catalog;
pub use engine::{Engine, EngineSettings};
pub use failure::QueryError;
pub use location::SegmentPath;
pub use planned::{PlannedQuery, QueryStream};
pub use router::{FailedPart, FailedScan, Part, Rerouted, Routed, Router, Unavailable};
pub use scans::CollectionScan;
pub use size::batch_bytes;
pub use statement::Statement;
pub use store::{SegmentFile, SegmentStore};
pub use worker::{WorkerSettings, worker_routes};
