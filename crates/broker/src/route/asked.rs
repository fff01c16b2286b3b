//! What a statement would ask for, without routing it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_engine::{Routed, Router};
use pointsman_ids::{CollectionName, NodeKey, Result, feed::CollectionEntry};
use url::Url;

/// A router that notes the segments that scans ask for and gives them to nobody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    positions: Arc<Mutex<BTreeMap<CollectionName, BTreeSet<u32>>>>,
}

impl Asked {
    /// Positions by collection: what statistics leave of it for any scan of the statement.
    pub(crate) fn positions(&self) -> BTreeMap<CollectionName, Vec<u32>> {
        let positions = self.positions.lock();
        positions
            .iter()
            .map(|(name, positions)| (name.clone(), positions.iter().copied().collect()))
            .collect()
    }
}

impl Router for Asked {
    fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
        self.positions.lock().entry(collection.name.clone()).or_default().extend(segments);
        Ok(Routed::default())
    }

    fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
        vec![]
    }
}
