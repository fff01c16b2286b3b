//! A whole broker in this process, fed by a feed of our own, over real workers with real Parquet files.

#![expect(clippy::unwrap_used, reason = "tests end by panicking")]

mod answers;
mod cluster;
mod clusters;
mod failures;
mod feed;
mod health;
mod limits;
mod routes;
mod scope;
mod shards;
mod surfaces;
mod worker;
