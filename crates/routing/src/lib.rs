//! What a broker routes by.
//!
//! [`Core`] is the synchronous heart: it takes the feeds of one or several clusters and what happens to their nodes,
//! and makes a [`RoutingView`] of it, an immutable value with catalog, nodes and the candidates of every segment. A
//! query takes one view and uses it to its end; readers take no lock. [`RoutingView::route`] is a function of view and
//! request.
//!
//! [`Routing`] drives a core: it watches the coordinators' feeds, publishes each view behind one atomic pointer, keeps
//! the newest snapshot on disk, so that a broker goes on, and starts, while the coordinator is away, and carries out
//! the failure detector's probes.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use pointsman_ids::{FeedVersion, feed::Snapshot};
//! use pointsman_routing::{Core, CoreSettings, RouteRequest};
//!
//! let mut core = Core::new(CoreSettings {
//!     clusters: vec!["home".parse()?],
//!     detector: Default::default(),
//!     new_segment_window: Duration::from_secs(300),
//!     fail_open: Default::default(),
//!     adaptive: Default::default(),
//!     started_at: 0,
//! })?;
//! let snapshot = Snapshot { version: FeedVersion(1), ..Snapshot::empty("home".parse()?) };
//! core.apply(snapshot, Duration::ZERO)?;
//!
//! let view = Arc::clone(core.view());
//! let error = view.route(&RouteRequest::all("orders", 0)).unwrap_err();
//! assert!(error.message().contains("'orders'"));
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod acknowledge;
mod cluster;
mod collections;
mod core;
mod counters;
mod explain;
mod gaps;
mod holding;
mod inputs;
mod keeper;
mod manager;
mod members;
mod pace;
mod part;
mod probes;
mod reports;
mod request;
mod request_ids;
mod route;
mod routing;
mod samplers;
mod samples;
mod saver;
mod settings;
mod spanning;
mod split;
mod stages;
mod status;
mod store;
mod switches;
mod together;
mod touched;
mod view;
mod watch;

pub use cluster::RoutedNode;
pub use core::{Core, CoreSettings};
pub use explain::{CandidateExplanation, SegmentExplanation};
pub use request::{RouteRequest, RoutedPart, RoutingTable, Unavailable, Wanted};
pub use request_ids::RequestIds;
pub use routing::Routing;
pub use samples::{Sample, SampleKind};
pub use settings::{ClusterSettings, Deps, KeepsLeaders, Settings};
pub use status::{FeedState, NodeStatus};
pub use switches::FAIL_OPEN_KEY;
pub use view::{Exclusion, RoutingView};
