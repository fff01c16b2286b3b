//! The synchronous core: one test per rule, and properties over random histories.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod clusters;
mod collections;
mod explaining;
mod fail_open;
mod feed;
mod figures;
mod membership;
mod properties;
mod samplers;
mod stages;
mod world;
