//! A whole node against a coordinator that is scripted here: real files, real object store, real gRPC.

#![expect(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod coordinator;
mod drain;
mod indexes;
mod leads;
mod node;
mod program;
mod query;
mod restart;
mod segments;
mod sessions;
mod shards;
mod trouble;
mod vectors;
