//! What people are told of nodes that leave.

use std::time::Duration;

use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{LastCopy, Move, Served, Stores};

use super::brokers::Missing;
use crate::brokers::LiveBroker;

/// Entries of a list at most.
const LISTED: usize = 1000;

/// Milliseconds, at least one of what is not nothing.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub(super) fn copies(stores: &Stores, copies: &[LastCopy]) -> Vec<pb::LastCopy> {
    copies.iter().take(LISTED).map(|last| copy(stores, last)).collect()
}

fn copy(stores: &Stores, copy: &LastCopy) -> pb::LastCopy {
    let collection = stores.collections.get(&copy.collection);
    let (segment, shard) = match &copy.what {
        Served::Lead(shard) => (String::new(), shard.to_string()),
        Served::Segment(id) => stores
            .segment(copy.collection, *id)
            .map(|segment| (segment.segment.content.name.to_string(), segment.segment.shard.to_string()))
            .unwrap_or_default(),
    };
    pb::LastCopy {
        collection: collection.map(|store| store.collection.name.to_string()).unwrap_or_default(),
        resource_group: copy.group.to_string(),
        segment,
        shard,
    }
}

pub(super) fn moves(stores: &Stores, moves: &[Move]) -> Vec<pb::Move> {
    let message = |moved: &Move| {
        let failure = match (&moved.what.what, &moved.to) {
            (Served::Segment(id), Some(to)) => stores.failures.get(id).and_then(|nodes| nodes.get(to)),
            _ => None,
        };
        pb::Move {
            what: Some(copy(stores, &moved.what)),
            to: moved.to.as_ref().map(ToString::to_string).unwrap_or_default(),
            failure: failure.map(|failure| failure.error.to_string()).unwrap_or_default(),
        }
    };
    moves.iter().take(LISTED).map(message).collect()
}

pub(super) fn lagging(missing: Missing) -> Vec<pb::Broker> {
    missing.lagging.into_iter().map(|(name, broker)| broker_message(name, broker)).collect()
}

/// A live broker.
pub(crate) fn broker_message(name: String, broker: LiveBroker) -> pb::Broker {
    pb::Broker { name, sent_version: broker.sent.0, applied_version: broker.routes_by.0 }
}
