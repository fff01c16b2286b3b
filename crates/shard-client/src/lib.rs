//! Requests by shard: to one node that leads it, for every shard of a collection.
//!
//! A [`ShardClient`] knows the shard leaders, keeps connections to them, picks one, tries again when that fails, and keeps
//! a request inside a resource group when it is told to. It never invents a partial answer: a shard that cannot be served
//! is an error that the caller sees. It knows neither SQL nor gRPC: the coordinator's answer ([`Coordinator`]), connections
//! ([`Connect`]), the request that runs ([`Request`]), what else is known about nodes ([`NodeView`]) and time ([`Runtime`])
//! are traits, so it serves anybody who has shards with leaders.
//!
//! | id | what always holds |
//! |---|---|
//! | SC-1 | A request with a scope runs on no leader whose group is another or unknown. |
//! | SC-2 | [`ShardClient::execute`] runs on every shard that is listed, or returns an error. |
//! | SC-3 | What a balancer counts as running returns to zero, whatever became of it, dropped futures included. |
//! | SC-4 | An answer that was asked for before an invalidation is never in the cache after it. |
//! | SC-5 | Only a terminal failure or a missing client puts a node on the blacklist of a shard. |
//! | SC-6 | A choice depends on leaders, exclusions, what is known of nodes, the balancer and the time, and on nothing else. |
//! | SC-7 | Without a scope, groups change nothing. |
//!
//! Decisions are synchronous functions that get `now`; around them are waiting, connections and tasks. On a
//! [`VirtualRuntime`] the whole client runs on a clock that moves only when everything waits:
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::future::{BoxFuture, FutureExt, ready};
//! use pointsman_ids::{CollectionId, ErrorCode, NodeId};
//! use pointsman_shard_client::{
//!     AllRoutable, CollectionWorkload, Connect, Coordinator, Parts, Reply, Request, Result, Settings,
//!     ShardClient, ShardListing, VirtualRuntime, Visit, balancer::balancer,
//! };
//!
//! /// Two shards, each led in two groups.
//! #[derive(Debug)]
//! struct Leaders;
//!
//! impl Coordinator for Leaders {
//!     fn shard_leaders(&self, _: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
//!         let listing = |shard: &str| ShardListing {
//!             shard: shard.to_owned(),
//!             node_ids: vec![1, 2],
//!             node_addrs: vec!["10.0.0.1:7000".to_owned(), "10.0.0.2:7000".to_owned()],
//!             serviceable: vec![true, true],
//!             resource_groups: vec!["east".to_owned(), "west".to_owned()],
//!         };
//!         ready(Ok(vec![listing("s0"), listing("s1")])).boxed()
//!     }
//! }
//!
//! /// A connection is the address that it goes to.
//! #[derive(Debug)]
//! struct Network;
//!
//! impl Connect for Network {
//!     type Connection = Arc<str>;
//!
//!     fn connect(&self, _: NodeId, address: Arc<str>) -> BoxFuture<'static, Result<Arc<str>>> {
//!         ready(Ok(address)).boxed()
//!     }
//!
//!     fn check(&self, _: Arc<str>) -> BoxFuture<'static, Result<bool>> {
//!         ready(Ok(true)).boxed()
//!     }
//! }
//!
//! /// Asks where it is.
//! struct Where;
//!
//! impl Request<Arc<str>> for Where {
//!     type Answer = String;
//!
//!     fn run<'a>(&'a self, connection: Arc<str>, visit: &'a Visit) -> BoxFuture<'a, Result<Reply<String>>> {
//!         ready(Ok(format!("{} at {connection}", visit.shard).into())).boxed()
//!     }
//! }
//!
//! let (settings, runtime) = (Settings::default(), VirtualRuntime::default());
//! let client = ShardClient::new(settings.clone(), Parts {
//!     coordinator: Arc::new(Leaders),
//!     connector: Arc::new(Network),
//!     balancer: balancer(&settings),
//!     view: Arc::new(AllRoutable),
//!     runtime: Arc::new(runtime.clone()),
//! });
//! let ask = |group: &str| {
//!     let workload = CollectionWorkload {
//!         database: "default".into(),
//!         name: "docs".into(),
//!         collection: CollectionId(31),
//!         nq: 1,
//!         request: Arc::new(Where),
//!         resource_group: group.into(),
//!         preferred: None,
//!         preferred_group: "".into(),
//!     };
//!     let client = client.clone();
//!     let mut running = runtime.start(async move { client.execute(&workload, None).await });
//!     runtime.finish(&mut running, 1_000).ok().flatten().expect("it comes to an end")
//! };
//!
//! let answers: Vec<String> = ask("west")?.into_iter().map(|answered| answered.answer).collect();
//! assert_eq!(answers, ["s0 at 10.0.0.2:7000", "s1 at 10.0.0.2:7000"]);
//!
//! // A group that leads nothing may come up soon: nothing runs elsewhere, and trying again makes sense.
//! let refused = ask("north").unwrap_err();
//! assert_eq!(refused.code(), ErrorCode::CollectionNotFullyLoaded);
//! assert!(refused.is_retriable());
//! # Ok::<(), pointsman_shard_client::ShardError>(())
//! ```
//!
//! A program gives it [`TokioRuntime`] and spawns [`ShardClient::maintenance`] beside it.

mod answer;
pub mod balancer;
mod blacklist;
mod cache;
mod candidates;
mod causes;
mod client;
mod counters;
mod error;
mod execute;
mod leader;
mod maintenance;
mod one_shard;
mod pool;
mod reads;
mod retry;
mod runtime;
mod select;
mod settings;
mod view;
mod virtual_runtime;
mod warnings;
mod workload;

pub use answer::{ReadAnswer, ShardListing, read_answer};
pub use balancer::{Balancer, Cost, NodeReport};
pub use client::{Coordinator, Parts, ShardClient};
pub use counters::Sample;
pub use error::{Result, ShardError};
pub use leader::{Leader, LeaderTable, filter_by_resource_group};
pub use pool::Connect;
pub use retry::Retry;
pub use runtime::{Runtime, TokioRuntime};
pub use select::{InFlight, Selected};
pub use settings::{Policy, Settings};
pub use view::{AllRoutable, NodeView, Standing};
pub use virtual_runtime::{Handle, TooManyTimers, VirtualRuntime};
pub use workload::{Answered, CollectionWorkload, Reply, Request, ShardWorkload, Visit};
