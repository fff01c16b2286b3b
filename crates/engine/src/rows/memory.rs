//! What requests keep in memory from one to the next, within a bound.
//!
//! Crates for caches bound what lies in them. Here what is being read and what requests still use counts as well, since
//! vectors are most of a node's memory: room is taken before anything is read, and comes back when the last user is done.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use pointsman_ids::{Result, SegmentId, request::Metric};
use tokio::sync::OnceCell;

/// Vectors, indexes and footers of segments, as many as fit; those that were not used for long go first. Clones are one
/// and the same.
///
/// ```
/// use pointsman_engine::rows::Memory;
///
/// let memory = Memory::new(1 << 30);
/// assert_eq!((memory.used(), memory.capacity()), (0, 1 << 30));
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    capacity: u64,
    used: AtomicU64,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    by_key: HashMap<Key, Slot>,
    /// By time of the last use.
    by_use: BTreeMap<u64, Key>,
    now: u64,
}

struct Slot {
    cell: Cell,
    used_at: u64,
}

/// Filled once, by whoever comes first; if he goes away, by the next.
type Cell = Arc<OnceCell<Arc<dyn Any + Send + Sync>>>;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) segment: SegmentId,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Footer,
    Vectors { column: String },
    Index { column: String, metric: Metric },
}

