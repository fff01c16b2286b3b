//! Compiles the contract with `protox`, so that no `protoc` has to be installed.

use std::{env, fs, path::PathBuf};

const FILES: &[&str] = &[
    "pointsman/common/v1/error.proto",
    "pointsman/common/v1/schema.proto",
    "pointsman/coordinator/v1/catalog.proto",
    "pointsman/coordinator/v1/query_coord.proto",
    "pointsman/coordinator/v1/resource_groups.proto",
    "pointsman/coordinator/v1/cluster.proto",
    "pointsman/coordinator/v1/config.proto",
    "pointsman/node/v1/session.proto",
    "pointsman/broker/v1/feed.proto",
    "pointsman/broker/v1/route.proto",
    "pointsman/broker/v1/status.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Read when it runs: a target directory may be shared by several checkouts.
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?)
        .join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("descriptors.binpb"), prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
