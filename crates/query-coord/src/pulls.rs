//! Which targets were found to hold what the catalog has, so that nobody compares them again while nothing changes.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{CollectionId, catalog::Collection};

use crate::{CollectionStore, Target};

/// By collection: the target that was compared last, and the contents of the catalog then.
#[derive(Clone, Debug, Default)]
pub struct Pulls(BTreeMap<CollectionId, Compared>);

#[derive(Clone, Debug)]
struct Compared {
    contents: Arc<()>,
    collection: Arc<Collection>,
    target: Arc<Target>,
}

impl Pulls {
    /// Notes that a target needs nothing of the catalog as it is.
    pub(crate) fn note(&mut self, store: &CollectionStore, target: &Arc<Target>) {
        let (contents, collection) = (Arc::clone(store.contents()), Arc::clone(&store.collection));
        self.0.insert(target.collection, Compared { contents, collection, target: Arc::clone(target) });
    }

    /// Whether that was noted of the target, and the catalog is the same.
    pub(crate) fn holds(&self, store: &CollectionStore, target: &Arc<Target>) -> bool {
        self.0.get(&target.collection).is_some_and(|known| {
            Arc::ptr_eq(&known.contents, store.contents())
                && Arc::ptr_eq(&known.collection, &store.collection)
                && Arc::ptr_eq(&known.target, target)
        })
    }

    /// Forgets a collection that is not loaded any more.
    pub(crate) fn forget(&mut self, collection: CollectionId) {
        self.0.remove(&collection);
    }
}
