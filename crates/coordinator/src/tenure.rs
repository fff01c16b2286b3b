//! One time of being active: from taking the lease to losing or returning it.
//!
//! All that is known lives in one [`State`] behind a mutex that is never held over an await. Whoever changes what the
//! metastore holds takes the pen first ([`Tenure::begin_write`]), writes there, then changes the state, then wakes the
//! reconciler; so memory never runs ahead of the metastore.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use pointsman_clock::MonoTime;
use pointsman_ids::{Epoch, Error, ErrorCode};
use pointsman_metastore::{Error as StoreError, Lease, Revision, SharedMetastore};
use pointsman_query_coord::GroupWait;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, watch},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Objects,
    brokers::Brokers,
    copy::{SegmentCopy, held_by},
    durable::{self, ReplaceDurable as _},
    feed::Published,
    live::LiveSettings,
    metrics,
    shared::Shared,
    state::State,
};

/// Why a tenure ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody else has the lease.
    Lost(String),
    /// A node or broker has seen a newer epoch than ours.
    NewerEpoch,
    /// The metastore is another server than the one that gave the lease.
    AnotherServer(String),
    /// The process stops.
    Stopped,
}

/// The active coordinator's inside.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) shared: Arc<Shared>,
    pub(crate) live: LiveSettings,
    lease: Lease,
    lease_until: Mutex<MonoTime>,
    state: Mutex<State>,
    began: MonoTime,
    pen: tokio::sync::Mutex<()>,
    known: tokio::sync::Mutex<Known>,
    /// The metastore may hold something else than the state: an outcome was unknown.
    stale: AtomicBool,
    wake: Notify,
    pub(crate) feed: watch::Sender<Option<Arc<Published>>>,
    pub(crate) brokers: Brokers,
    /// Ends every stream of this tenure.
    pub(crate) over: CancellationToken,
    end: Mutex<Option<End>>,
}

/// What of the metastore is in memory.
#[derive(Debug, Default)]
struct Known {
    /// Segments that were read before this tenure, until they are in the state.
    warm: Option<SegmentCopy>,
    /// The revision that was read last.
    revision: Option<Revision>,
}

/// The right to change what the metastore holds. One at a time.
#[derive(Debug)]
pub(crate) struct Pen<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) metastore: &'a SharedMetastore,
    _pen: tokio::sync::MutexGuard<'a, ()>,
}

