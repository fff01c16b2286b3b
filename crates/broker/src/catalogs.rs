//! The engine's catalog, beside the routing view that it belongs to.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pointsman_engine::Catalog;
use pointsman_ids::feed::Snapshot;
use pointsman_routing::{Routing, RoutingView};
use tokio_util::sync::CancellationToken;

/// The catalog of the newest routing view. Rebuilt when a cluster's snapshot changes, beside the query path.
#[derive(Debug)]
pub(crate) struct Catalogs {
    newest: ArcSwap<Known>,
}

/// A catalog with the snapshots that it was derived from, cluster by cluster; `None`: the cluster was never connected.
#[derive(Debug)]
struct Known {
    sources: Vec<Option<Arc<Snapshot>>>,
    catalog: Arc<Catalog>,
}

impl Known {
    fn build(view: &RoutingView, previous: Option<&Catalog>) -> Self {
        let collections = view.collections().cloned().collect();
        let merged = Snapshot { collections, ..Snapshot::empty(view.cluster().clone()) };
        Self { sources: sources(view), catalog: Arc::new(Catalog::build(&merged, previous)) }
    }

    /// Whether these are the very snapshots of the view.
    fn is_of(&self, view: &RoutingView) -> bool {
        let mut sources = self.sources.iter();
        let is_same = view.clusters().all(|(_, snapshot)| match (sources.next(), snapshot) {
            (Some(Some(known)), Some(snapshot)) => Arc::ptr_eq(known, snapshot),
            (Some(None), None) => true,
            _ => false,
        });
        is_same && sources.next().is_none()
    }

    /// Whether some cluster's snapshot is newer than the view's.
    fn is_ahead_of(&self, view: &RoutingView) -> bool {
        let version = |snapshot: Option<&Arc<Snapshot>>| snapshot.map(|snapshot| snapshot.version);
        let versions = self.sources.iter().map(|known| version(known.as_ref()));
        versions.zip(view.clusters()).any(|(known, (_, snapshot))| known > version(snapshot))
    }
}

fn sources(view: &RoutingView) -> Vec<Option<Arc<Snapshot>>> {
    view.clusters().map(|(_, snapshot)| snapshot.cloned()).collect()
}

impl Catalogs {
    /// The catalog of a first view.
    pub(crate) fn new(view: &RoutingView) -> Self {
        Self { newest: ArcSwap::from_pointee(Known::build(view, None)) }
    }

    /// The catalog of this very view: names and positions of segments must be those that the routing knows. Built here
    /// and now in the short time between a change and its rebuild.
    pub(crate) fn of(&self, view: &RoutingView) -> Arc<Catalog> {
        let newest = self.newest.load();
        if newest.is_of(view) {
            return Arc::clone(&newest.catalog);
        }
        let built = Known::build(view, Some(&newest.catalog));
        let catalog = Arc::clone(&built.catalog);
        if !newest.is_ahead_of(view) {
            self.newest.store(Arc::new(built));
        }
        catalog
    }

    /// Rebuilds the catalog whenever the snapshot changes.
    pub(crate) async fn follow(&self, routing: &Routing, shutdown: &CancellationToken) {
        let mut changed = routing.changed();
        loop {
            self.of(&routing.view());
            tokio::select! {
                alive = changed.changed() => if alive.is_err() { return },
                () = shutdown.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pointsman_ids::FeedVersion;
    use pointsman_routing::{Core, CoreSettings};

    use super::*;

    #[test]
    fn a_view_gets_the_catalog_of_its_own_snapshots() {
        let clusters = ["local", "west"].map(|name| name.parse().unwrap());
        let mut core = Core::new(CoreSettings {
            clusters: clusters.to_vec(),
            detector: Default::default(),
            new_segment_window: Duration::ZERO,
            fail_open: Default::default(),
            adaptive: Default::default(),
            started_at: 0,
        })
        .unwrap();
        let mut apply = |cluster: usize, version| {
            let empty = Snapshot::empty(clusters[cluster].clone());
            core.apply(Snapshot { version: FeedVersion(version), ..empty }, Duration::ZERO).unwrap();
            Arc::clone(core.view())
        };
        let former = apply(0, 1);
        let catalogs = Catalogs::new(&former);
        let first = catalogs.of(&former);
        assert!(Arc::ptr_eq(&first, &catalogs.of(&former)), "built once");
        let newer = apply(1, 1);
        let second = catalogs.of(&newer);
        assert!(!Arc::ptr_eq(&first, &second), "another cluster came up");
        assert!(!Arc::ptr_eq(&second, &catalogs.of(&former)), "a query may still hold the former view");
        assert!(Arc::ptr_eq(&second, &catalogs.of(&newer)), "the former view does not take its place");
    }
}
