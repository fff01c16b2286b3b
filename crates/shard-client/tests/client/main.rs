//! The client over an in-memory transport, on a virtual clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod balancers;
mod beyond;
mod cache;
mod cancel;
mod nodes;
mod over_tokio;
mod pools;
mod simulation;
mod world;
