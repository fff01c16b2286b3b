//! Waits for a time.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use pointsman_clock::MonoTime;

use super::Inner;

/// Due first; of those due together deadlines come last, and each kind in the order of its making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    pub(super) at: MonoTime,
    is_deadline: bool,
    number: u64,
}

/// A wait for a time.
pub(super) struct Timer {
    /// Tasks hold timers and timers wake tasks: this end does not keep the runtime alive.
    inner: Weak<Inner>,
    at: MonoTime,
    is_deadline: bool,
    /// `None`: it has not been waited for.
    key: Option<TimerKey>,
}

impl Timer {
    pub(super) fn new(inner: &Arc<Inner>, at: MonoTime, is_deadline: bool) -> Self {
        Self { inner: Arc::downgrade(inner), at, is_deadline, key: None }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(inner) = self.inner.upgrade() else { return Poll::Pending };
        let mut state = inner.state.lock();
        if let Some(key) = self.key {
            return match state.timers.get_mut(&key) {
                Some(waker) => {
                    let old = std::mem::replace(waker, context.waker().clone());
                    drop(state);
                    drop(old);
                    Poll::Pending
                }
                None => Poll::Ready(()),
            };
        }
        if !self.is_deadline && self.at <= state.now {
            return Poll::Ready(());
        }
        state.made += 1;
        let key = TimerKey { at: self.at.max(state.now), is_deadline: self.is_deadline, number: state.made };
        state.timers.insert(key, context.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let (Some(key), Some(inner)) = (self.key, self.inner.upgrade()) {
            let waker = inner.state.lock().timers.remove(&key);
            // The last reference to a task may be in it, and with it other timers.
            drop(waker);
        }
    }
}
