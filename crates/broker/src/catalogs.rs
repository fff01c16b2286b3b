//! The engine's catalog, beside the routing view that it belongs to.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pointsman_engine::Catalog;
use pointsman_ids::feed::Snapshot;
use pointsman_routing::Routing;
use tokio_util::sync::CancellationToken;

/// The catalog of the newest routing snapshot. Rebuilt when the snapshot changes, beside the query path.
#[derive(Debug)]
pub(crate) struct Catalogs {
    newest: ArcSwap<Catalog>,
}

impl Catalogs {
    /// The catalog of a first snapshot.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        Self { newest: ArcSwap::from_pointee(Catalog::build(snapshot, None)) }
    }

    /// The catalog of this very snapshot: names and positions of segments must be those that the routing knows. Built
    /// here and now in the short time between a change and its rebuild.
    pub(crate) fn of(&self, snapshot: &Snapshot) -> Arc<Catalog> {
        let newest = self.newest.load();
        if newest.snapshot_version() == snapshot.version {
            return Arc::clone(&newest);
        }
        let built = Arc::new(Catalog::build(snapshot, Some(&newest)));
        if newest.snapshot_version() < snapshot.version {
            self.newest.store(Arc::clone(&built));
        }
        built
    }

    /// Rebuilds the catalog whenever the snapshot changes.
    pub(crate) async fn follow(&self, routing: &Routing, shutdown: &CancellationToken) {
        let mut changed = routing.changed();
        loop {
            self.of(routing.view().snapshot());
            tokio::select! {
                alive = changed.changed() => if alive.is_err() { return },
                () = shutdown.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::FeedVersion;

    use super::*;

    #[test]
    fn a_view_gets_the_catalog_of_its_own_snapshot() {
        let mut snapshot = Snapshot::empty("local".parse().unwrap());
        let catalogs = Catalogs::new(&snapshot);
        let former = snapshot.clone();
        snapshot.version = FeedVersion(2);
        assert_eq!(catalogs.of(&snapshot).snapshot_version(), FeedVersion(2));
        assert!(Arc::ptr_eq(&catalogs.of(&snapshot), &catalogs.of(&snapshot)), "built once");
        assert_eq!(
            catalogs.of(&former).snapshot_version(),
            FeedVersion(0),
            "a query may still hold the former view"
        );
        assert_eq!(catalogs.newest.load().snapshot_version(), FeedVersion(2));
    }
}
