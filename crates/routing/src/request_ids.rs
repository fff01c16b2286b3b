//! Request ids of one query.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pointsman_ids::{CollectionId, feed::CollectionEntry};

use crate::RoutingView;

/// The request ids of one query: one per collection, the same for all of its scans and for every attempt.
#[derive(Debug, Default)]
pub struct RequestIds {
    taken: Mutex<BTreeMap<CollectionId, u64>>,
}

impl RequestIds {
    /// The query's id for a collection; taken from the collection's counter when it is first asked for.
    pub fn of(&self, view: &RoutingView, collection: &CollectionEntry) -> u64 {
        *self.taken.lock().entry(collection.id).or_insert_with(|| view.next_request_id(collection))
    }
}
