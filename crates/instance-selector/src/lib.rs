//! Segment states and selectors: which node answers for which segment.
//!
//! [`States`] hold, for every segment of a collection, its candidates: the nodes that should serve it and have it, or,
//! while it is new, that will. They are built from assignment and observation and change by [`Edit`]s, at the cost of
//! what changes. [`Nodes`] hold who is a member, enabled and excluded; an exclusion makes new [`Nodes`] and touches no
//! segment. Both are immutable values that many threads read at once.
//!
//! [`select`] is a function of (states, nodes, request): the same input always gives the same choice. It is linear in
//! the requested segments, takes no lock, and allocates per request and not per segment. When nothing healthy is left it
//! fails open, for all or for none. [`explain`] makes the same selection and tells how it came about.
//!
//! What the crate does not know: names of segments (they go by position), addresses, sockets and clocks; `now` comes in.
//!
//! ```
//! use std::time::Duration;
//! use pointsman_ids::{GroupNumber, catalog::RoutingOptions, feed::CopyState};
//! use pointsman_instance_selector::{
//!     CopyInput, FailOpen, Membership, NodeTable, Nodes, Request, SegmentInput, States, StatesSettings, select,
//! };
//!
//! // Two enabled nodes, of which the failure detector has taken out the second.
//! let mut table = NodeTable::default();
//! let places = [table.intern(&"n1".parse()?), table.intern(&"n2".parse()?)];
//! let member = Membership { enabled: true, pool: GroupNumber(0) };
//! let nodes = Nodes::new(table, places.map(|node| (node, member)), |name| name.as_str() == "n2");
//!
//! // Segment 0 lies on both, segment 1 on the second alone.
//! let online = Some(CopyState::Online);
//! let copies = places.map(|node| CopyInput { node, group: GroupNumber(0), assigned: online, observed: online });
//! let segment = |copies| SegmentInput { promoted: true, age: Duration::ZERO, copies };
//! let settings = StatesSettings {
//!     collection: "orders".parse()?,
//!     routing: &RoutingOptions::default(),
//!     replica_groups: Default::default(),
//!     new_segment_window: Duration::from_secs(300),
//!     adaptive: false,
//! };
//! let states = States::build(&settings, &nodes, [segment(&copies), segment(&copies[1..])], Duration::ZERO)?;
//!
//! let selection = select(&states, &nodes, &Request::all(7))?;
//! let parts: Vec<_> = selection.parts.iter().map(|part| (part.node, &part.segments[..])).collect();
//! assert_eq!(parts, [(places[0], &[0][..])]);
//! assert_eq!(selection.unavailable.len(), 1);
//!
//! // With fail-open the second node is tried rather than its segment dropped.
//! let fail_open = FailOpen { enabled: true, ..FailOpen::default() };
//! let selection = select(&states, &nodes, &Request { fail_open, ..Request::all(7) })?;
//! assert_eq!((selection.served(), &selection.fail_open[..]), (2, &[1][..]));
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod adaptive;
mod candidate;
mod change;
mod explain;
mod groups;
mod health;
mod input;
mod node_set;
mod nodes;
mod placement;
mod request;
mod scores;
mod segment;
mod select;
mod selection;
mod settings;
mod sighting;
mod states;
mod statistics;
mod table;

pub use adaptive::{AdaptiveKind, AdaptiveSettings, Measured};
pub use candidate::Candidate;
pub use explain::{Explained, Explanation, Fate, NodeVerdict, Verdict, explain};
pub use health::Health;
pub use input::{CopyInput, Edit, SegmentInput};
pub use node_set::NodeSet;
pub use nodes::{Membership, Nodes};
pub use request::{FailOpen, Request, SegmentNames, Segments};
pub use scores::{Scores, Standing};
pub use select::{FailOpenGate, Rule, select};
pub use selection::{Part, Selection};
pub use settings::StatesSettings;
pub use states::{Segment, States};
pub use statistics::{Ended, InFlight, NodeStatistics, decay};
pub use table::{NodeIndex, NodeTable};
