//! Compiles the contract with `protox`, so that no `protoc` has to be installed.

use std::{env, fs, path::PathBuf};

use prost_types::{FileDescriptorSet, field_descriptor_proto};
use tonic_prost_build::manual;

const FILES: &[&str] = &[
    "pointsman/common/v1/error.proto",
    "pointsman/common/v1/request.proto",
    "pointsman/common/v1/schema.proto",
    "pointsman/coordinator/v1/catalog.proto",
    "pointsman/coordinator/v1/query_coord.proto",
    "pointsman/coordinator/v1/resource_groups.proto",
    "pointsman/coordinator/v1/cluster.proto",
    "pointsman/coordinator/v1/config.proto",
    "pointsman/node/v1/session.proto",
    "pointsman/node/v1/shard_requests.proto",
    "pointsman/broker/v1/feed.proto",
    "pointsman/broker/v1/route.proto",
    "pointsman/broker/v1/shard_requests.proto",
    "pointsman/broker/v1/status.proto",
];

/// Lists of positions that are bytes in Rust, as they lie in the message: read and written without a step per segment.
const POSITIONS: (&str, &[&str]) = ("RoutedPart", &["segments", "optional_segments", "fail_open_segments"]);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Read when it runs: a target directory may be shared by several checkouts.
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?)
        .join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("descriptors.binpb"), prost::Message::encode_to_vec(&descriptors))?;
    positions_as_bytes(&mut descriptors);
    tonic_prost_build::configure().bytes(".pointsman.broker.v1.RoutedPart").compile_fds(descriptors)?;
    manual::Builder::new().build_client(false).compile(&[encoded_routing()]);
    Ok(())
}

/// Packed `fixed32` and `bytes` are the same on the wire.
fn positions_as_bytes(descriptors: &mut FileDescriptorSet) {
    let (message, names) = POSITIONS;
    let messages = descriptors.file.iter_mut().flat_map(|file| &mut file.message_type);
    let fields = messages.filter(|known| known.name() == message).flat_map(|known| &mut known.field);
    for field in fields.filter(|field| names.contains(&field.name())) {
        field.set_type(field_descriptor_proto::Type::Bytes);
        field.set_label(field_descriptor_proto::Label::Optional);
    }
}

/// The server of `Routing` whose answers are encoded already.
fn encoded_routing() -> manual::Service {
    let route = manual::Method::builder()
        .name("route")
        .route_name("Route")
        .input_type("crate::broker::v1::RouteRequest")
        .output_type("crate::encoded::Encoded")
        .codec_path("crate::encoded::EncodedCodec")
        .comment("`Route` of the contract.");
    manual::Service::builder()
        .name("Routing")
        .package("pointsman.broker.v1")
        .comment("`Routing` of the contract, with answers that are encoded already.")
        .method(route.build())
        .build()
}
