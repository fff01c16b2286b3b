//! Keeps the newest snapshot of one cluster on disk.

use std::{sync::Arc, time::Duration};

use pointsman_clock::{Clock, MonoTime, WallTime};
use pointsman_ids::{Epoch, FeedVersion, feed::Snapshot};
use tokio::task::JoinHandle;

use crate::{status::Contact, store::Store};

/// A changed snapshot is stored at most so often.
pub(crate) const SAVE_PAUSE: Duration = Duration::from_secs(5);

/// An unchanged one is stored again after so long, so that its age tells when the coordinator was heard.
const CONFIRM_PAUSE: Duration = Duration::from_secs(60);

/// Saves when it is time, one at a time and beside everything else.
#[derive(Debug)]
pub(crate) struct Saver {
    store: Store,
    /// The highest epoch that was seen.
    pub(crate) epoch: Epoch,
    saved: Option<(FeedVersion, MonoTime)>,
    saving: Option<JoinHandle<()>>,
}

impl Saver {
    pub(crate) fn new(store: Store, epoch: Epoch, saved: Option<(FeedVersion, MonoTime)>) -> Self {
        Self { store, epoch, saved, saving: None }
    }

    pub(crate) fn save_if_due(&mut self, snapshot: &Arc<Snapshot>, contact: &Contact, clock: &dyn Clock) {
        let (version, now) = (snapshot.version, clock.mono());
        let due = match self.saved {
            _ if !contact.connected || version == FeedVersion(0) => false,
            None => true,
            Some((saved, at)) => now - at >= if saved == version { CONFIRM_PAUSE } else { SAVE_PAUSE },
        };
        if due && self.saving.as_ref().is_none_or(JoinHandle::is_finished) {
            self.saved = Some((version, now));
            self.saving = self.start(snapshot, contact, clock);
        }
    }

    pub(crate) async fn save_at_last(
        mut self,
        snapshot: &Arc<Snapshot>,
        contact: &Contact,
        clock: &dyn Clock,
    ) {
        if let Some(saving) = self.saving.take() {
            // It would else overtake the one that follows.
            wait(saving).await;
        }
        if let Some(saving) = self.start(snapshot, contact, clock) {
            wait(saving).await;
        }
    }

    fn start(
        &self,
        snapshot: &Arc<Snapshot>,
        contact: &Contact,
        clock: &dyn Clock,
    ) -> Option<JoinHandle<()>> {
        let age = contact.age(clock.mono())?;
        let heard = clock.wall().0.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let (store, epoch, snapshot) = (self.store.clone(), self.epoch, Arc::clone(snapshot));
        Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = store.save(WallTime(heard), epoch, &snapshot) {
                tracing::error!(%error, cluster = %snapshot.cluster, "snapshot cannot be stored; a restart without the coordinator would miss it");
            }
        }))
    }
}

async fn wait(saving: JoinHandle<()>) {
    if let Err(error) = saving.await {
        tracing::error!(%error, "snapshot was not stored");
    }
}
