//! Requests by shard: the leader of a shard answers from its own segments and from those of other nodes of its replica.

mod answering;
mod broken;
mod load;
mod service;
mod share;
mod siblings;
mod time;
mod watch;

use std::sync::Arc;

use pointsman_channels::Channels;
use pointsman_engine::rows::{MAX_ANSWER_BYTES, Memory, RowStore};
use pointsman_proto::node::v1::shard_requests_server::ShardRequestsServer;

pub(crate) use self::load::{Figures, Limits, Load};
use self::siblings::Siblings;
use crate::{cache::HeldSegments, leads::Leads};

/// The largest request: well above what a question may have. What is larger is refused before it is read.
const MAX_REQUEST: usize = 64 << 20;
/// The largest answer, with what stands around its rows.
const MAX_ANSWER: usize = MAX_ANSWER_BYTES + (4 << 20);

/// The service. Clones are one and the same.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    leads: Leads,
    held: HeldSegments,
    store: Arc<dyn RowStore>,
    memory: Memory,
    siblings: Siblings,
    load: Load,
}

impl Shards {
    /// A service over what the node leads and holds. Other nodes are reached through `channels`.
    pub(crate) fn new(
        leads: Leads,
        held: HeldSegments,
        memory: Memory,
        channels: Channels,
        load: Load,
    ) -> Self {
        let store = Arc::new(held.clone());
        Self { leads, held, store, memory, siblings: Siblings::new(channels), load }
    }

    /// The service for gRPC.
    pub(crate) fn server(self) -> ShardRequestsServer<Self> {
        ShardRequestsServer::new(self)
            .max_decoding_message_size(MAX_REQUEST)
            .max_encoding_message_size(MAX_ANSWER)
    }
}
