//! The coordinator's answers: against a model that is written from the rules, and where scenario files cannot reach.

#![expect(clippy::unwrap_used, reason = "tests end by panicking")]

mod behind;
mod causes;
mod failures;
mod health;
mod model;
mod properties;
mod registered;
mod world;
