//! What all services of the process share, whether it is active or stands by.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;
use pointsman_clock::Clock;
use pointsman_ids::{ClusterName, Error, ErrorCode};
use pointsman_metastore::SharedMetastore;
use pointsman_settings::CoordinatorSettings;

use crate::{Objects, copy::WarmCopy, tenure::Tenure};

/// No lease was ever taken so often; versions of feed and desired states have their upper half for the epoch.
const MAX_EPOCH: u64 = (1 << 31) - 1;

/// The process's own things, and its tenure while it is active.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: CoordinatorSettings,
    pub(crate) cluster: ClusterName,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metastore: SharedMetastore,
    pub(crate) objects: Objects,
    /// What the metastore holds, while another coordinator is active.
    pub(crate) warm: WarmCopy,
    tenure: RwLock<Option<Arc<Tenure>>>,
    /// The highest epoch that any node or broker has seen; 0: none.
    epoch_seen: AtomicU64,
}

impl Shared {
    /// # Errors
    /// When the cluster has no lawful name.
    pub(crate) fn new(
        settings: CoordinatorSettings,
        clock: Arc<dyn Clock>,
        metastore: SharedMetastore,
        objects: Objects,
    ) -> Result<Self, Error> {
        let cluster = ClusterName::new(&settings.cluster)?;
        let (tenure, epoch_seen) = (RwLock::default(), AtomicU64::new(0));
        let warm = WarmCopy::default();
        Ok(Self { settings, cluster, clock, metastore, objects, warm, tenure, epoch_seen })
    }

    /// The tenure, if this coordinator is active.
    pub(crate) fn tenure(&self) -> Option<Arc<Tenure>> {
        self.tenure.read().clone()
    }

    /// The tenure of an active coordinator.
    ///
    /// # Errors
    /// `service_not_ready` while it stands by.
    pub(crate) fn active(&self) -> Result<Arc<Tenure>, Error> {
        self.tenure().ok_or_else(|| {
            let text =
                format!("coordinator '{}' stands by; ask the active one, or again", self.settings.name);
            Error::new(ErrorCode::ServiceNotReady, text)
        })
    }

    /// The tenure of a coordinator whose lease lasts, for answers that others act on.
    ///
    /// # Errors
    /// `service_not_ready` while it stands by, and when the lease has run out: another coordinator may be active, and its
    /// answers may be others.
    pub(crate) fn in_charge(&self) -> Result<Arc<Tenure>, Error> {
        let tenure = self.active()?;
        if !tenure.may_write() {
            let text = format!(
                "the lease of coordinator '{}' has run out and cannot be renewed; another one may be active",
                self.settings.name
            );
            return Err(Error::new(ErrorCode::ServiceNotReady, text));
        }
        Ok(tenure)
    }

    pub(crate) fn set_tenure(&self, tenure: Option<Arc<Tenure>>) {
        *self.tenure.write() = tenure;
    }

    /// Hears of an epoch. A newer one than ours means that the database has forgotten a lease: the tenure ends, and the
    /// next one begins above it.
    ///
    /// # Errors
    /// `service_not_ready` when the epoch is newer than the tenure's; `parameter_invalid` when it is beyond belief.
    pub(crate) fn hear_epoch(&self, tenure: &Tenure, seen: u64, from: &str) -> Result<(), Error> {
        if seen > MAX_EPOCH {
            let text = format!("'{from}' says that it has seen epoch {seen}; no epoch is above {MAX_EPOCH}");
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        self.raise_epoch(seen);
        if seen <= tenure.epoch().0 {
            return Ok(());
        }
        tracing::warn!(
            from,
            seen,
            ours = tenure.epoch().0,
            "a newer epoch was seen; taking the lease anew above it"
        );
        tenure.end(crate::tenure::End::NewerEpoch);
        let text = format!("'{from}' has seen epoch {seen}, ours is {}; try again", tenure.epoch());
        Err(Error::new(ErrorCode::ServiceNotReady, text))
    }

    /// Keeps the next epoch above this one.
    pub(crate) fn raise_epoch(&self, seen: u64) {
        self.epoch_seen.fetch_max(seen, Ordering::SeqCst);
    }

    /// The highest epoch that was heard of.
    pub(crate) fn epoch_seen(&self) -> u64 {
        self.epoch_seen.load(Ordering::SeqCst)
    }
}
