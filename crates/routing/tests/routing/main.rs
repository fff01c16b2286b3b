//! Routing as a broker uses it: against a coordinator and nodes that are real servers, and its synchronous core alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod coordinator;
mod core;
mod feed;
mod health;
mod stored;
mod values;
