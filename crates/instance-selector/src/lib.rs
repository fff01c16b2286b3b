//! Segment states and selectors: which node answers for which segment.

mod adaptive;
mod candidate;
mod change;
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
