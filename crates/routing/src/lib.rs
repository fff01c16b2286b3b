//! What a broker routes by.
//!
//! [`Routing`] watches the coordinator's feed and publishes a [`RoutingView`] behind one atomic pointer: catalog,
//! nodes and the candidates of every segment at one version. A query takes one view and uses it to its end; readers
//! never wait for writers. The newest snapshot is kept on disk, so that a broker goes on, and starts, while the
//! coordinator is away. The same task drives the failure detector: queries report nodes that died under them, probes
//! bring them back, and each change makes a new view beside the query path.
//!
//! ```no_run
//! use std::{collections::BTreeSet, sync::Arc, time::Duration};
//! use pointsman_channels::{ChannelSettings, Channels};
//! use pointsman_clock::SystemClock;
//! use pointsman_routing::{Deps, Routing, SelectOptions, Settings};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> pointsman_ids::Result<()> {
//! let settings = Settings {
//!     broker: "broker-1".into(),
//!     cluster: "local".parse()?,
//!     coordinators: vec!["http://127.0.0.1:8190".parse().unwrap()],
//!     data_dir: "pointsman-data/broker".into(),
//!     max_snapshot_age: Duration::from_secs(24 * 3600),
//!     detector: pointsman_failure_detector::Settings::default(),
//!     probe_timeout: Duration::from_secs(2),
//! };
//! let deps = Deps {
//!     clock: Arc::new(SystemClock::default()),
//!     seed: 7,
//!     channels: Channels::tcp(ChannelSettings::default()),
//!     coordinator_channels: Channels::tcp(ChannelSettings::default()),
//! };
//! let routing = Routing::start(settings, deps, CancellationToken::new()).await?;
//! let view = routing.view();
//! if let Some(orders) = view.collection("orders") {
//!     let none = BTreeSet::new();
//!     let options = SelectOptions::new(view.next_request_id(orders), &none);
//!     let selection = view.select(orders, &[0, 1, 2], &options)?;
//!     for (node, segments) in selection.parts() {
//!         println!("{} scans {segments:?}", view.node(node).url);
//!     }
//! }
//! # Ok(()) }
//! ```

mod core;
mod keeper;
mod probes;
mod request_ids;
mod routing;
mod status;
mod store;
mod view;
mod watch;

pub use core::Core;
pub use request_ids::RequestIds;
pub use routing::{Deps, Routing, Settings};
pub use status::{FeedState, NodeStatus};
pub use view::{Exclusion, RoutedNode, RoutingView, SelectOptions};
