//! The parts of a query: one test per rule, and what holds for every course of events.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod common;
mod groups;
mod merge;
mod retries;
mod whole;
