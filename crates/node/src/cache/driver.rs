//! Does what the ledger decides.

use std::{sync::Arc, time::Duration};

use pointsman_clock::Clock;
use pointsman_ids::{Error, ErrorCode};
use rand::{Rng, rngs::StdRng};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    Desired, Objects, Observation, Plan,
    fetch::{blocking, fetch},
    files::Folder,
    held::{self, Doubt, Shelf},
    ledger::{Action, Ledger, Outcome},
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
    Action(Action, Result<(), Error>, Duration),
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
        let served = self.ledger.served().collect();
        let observation = self.ledger.observation();
        self.shelf.publish(&served, |id| {
            let bytes = observation.segments.get(&id)?.segment.bytes;
            Some((self.folder.path(id), bytes))
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
        }
    }

    fn look_for_files(&mut self) {
        let files = self.shelf.files();
        self.jobs.spawn_blocking(move || Done::Looked(held::doubts(&files)));
    }

    fn start(&mut self, action: Action) {
        let folder = self.folder.clone();
        let (clock, began) = (Arc::clone(&self.clock), self.clock.mono());
        let objects = self.objects.clone();
        self.jobs.spawn(async move {
            let result = match action.clone() {
                Action::Verify(segment) => blocking(move || folder.verify_or_remove(&segment)).await,
                Action::Remove(id) => {
                    let failed =
                        |error: std::io::Error| Error::new(ErrorCode::NodeIoError, error.to_string());
                    blocking(move || folder.remove(id).map_err(failed)).await
                }
                Action::Fetch(segment) => match objects {
                    Some(Ok(source)) => fetch(source, folder, segment).await,
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

    fn action_done(&mut self, action: &Action, result: Result<(), Error>, took: Duration) {
        let now = self.clock.mono();
        let outcome = match (action, result) {
            (Action::Verify(segment), Ok(())) => {
                self.shelf.renew(segment.id());
                Outcome::Good
            }
            (Action::Verify(_), Err(error)) => {
                metrics::damaged();
                tracing::warn!(%error, "a cached file is not what it should be; it is fetched again");
                Outcome::Gone
            }
            (Action::Fetch(segment), Ok(())) => {
                metrics::fetched(segment.bytes, took);
                tracing::info!(%segment, bytes = segment.bytes, ?took, "fetched");
                Outcome::Good
            }
            (Action::Fetch(segment), Err(error)) => {
                metrics::fetch_failed(error.code());
                let retry_after = retry_after(self.pace, self.ledger.tries(segment.id()) + 1, &mut self.rng);
                tracing::warn!(%error, ?retry_after, "a segment cannot be fetched");
                Outcome::Failed { error, retry_after }
            }
            (Action::Remove(id), result) => {
                match result {
                    Ok(()) => tracing::info!(segment = id.0, "dropped"),
                    Err(error) => tracing::warn!(segment = id.0, %error, "a file cannot be removed"),
                }
                Outcome::Gone
            }
        };
        self.ledger.finish(action, outcome, now);
    }
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