/// A value with the room that it takes.
pub(super) struct Kept<T> {
    value: T,
    _room: Room,
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Bytes that are taken until this is dropped.
pub(super) struct Room {
    memory: Arc<Inner>,
    bytes: u64,
}

impl Room {
    /// Gives back what was not needed, or takes more, whether it is there or not: what is small is known only when it is
    /// there.
    fn resize(&mut self, bytes: u64) {
        self.memory.used.fetch_add(bytes.saturating_sub(self.bytes), Ordering::Relaxed);
        self.memory.used.fetch_sub(self.bytes.saturating_sub(bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Memory {
    /// Room for so many bytes. With 0 nothing is kept, and searches read vectors from the files.
    pub fn new(bytes: u64) -> Self {
        let slots = Mutex::default();
        Self(Arc::new(Inner { capacity: bytes, used: AtomicU64::new(0), slots }))
    }

    /// Bytes that are taken, also by what is only just being read.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes that there are.
    pub fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// Drops all that belongs to a segment; what a request still uses goes with that request.
    pub fn forget(&self, segment: SegmentId) {
        let mut dropped = vec![];
        let mut slots = self.0.slots.lock();
        let Slots { by_key, by_use, .. } = &mut *slots;
        by_key.retain(|key, slot| {
            let go = key.segment == segment;
            if go {
                by_use.remove(&slot.used_at);
                dropped.push(Arc::clone(&slot.cell));
            }
            !go
        });
        drop(slots);
    }

    /// What is kept under a key, or what `load` gives, which is then kept. Of several that ask at once, one loads. `None`
    /// when `bytes` are not to be had; `size` says how many it came to.
    pub(super) async fn get<T: Send + Sync + 'static>(
        &self,
        key: &Key,
        bytes: u64,
        load: impl Future<Output = Result<T>>,
        size: impl FnOnce(&T) -> u64,
    ) -> Result<Option<Arc<Kept<T>>>> {
        let cell = self.cell(key);
        let filled = cell.get_or_try_init(|| async {
            let mut room = self.room(bytes).ok_or(Unfilled::NoRoom)?;
            let value = load.await.map_err(Unfilled::Failed)?;
            room.resize(size(&value));
            Ok(Arc::new(Kept { value, _room: room }) as Arc<dyn Any + Send + Sync>)
        });
        match filled.await {
            Ok(kept) => Ok(Arc::clone(kept).downcast().ok()),
            Err(unfilled) => {
                self.abandon(key, &cell);
                match unfilled {
                    Unfilled::NoRoom => Ok(None),
                    Unfilled::Failed(error) => Err(error),
                }
            }
        }
    }

    /// Takes room, and drops for it what nobody uses. `None` when there is not so much.
    pub(super) fn room(&self, bytes: u64) -> Option<Room> {
        let mut dropped = vec![];
        let slots = &mut *self.0.slots.lock();
        let fits = |used: u64| used.checked_add(bytes).is_some_and(|sum| sum <= self.0.capacity);
        if !fits(0) {
            return None;
        }
        let mut spare = 0;
        while !fits(self.used()) {
            let idle = slots.by_use.iter().find(|(_, key)| slots.by_key.get(key).is_some_and(Slot::is_idle));
            let (used_at, key) = idle.map(|(used_at, key)| (*used_at, key.clone()))?;
            slots.by_use.remove(&used_at);
            dropped.extend(slots.by_key.remove(&key));
            // Gone at once, so that its room counts.
            dropped.clear();
            spare += 1;
        }
        if spare > 0 {
            tracing::debug!(dropped = spare, bytes, "dropped what was not used for long");
        }
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        Some(Room { memory: Arc::clone(&self.0), bytes })
    }

    fn cell(&self, key: &Key) -> Cell {
        let slots = &mut *self.0.slots.lock();
        slots.now += 1;
        let used_at = slots.now;
        let slot = slots.by_key.entry(key.clone()).or_insert_with(|| Slot { cell: Cell::default(), used_at });
        let before = std::mem::replace(&mut slot.used_at, used_at);
        let cell = Arc::clone(&slot.cell);
        slots.by_use.remove(&before);
        slots.by_use.insert(used_at, key.clone());
        cell
    }

    /// Takes a cell out that stayed empty, unless another still tries to fill it.
    fn abandon(&self, key: &Key, cell: &Cell) {
        let slots = &mut *self.0.slots.lock();
        let Some(slot) = slots.by_key.get(key) else { return };
        // One in the map, one with us.
        if Arc::ptr_eq(&slot.cell, cell) && cell.get().is_none() && Arc::strong_count(cell) == 2 {
            slots.by_use.remove(&slot.used_at);
            slots.by_key.remove(key);
        }
    }
}

impl Slot {
    /// Whether there is something in it that nobody uses, or nothing that anybody waits for.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.cell) == 1 && self.cell.get().is_none_or(|kept| Arc::strong_count(kept) == 1)
    }
}

enum Unfilled {
    NoRoom,
    Failed(pointsman_ids::Error),
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("used", &self.used()).field("capacity", &self.capacity()).finish()
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{Error, ErrorCode};
    use tokio::sync::Notify;

    use super::*;

    fn key(segment: u64) -> Key {
        Key { segment: SegmentId(segment), what: What::Footer }
    }

    async fn load(memory: &Memory, segment: u64, bytes: u64) -> Option<Arc<Kept<u64>>> {
        memory.get(&key(segment), bytes, async { Ok(segment) }, |_| bytes).await.unwrap()
    }

    fn fails() -> Result<u64> {
        Err(Error::new(ErrorCode::NodeIoError, "no"))
    }

    #[tokio::test]
    async fn what_was_not_used_for_long_goes_first_and_what_is_used_stays() {
        let memory = Memory::new(100);
        let first = load(&memory, 1, 40).await.unwrap();
        drop((load(&memory, 2, 30).await, load(&memory, 3, 30).await));
        drop(load(&memory, 2, 30).await);
        assert_eq!(memory.used(), 100);
        drop(load(&memory, 4, 20).await.unwrap());
        assert_eq!(memory.used(), 90, "3 went");
        assert!(load(&memory, 5, 70).await.is_none(), "1 is in use");
        assert_eq!(memory.used(), 40, "what could go for it went");
        assert_eq!(**first, 1);
        drop(first);
        assert!(load(&memory, 5, 100).await.is_some());
        assert!(load(&memory, 6, 101).await.is_none(), "more than there is");
    }

    #[tokio::test]
    async fn one_loads_for_all_and_the_next_one_if_it_goes_away() {
        let memory = Memory::new(100);
        let (started, go) = (Notify::new(), Notify::new());
        let slow = async {
            started.notify_one();
            go.notified().await;
            Ok(7_u64)
        };
        let first_key = key(1);
        let mut first = Box::pin(memory.get(&first_key, 10, slow, |_| 10));
        tokio::select! {
            biased;
            _ = &mut first => panic!("it waits"),
            () = started.notified() => {}
        }
        let second_key = key(1);
        let mut second = Box::pin(memory.get(&second_key, 10, async { Ok(8_u64) }, |_| 10));
        assert!(futures::poll!(&mut second).is_pending(), "the first one loads");
        drop(first);
        assert_eq!(**second.await.unwrap().unwrap(), 8);
        let third = memory.get(&first_key, 10, async { panic!("it is there") }, |_: &u64| 10);
        assert_eq!(**third.await.unwrap().unwrap(), 8);
    }

    #[tokio::test]
    async fn what_fails_leaves_nothing_behind() {
        let memory = Memory::new(100);
        let failed = memory.get(&key(1), 60, async { fails() }, |_| 60).await;
        assert_eq!(failed.err().map(|error| error.code()), Some(ErrorCode::NodeIoError));
        assert_eq!(memory.used(), 0);
        assert!(memory.0.slots.lock().by_key.is_empty() && memory.0.slots.lock().by_use.is_empty());
        assert!(load(&memory, 1, 60).await.is_some());
    }

    #[tokio::test]
    async fn what_is_forgotten_counts_until_its_last_user_is_done() {
        let memory = Memory::new(100);
        let used = load(&memory, 1, 60).await.unwrap();
        drop(load(&memory, 2, 30).await);
        memory.forget(SegmentId(1));
        memory.forget(SegmentId(2));
        assert_eq!(memory.used(), 60);
        drop(used);
        assert_eq!(memory.used(), 0);
    }
}
