//! Request ids of one query.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pointsman_ids::{CollectionName, feed::CollectionEntry};

use crate::RoutingView;

/// The request ids of one query: one per collection, the same for all of its scans and for every attempt. By name, since
/// clusters number their collections each on their own.
#[derive(Debug, Default)]
pub struct RequestIds {
    taken: Mutex<BTreeMap<CollectionName, u64>>,
}

impl RequestIds {
    /// The query's id for a collection; taken from the collection's counter when it is first asked for.
    pub fn of(&self, view: &RoutingView, collection: &CollectionEntry) -> u64 {
        let mut taken = self.taken.lock();
        *taken.entry(collection.name.clone()).or_insert_with(|| view.next_request_id(collection))
    }
}
