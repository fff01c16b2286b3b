//! What has to happen from time to time: purges, sweeps and health checks.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::NodeId;

use crate::{Connect, ShardClient, client::Inner, runtime::within, view::Standing};

const PURGE_EVERY: Duration = Duration::from_secs(600);

/// Something that happens again and again. Rounds that were missed are not made up for.
#[derive(Debug)]
struct Period {
    every: Duration,
    next: MonoTime,
}

impl Period {
    fn new(every: Duration, now: MonoTime) -> Self {
        Self { every, next: now + every }
    }

    fn is_due(&mut self, now: MonoTime) -> bool {
        let due = self.next <= now;
        if due {
            self.next = (self.next + self.every).max(now);
        }
        due
    }
}

impl<K: Connect> ShardClient<K> {
    /// Closes unused connections, forgets expired entries and checks the health of nodes, until the last clone of the
    /// client is gone. The owner spawns it, once; without it nothing is ever purged, and look-aside never notices that a
    /// node is away.
    pub fn maintenance(&self) -> impl Future<Output = ()> + Send + 'static {
        let client = Arc::downgrade(&self.inner);
        let now = self.now();
        let mut purge = Period::new(PURGE_EVERY, now);
        let mut sweep = Period::new(self.inner.settings.sweep_every(), now);
        let mut check = Period::new(self.inner.settings.check_every(), now);
        async move {
            loop {
                let next = purge.next.min(sweep.next).min(check.next);
                let Some(wait) = upgrade(&client).map(|client| client.inner.runtime.sleep_until(next)) else {
                    return;
                };
                wait.await;
                let Some(client) = upgrade(&client) else { return };
                let now = client.now();
                if purge.is_due(now) {
                    client.inner.pools.purge(&client.locations(), now);
                }
                if sweep.is_due(now) {
                    client.inner.blacklist.sweep(now);
                }
                if check.is_due(now) {
                    client.start_checks(now);
                }
            }
        }
    }

    fn start_checks(&self, now: MonoTime) {
        for (node, address) in self.inner.balancer.start_checks(now) {
            // Nobody calls a node that an operator has disabled, not even to ask how it is.
            if self.inner.view.standing(node) == Standing::Disabled {
                self.inner.balancer.not_checked(node);
                continue;
            }
            let client = self.clone();
            self.inner.runtime.spawn(Box::pin(async move { client.check(node, address).await }));
        }
    }

    async fn check(&self, node: NodeId, address: Arc<str>) {
        let mut checked = Checked { client: self, node, is_healthy: false };
        // Behind its address may stand a successor, which has a number of its own.
        if self.inner.view.is_gone(node) {
            return;
        }
        let limit = self.now() + self.inner.settings.health_check_timeout;
        let check = async {
            let connection = self.inner.pools.get(node, &address, Some(limit)).await.ok()?;
            self.inner.pools.connector().check(connection).await.ok()
        };
        checked.is_healthy =
            within(&*self.inner.runtime, Some(limit), check).await.ok().flatten().unwrap_or(false);
    }
}

/// Tells the balancer how a check ended, also when its task is ended.
struct Checked<'a, K: Connect> {
    client: &'a ShardClient<K>,
    node: NodeId,
    is_healthy: bool,
}

impl<K: Connect> Drop for Checked<'_, K> {
    fn drop(&mut self) {
        self.client.inner.balancer.checked(self.node, self.is_healthy);
    }
}

fn upgrade<K: Connect>(client: &Weak<Inner<K>>) -> Option<ShardClient<K>> {
    Some(ShardClient { inner: client.upgrade()? })
}
