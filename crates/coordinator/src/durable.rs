//! What the metastore holds, read into memory whole.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, CollectionName};
use pointsman_metastore::{Result, SharedMetastore};
use pointsman_query_coord::{
    CatalogSegment, CollectionStore, LoadRecord, NodeRecord, Replica, ResourceGroup, Stores, Target,
};

/// Everything durable.
#[derive(Debug)]
pub(crate) struct Durable {
    collections: Vec<CollectionStore>,
    dropped: Vec<CatalogSegment>,
    groups: Vec<ResourceGroup>,
    config: BTreeMap<String, String>,
    nodes: Vec<NodeRecord>,
    loads: Vec<LoadRecord>,
    replicas: Vec<Replica>,
    targets: Vec<Target>,
}

/// Reads everything.
pub(crate) async fn load(metastore: &SharedMetastore) -> Result<Durable> {
    let mut collections = Vec::new();
    for collection in metastore.collections().await? {
        let id = collection.id;
        let mut store = CollectionStore::new(collection);
        metastore.segments(id).await?.into_iter().for_each(|segment| store.insert(segment));
        collections.push(store);
    }
    Ok(Durable {
        collections,
        dropped: metastore.dropped_segments().await?.into_iter().map(CatalogSegment::new).collect(),
        groups: metastore.groups().await?,
        config: metastore.config().await?,
        nodes: metastore.nodes().await?,
        loads: metastore.loads().await?,
        replicas: metastore.replicas().await?,
        targets: metastore.current_targets().await?,
    })
}

/// Puts what was read in the place of what was there.
pub(crate) trait ReplaceDurable {
    /// Replaces everything durable. Next targets of loads that are gone go too; the rest is rebuilt.
    fn replace_durable(&mut self, durable: Durable);
}

impl ReplaceDurable for Stores {
    fn replace_durable(&mut self, durable: Durable) {
        let names = |store: &CollectionStore| -> (CollectionName, CollectionId) {
            (store.collection.name.clone(), store.collection.id)
        };
        self.names = durable.collections.iter().map(names).collect();
        self.collections = by(durable.collections, |store| store.collection.id);
        self.dropped = by(durable.dropped, |segment| segment.segment.id);
        self.groups = by(durable.groups, |group| group.name.clone());
        self.config = durable.config;
        self.nodes = by(durable.nodes, |node| node.name.clone());
        self.loads = by(durable.loads, |load| load.collection);
        // A replica whose collection has no registration is nobody's.
        self.replicas = by(durable.replicas, |replica| replica.id);
        self.replicas.retain(|_, replica| self.loads.contains_key(&replica.collection));
        self.current = by(durable.targets, |target| target.collection);
        self.current.retain(|collection, _| self.loads.contains_key(collection));
        self.next.retain(|collection, _| self.loads.contains_key(collection));
    }
}

fn by<K: Ord, V>(values: Vec<V>, key: impl Fn(&V) -> K) -> BTreeMap<K, V> {
    values.into_iter().map(|value| (key(&value), value)).collect()
}
