//! What only one of the databases can do, or does in its own way: opening, the schema, outages, plans.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod backup;
mod failover;
#[path = "../fixture/mod.rs"]
mod fixture;
mod opening;
mod outage;
mod plans;
mod relay;
mod schema;
mod tables;
