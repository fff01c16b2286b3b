//! Shards that this node leads: what it should answer for, and what of that can be reached.
//!
//! The coordinator says which shards to lead, with which view, and which node of the replica holds which segment; of
//! what it holds itself the node knows better. The book decides, sessions report what it says. Without a session, and in
//! a new one, leads stay as they were told last.

mod book;
mod lead;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman_ids::{CollectionId, Error, SegmentId, ShardName};
use pointsman_proto::node::v1 as pb;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{book::Peers, lead::LeadState, report::LeadReporter};
use crate::{
    cache::{Observation, Status},
    leads::book::Book,
    metrics,
};

/// A shard of a collection.
pub(crate) type Led = (CollectionId, ShardName);

/// Every shard that the node leads at one moment. What did not change is shared from one moment to the next.
pub(crate) type LeadStates = BTreeMap<Led, Arc<LeadState>>;

/// Everything that a request needs to know of leads, at one moment. Read without a lock.
#[derive(Debug, Default)]
pub(crate) struct Leading {
    /// The number that the coordinator gave this process; 0: none yet.
    pub(crate) node_id: u64,
    /// The number by which hosts mean this process; the same, but for a moment when a coordinator gave another one.
    pub(crate) own: u64,
    /// What it leads.
    pub(crate) states: Arc<LeadStates>,
    /// Nodes that hosts are given by.
    pub(crate) peers: Arc<Peers>,
}

/// The handle of the node's leads.
#[derive(Clone, Debug)]
pub(crate) struct Leads {
    book: Arc<Mutex<Book>>,
    states: watch::Sender<Arc<LeadStates>>,
    now: Arc<ArcSwap<Leading>>,
}

impl Leads {
    /// Leads nothing yet.
    pub(crate) fn new() -> Self {
        Self { book: Arc::default(), states: watch::Sender::default(), now: Arc::default() }
    }

    /// Takes the number that the coordinator gave this process.
    pub(crate) fn known_as(&self, node_id: u64) {
        let mut book = self.book.lock();
        book.known_as(node_id);
        self.publish(&mut book);
    }

    /// What the node leads now, for requests.
    pub(crate) fn now(&self) -> Arc<Leading> {
        self.now.load_full()
    }

    /// Version of the lead of a shard that the node led and does not any more, as far as it is remembered. For messages.
    pub(crate) fn lost(&self, led: &Led) -> Option<u64> {
        self.book.lock().lost(led)
    }

    /// Takes what the coordinator wants. `node_id` is the number that it gave this process.
    ///
    /// # Errors
    /// `parameter_invalid` naming what makes no sense; nothing has changed then.
    pub(crate) fn desire(&self, desired: &pb::DesiredLeads, node_id: u64) -> Result<(), Error> {
        let mut book = self.book.lock();
        book.desire(desired, node_id)?;
        self.publish(&mut book);
        Ok(())
    }

    /// Follows what the cache holds, until told to stop.
    pub(crate) async fn follow(
        self,
        mut observation: watch::Receiver<Arc<Observation>>,
        stop: CancellationToken,
    ) {
        loop {
            let held = held(&observation.borrow_and_update());
            {
                let mut book = self.book.lock();
                book.hold(held);
                self.publish(&mut book);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = observation.changed() => if changed.is_err() { return },
            }
        }
    }

    /// What the node leads, now and whenever it changes.
    pub(crate) fn states(&self) -> watch::Receiver<Arc<LeadStates>> {
        self.states.subscribe()
    }

    /// Nodes that hold what it can reach, by number.
    pub(crate) fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.now.load().peers)
    }

    fn publish(&self, book: &mut Book) {
        let news = book.news();
        // Before anybody is told of it: who hears that this node leads may ask it.
        self.now.store(Arc::new(book.leading()));
        if let Some(states) = news {
            metrics::leads(&states);
            self.states.send_replace(states);
        }
    }
}

fn held(observation: &Observation) -> BTreeSet<SegmentId> {
    let held = observation.segments.iter().filter(|(_, observed)| observed.status == Status::Held);
    held.map(|(id, _)| *id).collect()
}
