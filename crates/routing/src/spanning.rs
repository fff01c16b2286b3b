//! Collections that span clusters: one entry made of the parts, and where each part's segments lie in it.

use std::sync::{Arc, atomic::AtomicU64};

use pointsman_ids::{ClusterName, feed::CollectionEntry};

use crate::{
    cluster::{ClusterView, Routed},
    touched::place,
};

/// A collection as the whole broker sees it.
#[derive(Clone, Debug)]
pub(crate) struct Spanning {
    /// The definition of the local cluster (without one, of the first that has the collection), with the segments of
    /// all parts, one part after the other. A collection of one part is that part's entry itself.
    pub(crate) entry: Arc<CollectionEntry>,
    /// In the order of the clusters.
    pub(crate) parts: Vec<Span>,
    /// Clusters that it spans and of which there is no snapshot.
    pub(crate) missing: Vec<ClusterName>,
    /// How many requested segments no part knew; counted on as long as any cluster has the collection.
    pub(crate) unknown: Arc<AtomicU64>,
}

/// One cluster's part of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The cluster's place among those of the broker; 0 is the local one.
    pub(crate) cluster: usize,
    /// Position of the part's first segment.
    pub(crate) start: u32,
    /// Number of its segments.
    pub(crate) len: u32,
}

impl Span {
    /// The part's own position of one of the collection, if it lies in this part.
    pub(crate) fn own(&self, position: u32) -> Option<u32> {
        position.checked_sub(self.start).filter(|own| *own < self.len)
    }
}

impl Spanning {
    /// The collection of this name over all clusters, local first; `None`: no running cluster has it.
    ///
    /// Which clusters it spans is the word of the local catalog. One that the local catalog does not know is routed
    /// wherever it is.
    pub(crate) fn of(name: &str, clusters: &[Arc<ClusterView>], unknown: Arc<AtomicU64>) -> Option<Self> {
        let entry = |cluster: &ClusterView| cluster.collections.get(name).map(Routed::entry).cloned();
        let local = clusters.first().and_then(|local| entry(local));
        let spans = |at: usize, cluster: &ClusterView| match &local {
            Some(local) if local.clusters.is_empty() => at == 0,
            Some(local) => local.clusters.contains(&cluster.name),
            None => cluster.running || at == 0,
        };
        let (mut parts, mut entries, mut missing, mut start) = (vec![], vec![], vec![], 0);
        for (at, cluster) in clusters.iter().enumerate().filter(|(at, cluster)| spans(*at, cluster)) {
            if !cluster.running {
                missing.push(cluster.name.clone());
            } else if let Some(entry) = entry(cluster) {
                let len = place(entry.segments.len());
                parts.push(Span { cluster: at, start, len });
                start = start.saturating_add(len);
                entries.push(entry);
            }
        }
        let is_configured = |name: &&ClusterName| clusters.iter().any(|cluster| cluster.name == **name);
        let spanned = local.iter().flat_map(|local| &local.clusters);
        missing.extend(spanned.filter(|name| !is_configured(name)).cloned());
        let mut entry = merged(local.as_ref().or(entries.first())?, &entries);
        if entry.clusters.is_empty() && parts.len() > 1 {
            // Nobody but us knows that its segments are of several catalogs.
            let names = parts.iter().filter_map(|part| Some(clusters.get(part.cluster)?.name.clone()));
            Arc::make_mut(&mut entry).clusters = names.collect();
        }
        Some(Self { entry, parts, missing, unknown })
    }
}

fn merged(definition: &Arc<CollectionEntry>, parts: &[Arc<CollectionEntry>]) -> Arc<CollectionEntry> {
    match parts {
        [only] if Arc::ptr_eq(only, definition) => Arc::clone(only),
        [first, others @ ..] => {
            let mut segments = first.segments.clone();
            others.iter().for_each(|part| segments.append(part.segments.clone()));
            Arc::new(CollectionEntry { segments, leaders: definition.leaders.clone(), ..definition.head() })
        }
        [] => Arc::new(CollectionEntry { leaders: definition.leaders.clone(), ..definition.head() }),
    }
}
