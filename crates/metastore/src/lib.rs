//! What must survive a crash of everything: catalog, resource groups, nodes and those that are to leave, loads, current
//! targets, the cluster's configuration, and the lease of the active coordinator.
//!
//! One trait per aggregate, and [`Metastore`] for all of them. Two databases stand behind one URL: [`open`] takes
//! `postgres://...` and `sqlite:path`. Both run the same statements; what differs between them is in one place
//! (`dialect`). Every write is one transaction and carries the epoch of the writer's lease; a write with another epoch
//! than the database knows is refused as [`Error::Fenced`] and changes nothing. Writes take turns.
//!
//! Every change makes a new revision ([`ChangeStore`]); whoever keeps a copy of the segments asks what it lacks. [`backup()`],
//! [`restore()`] and [`copy()`] work on a whole metastore, without a coordinator. The lease remembers which server gave it, so
//! that a failover which may have lost the newest changes is noticed before anything is written.
//!
//! Every statement has a limit in time. A connection whose call was cut off, by its limit or by a caller that went
//! away, is closed and never used again. A write that was cut off before its commit was sent is
//! [`Error::Unavailable`] and did nothing; one that was cut off after that is [`Error::OutcomeUnknown`].
//!
//! ```
//! use std::time::Duration;
//!
//! use pointsman_ids::Epoch;
//! use pointsman_metastore::{LeaseOutcome, NewGroup, OpenOptions, open};
//! use pointsman_query_coord::GroupConfig;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let url = format!("sqlite:{}/meta.db", folder.path().display());
//! let metastore = open(&url, OpenOptions::default()).await?;
//!
//! let outcome = metastore.take_lease("coordinator-1", Duration::from_secs(3), Epoch(0)).await?;
//! let LeaseOutcome::Taken(lease) = outcome else { panic!("somebody else is active") };
//!
//! let config = GroupConfig { requests: 1, limits: 8, ..GroupConfig::default() };
//! let east = NewGroup { name: "east".parse()?, config };
//! let group = metastore.create_group(lease.epoch, east).await?;
//! assert_eq!(metastore.groups().await?.len(), 2, "the default group is always there");
//! assert_eq!(group.name.as_str(), "east");
//! # Ok(())
//! # }
//! ```

mod address;
mod backup;
mod catalog;
mod changes;
mod config;
mod dialect;
mod error;
mod groups;
mod lease;
mod leaving;
mod loads;
mod nodes;
mod open;
mod schema;
mod segments;
mod server;
mod session;
mod statistics;
mod store;
mod stored;
mod traits;

pub use backup::{BackupError, BackupSummary, backup, check, copy, restore};
pub use changes::{ChangeStore, Revision, SegmentChanges, SegmentsHeld};
pub use error::{Error, Result};
pub use open::{OpenOptions, open};
pub use traits::{
    CatalogStore, ConfigStore, Drain, GroupStore, Lease, LeaseOutcome, LeaseStore, LeavingStore, LoadStore,
    Metastore, NewCollection, NewGroup, NodeStore, PushOutcome, SharedMetastore, StopLease,
};
