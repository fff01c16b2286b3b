//! Segment states and selectors: which node answers for which segment.
//!
//! [`States`] hold, for every segment of a collection, its candidates: the nodes that should serve it and have it.
//! They are built from the routing feed and change with it alone. [`Nodes`] hold who is enabled and who is excluded;
//! an exclusion makes new [`Nodes`] and touches no segment. Both are immutable values. [`select`] is a function of
//! (states, nodes, request): the same input always gives the same choice. It is linear in the requested segments,
//! takes no lock and allocates per request, not per segment.
//!
//! ```
//! use std::collections::BTreeSet;
//! use pointsman_instance_selector::{Nodes, Request, States, select};
//! use pointsman_ids::feed::Snapshot;
//!
//! let snapshot = Snapshot::empty("local".parse()?);
//! let nodes = Nodes::new(&snapshot.nodes, |_| false);
//! for collection in &snapshot.collections {
//!     let states = States::new(collection, &nodes);
//!     let selection = select(&states, &nodes, &Request::all(&states, 1))?;
//!     for (node, segments) in selection.parts() {
//!         println!("{} answers for {} segments", nodes.entry(node).name, segments.len());
//!     }
//! }
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod nodes;
mod select;
mod selection;
mod states;

pub use nodes::{NodeIndex, NodeSet, Nodes};
pub use select::{Request, Segments, select};
pub use selection::Selection;
pub use states::{Candidate, States};
