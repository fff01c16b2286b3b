//! The content of a collection in short.

use pointsman_ids::{FeedVersion, feed::CollectionEntry};
use prost::Message;

use super::feed::{collection_to_proto, leaders_to_proto, segment_to_proto};

/// BLAKE3 over all that the feed says of a collection, apart from its version: two that say the same have the same
/// digest, whoever said it. Costs a pass over its segments.
pub fn collection_digest(entry: &CollectionEntry) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut add = |message: Vec<u8>| {
        hasher.update(&message);
    };
    let head = CollectionEntry { version: FeedVersion(0), ..entry.head() };
    add(collection_to_proto(&head).encode_length_delimited_to_vec());
    for segment in &entry.segments {
        add(segment_to_proto(segment).encode_length_delimited_to_vec());
    }
    for leaders in &entry.leaders {
        add(leaders_to_proto(leaders).encode_length_delimited_to_vec());
    }
    hasher.finalize().into()
}
