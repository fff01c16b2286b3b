//! The engine against real workers on loopback and real Parquet files of TPC-H.

mod bounded;
mod cluster;
mod compare;
mod data;
mod failures;
mod pinning;
mod pruning;
mod relay;
mod retry;
mod shapes;
mod statements;
mod tpch;
