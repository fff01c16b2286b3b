//! What only one of the databases can do, or does in its own way: opening, the schema, outages, plans.

#[path = "../fixture/mod.rs"]
mod fixture;
mod opening;
mod outage;
mod plans;
mod relay;
mod schema;
