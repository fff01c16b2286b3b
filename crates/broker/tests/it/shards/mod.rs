//! Requests by shard: a broker between a coordinator that is played and nodes that answer by the engine.

mod answers;
mod beyond;
mod checks;
mod cluster;
mod coordinator;
mod failures;
mod leader;
mod leaders;
mod limits;
