//! Whose shard leaders are to be asked for again.

use std::collections::{BTreeMap, BTreeSet};

use crate::{CollectionId, FeedVersion};

/// Whose shard leaders may be others by now: who keeps leaders of such a collection drops them and asks again. Whoever is
/// told everything anew, and not what changed, drops all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderDrops {
    /// Those of these collections, each with the newest version that dropped them.
    Of(BTreeMap<CollectionId, FeedVersion>),
    /// Those of every collection: which were dropped meanwhile is not known.
    All,
}

impl Default for LeaderDrops {
    fn default() -> Self {
        Self::Of(BTreeMap::new())
    }
}

impl LeaderDrops {
    /// Those of these collections, dropped by one version.
    pub fn at(version: FeedVersion, collections: BTreeSet<CollectionId>) -> Self {
        Self::Of(collections.into_iter().map(|collection| (collection, version)).collect())
    }

    /// What was dropped before, and what a later version drops.
    pub(super) fn then(&self, later: &Self) -> Self {
        match (self, later) {
            (Self::Of(earlier), Self::Of(later)) => Self::Of(
                earlier.iter().chain(later).map(|(collection, version)| (*collection, *version)).collect(),
            ),
            _ => Self::All,
        }
    }
}
