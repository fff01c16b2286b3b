//! Cached leaders go before the version of the feed that says so counts as known.

use std::sync::{Arc, OnceLock};

use pointsman_ids::{CollectionId, feed::LeaderDrops};
use pointsman_routing::KeepsLeaders;
use pointsman_shard_client::ShardClient;

use super::connector::Connector;

/// Tells the client, once there is one: it comes after the routing that it reads. Before that nothing is cached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forgetful(Arc<OnceLock<ShardClient<Connector>>>);

impl Forgetful {
    /// From now on this client forgets.
    pub(crate) fn set(&self, client: ShardClient<Connector>) {
        // There is one client per broker.
        let _first = self.0.set(client);
    }
}

impl KeepsLeaders for Forgetful {
    fn forget(&self, whose: &LeaderDrops) {
        let Some(client) = self.0.get() else { return };
        match whose {
            LeaderDrops::All => client.invalidate_all(),
            LeaderDrops::Of(collections) if collections.is_empty() => {}
            LeaderDrops::Of(collections) => {
                client.invalidate(&collections.keys().copied().collect::<Vec<CollectionId>>());
            }
        }
    }
}
