//! Balance over many rounds: it comes to rest, every move pays, and drains end.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod properties;
