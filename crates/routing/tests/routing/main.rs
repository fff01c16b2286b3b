//! Routing as a broker uses it: against a coordinator and nodes that are real servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod clusters;
mod coordinator;
mod deltas;
mod feed;
mod health;
mod stored;
mod values;
