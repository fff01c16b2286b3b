//! Does what the ledger decides.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::Clock;
use pointsman_engine::rows::Memory;
use pointsman_ids::{Error, ErrorCode};
use rand::{Rng, rngs::StdRng};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    Desired, Objects, Observation, Plan, Source,
    builds::Builds,
    fetch::{blocking, fetch},
    files::Folder,
    held::{self, Doubt, Served, ServedIndex, Shelf},
    index::WantedIndex,
    ledger::{Action, Ledger, Outcome},
    segment::Wanted,
    wish::Wish,
};
use crate::{deps::Pace, metrics};

/// How often a file that is not served any more is asked whether its last reader is gone.
const READERS_POLL: Duration = Duration::from_millis(100);

/// What a driver listens to.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) desired: watch::Receiver<Option<Arc<Desired>>>,
    pub(crate) objects: watch::Receiver<Objects>,
    pub(crate) doubts: mpsc::Receiver<Doubt>,
    pub(crate) draining: CancellationToken,
    pub(crate) stop: CancellationToken,
}

/// Something that ended.
#[derive(Debug)]
enum Done {
    /// An action of the ledger, and how long it took.
    Action(Action, Result<Outcome, Error>, Duration),
    /// All files were looked at.
    Looked(Vec<Doubt>),
    /// The wish was stored.
    Stored,
}

/// The task behind a cache.
#[derive(Debug)]
pub(crate) struct Driver {
    folder: Folder,
    wish: Wish,
    ledger: Ledger,
    shelf: Shelf,
    observed: watch::Sender<Arc<Observation>>,
    clock: Arc<dyn Clock>,
    rng: StdRng,
    pace: Pace,
    jobs: JoinSet<Done>,
    objects: Objects,
    /// A wish is being written; the next one waits in `unstored`.
    storing: bool,
    unstored: Option<Arc<Desired>>,
    /// Builds that run, to call them off.
    builds: Builds,
    /// Where builds take room, and what is forgotten of segments that go.
    memory: Memory,
}

impl Driver {
    pub(crate) fn new(
        plan: &Plan<'_>,
        folder: Folder,
        wish: Wish,
        ledger: Ledger,
        shelf: Shelf,
        observed: watch::Sender<Arc<Observation>>,
    ) -> Self {
        Self {
            folder,
            wish,
            ledger,
            shelf,
            observed,
            clock: Arc::clone(&plan.clock),
            rng: plan.rng.clone(),
            pace: plan.pace,
            jobs: JoinSet::new(),
            objects: None,
            storing: false,
            unstored: None,
            builds: Builds::default(),
            memory: plan.memory.clone(),
        }
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self, mut inputs: Inputs) {
        if let Some(stored) = self.wish.read() {
            tracing::info!(segments = stored.segments.len(), "verifying what the last wish named");
            self.ledger.desire(&stored, self.clock.mono());
        }
        let (mut presence, mut scrub) = (every(self.pace.presence_check), every(self.pace.scrub));
        loop {
            let wake = self.turn(inputs.draining.is_cancelled());
            tokio::select! {
                () = inputs.stop.cancelled() => return,
                Ok(()) = inputs.desired.changed() => {
                    let desired = inputs.desired.borrow_and_update().clone();
                    desired.into_iter().for_each(|desired| self.desire(desired));
                }
                Ok(()) = inputs.objects.changed() => self.objects = inputs.objects.borrow_and_update().clone(),
                Some(doubt) = inputs.doubts.recv() => self.doubt(doubt),
                Some(done) = self.jobs.join_next() => self.done(done),
                () = tokio::time::sleep(wake) => {}
                _ = presence.tick() => self.look_for_files(),
                _ = scrub.tick() => {
                    let oldest = self.ledger.oldest_verified();
                    oldest.into_iter().for_each(|id| self.ledger.suspect(id, true));
                }
            }
            // Many fetches that end together make one turn.
            while let Some(done) = self.jobs.try_join_next() {
                self.done(done);
            }
        }
    }

