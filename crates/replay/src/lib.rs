//! Scenario files through the real crates on a virtual clock: "what would the broker do, the coordinator say, if ...?"
//!
//! A scenario is a small YAML document: a state, some events, and what must come out. [`replay`] runs one through the
//! crates that a broker or a coordinator is made of, never through a second model of them, so a person can ask and a test
//! can hold the answer. Nothing here reads a clock or a socket; the same text always gives the same outcome.
//!
//! The head of a file, its steps, the comparing and the telling are common to all kinds of scenarios; what the steps of
//! one kind mean is a module of its own. The folder `scenarios/` at the root of the repository describes the format and holds
//! examples.
//!
//! ```
//! use pointsman_replay::{Format, Options, replay};
//!
//! let text = "
//! kind: routing
//! name: an-excluded-node-serves-nothing
//! about: n1 fails, so n2 answers for both segments
//! steps:
//!   - nodes: {n1: {}, n2: {}}
//!   - collection:
//!       name: t
//!       segments:
//!         s0: {assigned: [n1, n2], observed: [n1, n2]}
//!         s1: {assigned: [n1, n2], observed: [n1, n2]}
//!   - mark_unhealthy: n1
//!   - select: {collection: t, request_id: 0}
//!     expect: {served: {s0: n2, s1: n1}}
//! ";
//! let outcome = replay(text, "it.yaml", &Options::default())?;
//! assert!(!outcome.passed());
//! assert_eq!(
//!     Format::Text.lines("it.yaml", &outcome),
//!     [r#"it.yaml: step 4 (line 13, select): served: expected {"s0":"n2","s1":"n1"}, got {"s0":"n2","s1":"n2"}"#],
//! );
//! # Ok::<(), pointsman_replay::ScenarioError>(())
//! ```

mod errors;
mod frame;
mod leaders;
mod outcome;
mod readiness;
mod report;
mod routing;
mod series;
mod shard_client;
mod source;
mod yaml;

pub use outcome::{Mismatch, Outcome, StepOutcome};
pub use report::{Format, Tally};
pub use source::Source;
pub use yaml::ScenarioError;

/// What a replay does besides comparing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Explain each choice of a node, each answer of the coordinator, and each try of a request by shard, in
    /// [`StepOutcome::explanation`].
    pub explain: bool,
}

/// Runs the scenario in a text. `name` is how errors call the file.
///
/// # Errors
/// The text is no scenario: no YAML or not exactly one document, an unknown kind or key, a wrong type, a reference to
/// something undeclared. An expectation that does not hold is no error; see [`Outcome::passed`].
pub fn replay(text: &str, name: &str, options: &Options) -> Result<Outcome, ScenarioError> {
    let replayed = yaml::parse(text).and_then(|root| frame::replay(&root, options));
    replayed.map_err(|error| error.in_file(name))
}
