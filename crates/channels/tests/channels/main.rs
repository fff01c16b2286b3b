//! Channels against real servers, and against networks that misbehave on purpose.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod calls;
mod net;
mod probes;