    /// Starts what is to be done, publishes what is there, and says how long there is nothing more to do.
    fn turn(&mut self, draining: bool) -> Duration {
        let now = self.clock.mono();
        let fetches = self.objects.is_some() && !draining;
        let (shelf, rng, pace) = (&self.shelf, &mut self.rng, self.pace);
        let actions =
            self.ledger.next(now, fetches, |id| shelf.in_use(id), |tries| retry_after(pace, tries, rng));
        let observation = self.ledger.observation();
        let (folder, ledger) = (&self.folder, &self.ledger);
        self.shelf.publish(&ledger.served(), |id| {
            let bytes = observation.segments.get(&id)?.segment.bytes;
            let index = |(name, index, bytes): (_, &WantedIndex, _)| {
                let path = folder.index_path(id, name);
                Some(ServedIndex { name, index: index.index().ok()?, path, bytes })
            };
            let indexes = ledger.ready_indexes(id).filter_map(index).collect();
            Some(Served { path: folder.path(id), bytes, indexes })
        });
        metrics::segments(&observation);
        self.observed.send_if_modified(|last| {
            let changed = **last != observation;
            if changed {
                *last = Arc::new(observation);
            }
            changed
        });
        actions.into_iter().for_each(|action| self.start(action));
        let wake = self.ledger.wake_at(now).map_or(Duration::MAX, |at| at - now);
        if self.ledger.leaving() { wake.min(READERS_POLL) } else { wake.min(FAR) }
    }

    fn desire(&mut self, desired: Arc<Desired>) {
        tracing::info!(version = desired.version, segments = desired.segments.len(), "desired state");
        self.ledger.desire(&desired, self.clock.mono());
        self.ledger.pointless_builds().iter().for_each(|build| self.builds.call_off(build));
        self.unstored = Some(desired);
        self.store();
    }

    /// Writes the newest wish, one at a time.
    fn store(&mut self) {
        if self.storing {
            return;
        }
        let Some(desired) = self.unstored.take() else { return };
        self.storing = true;
        let wish = self.wish.clone();
        self.jobs.spawn_blocking(move || {
            if let Err(error) = wish.write(&desired) {
                tracing::warn!(%error, "the wish cannot be stored; after a restart it must be heard again");
            }
            Done::Stored
        });
    }

    fn doubt(&mut self, doubt: Doubt) {
        match doubt {
            Doubt::Missing(id) => self.ledger.suspect(id, false),
            Doubt::Altered(id) => self.ledger.suspect(id, true),
            Doubt::Index(id, name) => self.ledger.suspect_index(id, name),
        }
    }

    fn look_for_files(&mut self) {
        let files = self.shelf.files();
        self.jobs.spawn_blocking(move || Done::Looked(held::doubts(&files)));
    }

