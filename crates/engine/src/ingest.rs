//! From files to segments: what a Parquet file holds, exactly, and how CSV becomes one.
