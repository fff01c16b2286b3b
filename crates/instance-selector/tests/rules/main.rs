//! The rules of choice, one test each.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

mod change;
mod choice;
mod consistency;
mod explain;
mod fail_open;
mod health;
mod many;
mod multi_stage;
mod new_segments;
mod properties;
mod ranking;
mod scope;
mod settings;
mod world;
