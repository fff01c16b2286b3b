//! The wire contract: generated messages and services, and fallible conversions between them and the plain values
//! of `pointsman-ids`. It decides nothing.
//!
//! Conversions *to* values are fallible, since a peer may send anything; conversions *from* values are not. A
//! failed call travels as a gRPC status with one [`common::v1::Error`] in its details: [`status`] writes it,
//! [`error`] reads it.
//!
//! ```
//! use pointsman_ids::{Error, ErrorCode};
//!
//! let sent = Error::new(ErrorCode::CollectionNotFound, "no collection 'orders'");
//! let status: tonic::Status = pointsman_proto::status(&sent);
//! assert_eq!(pointsman_proto::error(&status), sent);
//! ```

mod convert;
pub mod encoded;
mod positions;
mod status;

pub use convert::{
    collection_digest, column_from_proto, column_to_proto, segment_from_proto, segment_to_proto,
    snapshot_in_columns,
};
pub use positions::{from_positions, positions};
pub use status::{details, error, error_from_proto, error_to_proto, status, status_of};

/// Serialized `FileDescriptorSet` of the whole contract.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));

macro_rules! package {
    ($(#[$doc:meta])* $side:ident, $path:literal) => {
        $(#[$doc])*
        pub mod $side {
            /// Version 1.
            #[allow(missing_docs, clippy::all, clippy::allow_attributes_without_reason, reason = "generated; the proto files hold the documentation")]
            pub mod v1 {
                tonic::include_proto!($path);
            }
        }
    };
}

package! {
    /// Messages that several services share.
    common, "pointsman.common.v1"
}
package! {
    /// Services of the coordinator for people and tools.
    coordinator, "pointsman.coordinator.v1"
}
package! {
    /// The session between nodes and the coordinator.
    node, "pointsman.node.v1"
}
package! {
    /// The routing feed and the broker's own service.
    broker, "pointsman.broker.v1"
}
