//! The segment cache: a bounded folder that follows the desired state.
//!
//! The ledger decides, the driver does, and queries see what is held.

mod builds;
mod driver;
mod fetch;
mod files;
mod held;
mod index;
mod index_files;
mod ledger;
mod segment;
mod wish;

use std::{path::Path, sync::Arc};

use object_store::ObjectStore;
use pointsman_clock::Clock;
use pointsman_engine::{SegmentStore, rows::Memory};
use pointsman_ids::Error;
use pointsman_objects::{OpenError, Root};
use pointsman_proto::node::v1 as pb;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{DataDirError, deps::Pace};
pub(crate) use held::HeldSegments;
pub(crate) use segment::{Desired, Observation, ObservedIndex, Status};
#[cfg(test)]
pub(crate) use segment::{Observed, Wanted};

/// Doubts of readers that wait for the driver. More are dropped; the next read has them again.
const DOUBTS: usize = 64;

/// Where segments come from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// For messages.
    pub(crate) root: Root,
    /// The opened root.
    pub(crate) store: Arc<dyn ObjectStore>,
}

impl Source {
    /// Opens a root.
    ///
    /// # Errors
    /// Names the root and the remedy.
    pub(crate) fn open(root: &str, options: &[(String, String)]) -> Result<Self, OpenError> {
        let root = Root::parse(root)?;
        let store = root.open(options.iter().map(|(key, value)| (key, value)))?;
        Ok(Self { root, store })
    }
}

/// Nothing is known yet, a source, or why there is none.
pub(crate) type Objects = Option<Result<Source, Error>>;

/// What a cache is opened with.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The node's folder.
    pub(crate) data_dir: &'a Path,
    /// Bytes that files may take.
    pub(crate) limit: u64,
    /// Files that are fetched or verified at once.
    pub(crate) concurrency: usize,
    /// Indexes that are built at once.
    pub(crate) builds: usize,
    /// Where builds take room.
    pub(crate) memory: Memory,
    /// How patient it is.
    pub(crate) pace: Pace,
    /// Where it reads time.
    pub(crate) clock: Arc<dyn Clock>,
    /// For jitter.
    pub(crate) rng: StdRng,
}

/// The handle of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    desired: watch::Sender<Option<Arc<Desired>>>,
    objects: watch::Sender<Objects>,
    observation: watch::Receiver<Arc<Observation>>,
    held: held::HeldSegments,
}

impl Cache {
    /// Looks at the folder, and gives the task that drives the cache. `draining`: nothing new is fetched from then on; `stop`: the driver
    /// ends. Nothing is served before it is verified, against the wish that an earlier process stored if there is one.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub(crate) fn open(
        plan: Plan<'_>,
        draining: CancellationToken,
        stop: CancellationToken,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>), DataDirError> {
        let failed = |source| DataDirError::Io {
            doing: "opening the segment cache in",
            path: plan.data_dir.to_owned(),
            source,
        };
        let folder = files::Folder::open(plan.data_dir).map_err(failed)?;
        let found = folder.found().map_err(failed)?;
        let stored = wish::Wish::open(plan.data_dir);
        let limits = ledger::Limits {
            bytes: plan.limit,
            concurrency: plan.concurrency,
            builds: plan.builds,
            drop_after: plan.pace.drop_after,
        };
        let ledger = ledger::Ledger::new(limits, found, plan.clock.mono());
        let (doubt, doubts) = mpsc::channel(DOUBTS);
        let held = held::HeldSegments::new(doubt);
        let (observed, observation) = watch::channel(Arc::new(ledger.observation()));
        let (desired, objects) = (watch::Sender::new(None), watch::Sender::new(None));
        let inputs = driver::Inputs {
            desired: desired.subscribe(),
            objects: objects.subscribe(),
            doubts,
            draining,
            stop,
        };
        let shelf = held::Shelf::new(held.clone());
        let driver = driver::Driver::new(&plan, folder, stored, ledger, shelf, observed);
        Ok((Self { desired, objects, observation, held }, driver.run(inputs)))
    }

    /// Tells the node's whole wish.
    pub(crate) fn desire(&self, desired: Desired) {
        self.desired.send_replace(Some(Arc::new(desired)));
    }

    /// Tells what the coordinator says of its wish. False: that changes a wish that is not known here.
    #[must_use]
    pub(crate) fn told(&self, state: pb::DesiredState) -> bool {
        let desired = Desired::told(self.desired.borrow().as_deref(), state);
        let known = desired.is_some();
        desired.into_iter().for_each(|desired| self.desire(desired));
        known
    }

    /// Whether the coordinator wants nothing of this node; false as long as it has said nothing.
    pub(crate) fn wants_nothing(&self) -> bool {
        self.desired.borrow().as_ref().is_some_and(|desired| desired.segments.is_empty())
    }

    /// Tells where segments come from.
    pub(crate) fn objects(&self, objects: Result<Source, Error>) {
        self.objects.send_replace(Some(objects));
    }

    /// What is there, now and whenever it changes.
    pub(crate) fn observation(&self) -> watch::Receiver<Arc<Observation>> {
        self.observation.clone()
    }

    /// What queries may read.
    pub(crate) fn store(&self) -> Arc<dyn SegmentStore> {
        Arc::new(self.held.clone())
    }

    /// The same with indexes, for requests by shard.
    pub(crate) fn held(&self) -> HeldSegments {
        self.held.clone()
    }
}