    fn start(&mut self, action: Action) {
        let folder = self.folder.clone();
        let (clock, began) = (Arc::clone(&self.clock), self.clock.mono());
        let (objects, memory) = (self.objects.clone(), self.memory.clone());
        let off = match &action {
            Action::Build(segment, name) => self.builds.begin(segment.id(), *name),
            _ => CancellationToken::new(),
        };
        self.jobs.spawn(async move {
            let gone = |removed: std::io::Result<()>| match removed {
                Ok(()) => Ok(Outcome::Gone),
                Err(error) => Err(Error::new(ErrorCode::NodeIoError, error.to_string())),
            };
            let result = match action.clone() {
                Action::Verify(segment) => {
                    let verify = move || {
                        folder.verify_or_remove(&segment)?;
                        Ok(Outcome::Good(folder.good_indexes(&segment)))
                    };
                    blocking(verify).await
                }
                Action::Build(segment, name) => {
                    blocking(move || folder.build_index(&segment, name, &memory, &off).map(Outcome::Built))
                        .await
                }
                Action::RemoveIndex(id, name) => blocking(move || gone(folder.remove_index(id, name))).await,
                Action::Remove(id, indexes) => {
                    let remove = move || {
                        let indexes = indexes.iter().try_for_each(|name| folder.remove_index(id, *name));
                        gone(folder.remove(id).and(indexes))
                    };
                    blocking(remove).await
                }
                Action::Fetch(segment) => match objects {
                    Some(Ok(source)) => fetch_all(source, folder, segment).await,
                    Some(Err(error)) => Err(error.context(segment)),
                    None => Err(Error::new(ErrorCode::ServiceInternal, "fetching without an object store")),
                },
            };
            Done::Action(action, result, clock.mono() - began)
        });
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Action(action, result, took)) => self.action_done(&action, result, took),
            Ok(Done::Looked(doubts)) => doubts.into_iter().for_each(|doubt| self.doubt(doubt)),
            Ok(Done::Stored) => {
                self.storing = false;
                self.store();
            }
            Err(error) => tracing::error!(%error, "a task of the cache ended"),
        }
    }

    fn action_done(&mut self, action: &Action, result: Result<Outcome, Error>, took: Duration) {
        let outcome = match (action, result) {
            (Action::Verify(segment), Ok(good)) => {
                self.shelf.renew(segment.id());
                good
            }
            (Action::Verify(_), Err(error)) => {
                metrics::damaged();
                tracing::warn!(%error, "a cached file is not what it should be; it is fetched again");
                Outcome::Gone
            }
            (Action::Fetch(segment), Ok(good)) => {
                metrics::fetched(segment.bytes, took);
                tracing::info!(%segment, bytes = segment.bytes, ?took, "fetched");
                good
            }
            (Action::Fetch(segment), Err(error)) => {
                metrics::fetch_failed(error.code());
                self.failed(segment, error, "a segment cannot be fetched")
            }
            (Action::Build(segment, name), result) => {
                self.builds.ended(segment.id(), *name);
                self.built(segment, result, took)
            }
            (Action::RemoveIndex(id, _) | Action::Remove(id, _), result) => {
                self.memory.forget(*id);
                match result {
                    Ok(_) => tracing::info!(segment = id.0, ?action, "dropped"),
                    Err(error) => tracing::warn!(segment = id.0, %error, "a file cannot be removed"),
                }
                Outcome::Gone
            }
        };
        self.ledger.finish(action, outcome, self.clock.mono());
    }

    fn built(&mut self, segment: &Wanted, result: Result<Outcome, Error>, took: Duration) -> Outcome {
        metrics::index_build(result.as_ref().map(|_| took).map_err(Error::code));
        match result {
            Ok(built) => {
                tracing::info!(%segment, ?built, ?took, "an index was built");
                built
            }
            Err(error) if error.code() == ErrorCode::Cancelled => Outcome::Gone,
            Err(error) => self.failed(segment, error, "an index cannot be built"),
        }
    }

    fn failed(&mut self, segment: &Wanted, error: Error, what: &str) -> Outcome {
        let retry_after = retry_after(self.pace, self.ledger.tries(segment.id()) + 1, &mut self.rng);
        tracing::warn!(%error, ?retry_after, "{what}");
        Outcome::Failed { error, retry_after }
    }
}

/// Fetches a segment, and looks which of its indexes are there already.
async fn fetch_all(source: Source, folder: Folder, segment: Arc<Wanted>) -> Result<Outcome, Error> {
    fetch(source, folder.clone(), Arc::clone(&segment)).await?;
    if segment.indexes.is_empty() {
        return Ok(Outcome::Good(BTreeMap::new()));
    }
    blocking(move || Ok(Outcome::Good(folder.good_indexes(&segment)))).await
}

/// The longest sleep; a turn without anything to do is cheap.
const FAR: Duration = Duration::from_secs(3600);

fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Doubles with every try up to the longest pause, half of it at random.
fn retry_after(pace: Pace, tries: u32, rng: &mut StdRng) -> Duration {
    let doubled = pace.fetch_retry.saturating_mul(1 << tries.saturating_sub(1).min(16));
    doubled.min(pace.fetch_retry_max).mul_f64(rng.random_range(0.5..=1.0))
}
