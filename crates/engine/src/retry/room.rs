//! How many rows of one query may be held back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use datafusion::execution::{
    TaskContext,
    memory_pool::{MemoryConsumer, MemoryReservation},
};

/// Bytes that all parts of one query may hold back together.
#[derive(Debug)]
pub(super) struct Buffer {
    left: AtomicUsize,
}

impl Buffer {
    /// A buffer of so many bytes, all free.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes) })
    }

    /// A place in the buffer, and in the memory of the broker, that takes nothing yet.
    pub(super) fn room(self: &Arc<Self>, context: &TaskContext) -> Room {
        let memory = MemoryConsumer::new("rows held back").register(context.memory_pool());
        Room { buffer: Arc::clone(self), bytes: 0, memory }
    }
}

/// What one part holds back. Dropping it gives the bytes back.
#[derive(Debug)]
pub(super) struct Room {
    buffer: Arc<Buffer>,
    bytes: usize,
    memory: MemoryReservation,
}

impl Room {
    /// Takes so many bytes more; `false`: there is no room for them, and none is taken.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        if self.buffer.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_err() {
            return false;
        }
        if self.memory.try_grow(bytes).is_err() {
            self.buffer.left.fetch_add(bytes, Ordering::AcqRel);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.buffer.left.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_the_buffer_and_give_back_what_they_took() {
        let context = TaskContext::default();
        let buffer = Buffer::new(10);
        let (mut one, mut other) = (buffer.room(&context), buffer.room(&context));
        assert!(one.grow(6) && other.grow(4));
        assert!(!one.grow(1), "it is full");
        assert!(one.grow(0));
        drop(other);
        assert!(one.grow(4) && !one.grow(1));
        drop(one);
        assert!(buffer.room(&context).grow(10));
        assert!(!buffer.room(&context).grow(11));
    }
}
