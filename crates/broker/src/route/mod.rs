//! How requests are routed, for people and tools: nothing is run here.

mod asked;
mod grpc;
mod reasons;
mod words;

pub(crate) use asked::Asked;
pub(crate) use grpc::RoutingService;
pub(crate) use reasons::{SegmentReason, reasons};
pub(crate) use words::state;