impl Tenure {
    pub(crate) fn new(shared: Arc<Shared>, lease: Lease, until: MonoTime) -> Self {
        let began = shared.clock.mono();
        let state = State::new(lease.epoch, began);
        Self {
            live: LiveSettings::new(&shared.settings),
            shared,
            lease,
            lease_until: Mutex::new(until),
            state: Mutex::new(state),
            began,
            pen: tokio::sync::Mutex::new(()),
            known: tokio::sync::Mutex::default(),
            stale: AtomicBool::new(true),
            wake: Notify::new(),
            feed: watch::channel(None).0,
            brokers: Brokers::default(),
            over: CancellationToken::new(),
            end: Mutex::new(None),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.lease.epoch
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn metastore(&self) -> &SharedMetastore {
        &self.shared.metastore
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    pub(crate) fn now(&self) -> MonoTime {
        self.shared.clock.mono()
    }

    /// When it became active.
    pub(crate) fn began(&self) -> MonoTime {
        self.began
    }

    /// Wall-clock time, nanoseconds since the Unix epoch.
    pub(crate) fn wall(&self) -> u64 {
        self.shared.clock.wall().0
    }

    /// How long new replicas wait for their group.
    pub(crate) fn group_wait(&self) -> GroupWait {
        GroupWait { now: self.wall(), at_most: self.settings().resource_group_ready_timeout }
    }

    /// Takes the state, when nobody else has it any more.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.try_lock().unwrap_or_else(|| aside(|| self.state.lock()))
    }

    /// Brings the figures of brokers up to date.
    pub(crate) fn count_brokers(&self) {
        let newest = self.feed.borrow().as_ref().map(|feed| feed.version);
        metrics::brokers(&self.brokers, newest.unwrap_or_default());
    }

    /// Has the reconciler look again soon.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Ends the tenure. The first reason stays.
    pub(crate) fn end(&self, why: End) {
        self.end.lock().get_or_insert(why);
        self.over.cancel();
    }

    /// Why it ended; `Stopped` when nobody said.
    pub(crate) fn why_ended(&self) -> End {
        self.end.lock().clone().unwrap_or(End::Stopped)
    }

    pub(crate) fn extend_lease(&self, until: MonoTime) {
        *self.lease_until.lock() = until;
    }

    /// When the lease ends unless it is renewed.
    pub(crate) fn lease_until(&self) -> MonoTime {
        *self.lease_until.lock()
    }

    /// Whether the lease still runs, as far as we know. Without, nothing is written: the metastore would refuse it if
    /// somebody else has it by now.
    pub(crate) fn may_write(&self) -> bool {
        !self.over.is_cancelled() && self.now() < self.lease_until()
    }

    /// Takes the pen: the right to change what the metastore holds. What memory may have missed is read again first.
    ///
    /// # Errors
    /// `service_not_ready` when the lease has run out or the metastore is away.
    pub(crate) async fn begin_write(&self) -> Result<Pen<'_>, Error> {
        let pen = self.pen.lock().await;
        if !self.may_write() {
            let text =
                "the metastore is away and the lease has run out; nothing can be changed now, try again";
            return Err(Error::new(ErrorCode::ServiceNotReady, text));
        }
        if self.stale.load(Ordering::SeqCst) {
            self.read_back().await?;
            self.stale.store(false, Ordering::SeqCst);
            // Nodes and brokers were not told of what was missed.
            self.wake();
        }
        Ok(Pen { epoch: self.lease.epoch, metastore: self.metastore(), _pen: pen })
    }

    /// Reads what memory does not have, under the pen: at first all that the copy of segments lacks, if there is one.
    async fn read_back(&self) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        let held = match &known.warm {
            Some(warm) => warm.held(),
            None => known.revision.clone().map(|revision| held_by(&self.state().stores, revision)),
        };
        let mut durable = durable::load(self.metastore(), held).await.map_err(|error| self.failed(error))?;
        let warm = match known.warm.take() {
            Some(warm) => Some(durable.complete(warm).await?),
            None => None,
        };
        let mut state = self.state();
        let segments = warm.unwrap_or_else(|| SegmentCopy::take(&mut state.stores));
        let revision = state.stores.replace_durable(durable, segments, self.now());
        self.live.refresh(&self.shared.settings, &state.stores.config);
        drop(state);
        known.revision = revision.or(known.revision.take());
        Ok(())
    }

    /// Begins with what was known while another coordinator was active.
    pub(crate) async fn begin_with(&self, warm: SegmentCopy) {
        self.known.lock().await.warm = Some(warm);
    }

    /// Draws the consequences of a failed call of the metastore and gives the error for the caller: a fenced write ends
    /// the tenure, an unknown outcome is read back before the next write.
    pub(crate) fn failed(&self, error: StoreError) -> Error {
        metrics::metastore_failed(&error);
        match &error {
            StoreError::Fenced { .. } => self.end(End::Lost(error.to_string())),
            StoreError::AnotherServer { .. } => self.end(End::AnotherServer(error.to_string())),
            StoreError::OutcomeUnknown(_) => self.stale.store(true, Ordering::SeqCst),
            _ => {}
        }
        error.into()
    }
}

/// Runs what takes its time while other tasks of this thread go on elsewhere: a look at millions of segments must not keep
/// the lease from being renewed, nor must all those who wait for its end.
pub(crate) fn aside<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}
