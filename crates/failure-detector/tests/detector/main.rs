//! The rules of the failure detector, one test each.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod common;
mod marks;
mod membership;
mod retries;
mod suspicions;
