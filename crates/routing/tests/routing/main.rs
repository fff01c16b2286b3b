//! Routing as a broker uses it: against a coordinator and nodes that are real servers, and its synchronous core alone.

mod coordinator;
mod core;
mod feed;
mod health;
mod stored;
mod values;
