//! Whether a node may be forgotten.

use std::collections::BTreeMap;

use pointsman_ids::{Error, ErrorCode, NodeName};

use crate::{SessionState, Stores, copies_on};

/// Whether nothing is lost when a node is forgotten: it is away for certain, and no replica wants a segment of it or
/// still counts on a copy that it may have.
///
/// # Errors
/// `service_not_ready` while it may merely not have been heard yet; `parameter_invalid` naming what holds it, and what
/// to do.
pub fn may_remove(stores: &Stores, node: &NodeName) -> Result<(), Error> {
    let invalid = |text: String| Err(Error::new(ErrorCode::ParameterInvalid, text));
    match stores.session(node.as_str()) {
        SessionState::Awaited => {
            let text = format!(
                "node '{node}' was not heard since this coordinator became active and may be alive; try again when its \
                 lease is over"
            );
            Err(Error::new(ErrorCode::ServiceNotReady, text))
        }
        _ if stores.leaving.drains.contains_key(node) && stores.is_present(node.as_str()) => {
            invalid(format!("node '{node}' is being drained; stop it once it is drained"))
        }
        SessionState::Live => invalid(format!("node '{node}' is live; stop it first")),
        SessionState::Stopping => invalid(format!("node '{node}' is stopping; wait until it is gone")),
        SessionState::Lost | SessionState::Gone => match places(stores, node) {
            places if places.is_empty() => Ok(()),
            places => invalid(format!(
                "node '{node}' is the place of {}; start it again, let others take its segments over, or release what \
                 is loaded on it",
                places.join(", ")
            )),
        },
    }
}

/// What a node should hold, or holds until others do, in words, by collection.
fn places(stores: &Stores, node: &NodeName) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for replica in stores.replicas.iter() {
        let Some(store) = stores.collections.get(&replica.collection) else { continue };
        let count = copies_on(stores, replica, node).len();
        *counts.entry(store.collection.name.as_str()).or_default() += count;
    }
    let words = |(name, count)| match count {
        0 => None,
        1 => Some(format!("1 segment of '{name}'")),
        _ => Some(format!("{count} segments of '{name}'")),
    };
    counts.into_iter().filter_map(words).collect()
}
