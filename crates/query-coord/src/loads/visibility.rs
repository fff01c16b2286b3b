//! When replicas become visible to queries that were created invisible.

use crate::{Replica, Stores, is_serviceable};

/// All invisible replicas of all collections, made visible; none while one of them is not serviceable.
pub fn newly_visible(stores: &Stores) -> Vec<Replica> {
    let invisible = || stores.replicas.iter().filter(|replica| !replica.query_visible);
    if !invisible().all(|replica| is_serviceable(stores, replica)) {
        return Vec::new();
    }
    invisible().map(|replica| Replica { query_visible: true, ..Replica::clone(replica) }).collect()
}
