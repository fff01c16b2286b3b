//! Questions to rows, over real Parquet files.

mod answers;
mod indexes;
mod laws;
mod model;
mod refused;
mod wire;
mod world;
