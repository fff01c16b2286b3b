//! Scenario files from the outside: what is refused, what is told, and that all scenarios of the repository pass.

#![expect(clippy::unwrap_used, reason = "tests end by panicking")]

mod assertions;
mod fuzz;
mod mutations;
mod outcomes;
mod readiness;
mod refusals;
mod samples;
mod shard_client;
mod sources;
