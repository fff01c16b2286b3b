//! Real processes for tests and for `xtask`: a whole cluster, a private PostgreSQL, faults and a SQL client.
//!
//! Everything blocks: a test that drives processes reads from top to bottom. Nothing that is started here outlives
//! the process that started it: values stop what they hold when they are dropped, and a [`Guard`] does so when their
//! owner was killed and could not.
//!
//! ```no_run
//! use pointsman_testkit::{Cluster, ClusterOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let cluster = Cluster::start(ClusterOptions { sample: Some("tpch:0.01".into()), ..ClusterOptions::default() })?;
//! let answer = cluster.sql().query("SELECT count(*) AS regions FROM region")?;
//! assert_eq!(answer.rows()?, &[vec![serde_json::json!(5)]]);
//! # Ok(())
//! # }
//! ```

mod client;
mod cluster;
mod eventually;
mod guard;
mod objects;
mod ports;
mod postgres;
mod process;
mod programs;
mod query_loop;
mod ready;
mod relay;
mod relays;
mod requests;
mod view;

pub use client::{Answer, DataSchema, Exception, ResultTable, Sql, comparable};
pub use cluster::{Cluster, ClusterOptions};
pub use eventually::{eventually, pause};
pub use guard::Guard;
pub use objects::{Object, ObjectServer};
pub use ports::{free_address, free_port, free_ports};
pub use postgres::{DATABASE_URL, Postgres, server_binaries};
pub use process::{Process, is_alive, resident_bytes, signal};
pub use programs::{program, target_dir};
pub use query_loop::{LoopReport, QueryLoop};
pub use ready::{Endpoint, NodeEndpoint, Ready};
pub use relay::{Network, Relay};
pub use view::NodeView;
