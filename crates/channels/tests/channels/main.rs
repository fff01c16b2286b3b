//! Channels against real servers, and against networks that misbehave on purpose.

mod calls;
mod net;
mod probes;
