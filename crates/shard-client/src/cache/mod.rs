//! The leader cache: a table per collection id, one call to the coordinator for many readers, and answers that were
//! overtaken or invalidated kept out.

mod flights;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use imbl::OrdMap;
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, NodeId};

use crate::LeaderTable;
use flights::Flights;
pub(crate) use flights::{Ticket, Waiting, refreshed};

/// An entry that nobody reads for longer names no locations any more and is dropped.
pub(crate) const ENTRY_IDLE: Duration = Duration::from_secs(600);

/// Readers never wait for writers.
#[derive(Debug, Default)]
pub(crate) struct LeaderCache {
    entries: ArcSwap<OrdMap<CollectionId, Arc<Entry>>>,
    /// Held for every change of the entries.
    flights: Mutex<Flights>,
}

#[derive(Debug)]
struct Entry {
    table: Arc<LeaderTable>,
    /// Nanoseconds since the start.
    used: AtomicU64,
}

impl Entry {
    fn is_idle(&self, now: MonoTime) -> bool {
        nanos(now).saturating_sub(self.used.load(Ordering::Relaxed)) > nanos_of(ENTRY_IDLE)
    }
}

/// What a reader gets.
#[derive(Debug)]
pub(crate) enum Look {
    Table(Arc<LeaderTable>),
    Wait {
        answer: Waiting,
        /// The refresh that this reader has to start.
        start: Option<Ticket>,
    },
}

impl LeaderCache {
    /// Whether the collection has an entry.
    pub(crate) fn has(&self, collection: CollectionId) -> bool {
        self.entries.load().contains_key(&collection)
    }

    /// The table of an entry, which does not count as used by that.
    pub(crate) fn peek(&self, collection: CollectionId) -> Option<Arc<LeaderTable>> {
        self.entries.load().get(&collection).map(|entry| entry.table.clone())
    }

    /// The table of an entry, which counts as used now.
    pub(crate) fn touch(&self, collection: CollectionId, now: MonoTime) -> Option<Arc<LeaderTable>> {
        let entries = self.entries.load();
        let entry = entries.get(&collection)?;
        let now = nanos(now);
        // Many readers share the line: written only when it says something new.
        if entry.used.load(Ordering::Relaxed) < now {
            entry.used.fetch_max(now, Ordering::Relaxed);
        }
        Some(entry.table.clone())
    }

    /// The entry, or a refresh to wait for. `forced`: past the cache.
    pub(crate) fn look(self: &Arc<Self>, collection: CollectionId, forced: bool, now: MonoTime) -> Look {
        if !forced && let Some(table) = self.touch(collection, now) {
            return Look::Table(table);
        }
        let mut flights = self.flights.lock();
        // A refresh may have ended since.
        if !forced && let Some(table) = self.touch(collection, now) {
            return Look::Table(table);
        }
        let (answer, sender) = flights.join_or_take_off(collection, forced);
        let start =
            sender.map(|(token, sender)| Ticket::new(self.clone(), collection, forced, token, sender));
        Look::Wait { answer, start }
    }

    /// Ends a refresh. Its answer goes into the cache only while no newer refresh has begun and nothing was invalidated.
    fn land(&self, ticket: &Ticket, answer: Option<&Arc<LeaderTable>>, now: MonoTime) {
        let mut flights = self.flights.lock();
        let is_newest = flights.land(ticket.collection, ticket.forced, ticket.token);
        if let Some(table) = answer.filter(|_| is_newest) {
            let entry = Entry { table: table.clone(), used: AtomicU64::new(nanos(now)) };
            let entries = self.entries.load().update(ticket.collection, Arc::new(entry));
            self.entries.store(Arc::new(entries));
        }
    }

    /// Drops entries, and lets no refresh that is under way into the cache.
    pub(crate) fn invalidate(&self, collections: &[CollectionId]) {
        let mut flights = self.flights.lock();
        let mut entries = OrdMap::clone(&self.entries.load());
        for collection in collections {
            flights.invalidate(*collection);
            entries.remove(collection);
        }
        self.entries.store(Arc::new(entries));
    }

    /// As [`LeaderCache::invalidate`], for all collections at once.
    pub(crate) fn invalidate_all(&self) {
        let mut flights = self.flights.lock();
        flights.invalidate_all();
        self.entries.store(Arc::default());
    }

    /// The nodes with their addresses that used entries list. Others are dropped; listing is no use.
    pub(crate) fn locations(&self, now: MonoTime) -> BTreeMap<NodeId, BTreeSet<Arc<str>>> {
        let entries = self.entries.load_full();
        let mut locations = BTreeMap::<NodeId, BTreeSet<Arc<str>>>::new();
        let mut has_idle = false;
        for entry in entries.values() {
            if entry.is_idle(now) {
                has_idle = true;
                continue;
            }
            for leader in entry.table.shards().flat_map(|(_, leaders)| leaders.iter()) {
                locations.entry(leader.node).or_default().insert(leader.address.clone());
            }
        }
        if has_idle {
            self.drop_idle(now);
        }
        locations
    }

    /// Somebody may have read an entry since it was found idle, so each is looked at again under the lock.
    fn drop_idle(&self, now: MonoTime) {
        let _changing = self.flights.lock();
        let entries = self.entries.load_full();
        let used = entries.iter().filter(|(_, entry)| !entry.is_idle(now));
        let used = used.map(|(collection, entry)| (*collection, entry.clone())).collect();
        self.entries.store(Arc::new(used));
    }
}

pub(crate) fn nanos(time: MonoTime) -> u64 {
    nanos_of(time.since_start())
}

pub(crate) fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
