//! A runtime whose clock moves only when everything waits: for tests, simulations and scenarios.

mod timer;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    sync::{Arc, Weak},
    task::{Context, Wake, Waker},
    time::Duration,
};

use futures::{
    FutureExt,
    channel::oneshot,
    future::{BoxFuture, FusedFuture},
};
use parking_lot::Mutex;
use pointsman_clock::MonoTime;

use crate::Runtime;
use timer::{Timer, TimerKey};

/// Runs tasks in the order in which they became ready, on the caller's thread, and moves its clock to the next timer when
/// nothing else can happen. Two runs of the same work are the same to the byte. Cheap to clone; clones share everything.
#[derive(Clone, Default)]
pub struct VirtualRuntime {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    ready: Mutex<VecDeque<Arc<Task>>>,
}

#[derive(Default)]
struct State {
    now: MonoTime,
    timers: BTreeMap<TimerKey, Waker>,
    made: u64,
}

/// A run came to its limit of timers before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {0} timers fell due")]
pub struct TooManyTimers(pub u64);

/// A task whose outcome somebody wants.
#[derive(Debug)]
pub struct Handle<T> {
    outcome: oneshot::Receiver<T>,
}

impl<T> Handle<T> {
    /// What came out, once: `None` while the task runs, and after it was taken.
    pub fn take(&mut self) -> Option<T> {
        if self.outcome.is_terminated() { None } else { self.outcome.try_recv().ok().flatten() }
    }
}

impl VirtualRuntime {
    /// Starts a task. Dropping the handle lets it run on.
    pub fn start<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        let (sender, outcome) = oneshot::channel();
        // Nobody may want the outcome any more.
        self.spawn(work.map(|done| drop(sender.send(done))).boxed());
        Handle { outcome }
    }

    /// Lets time pass, with all that falls due on its way, the end included.
    ///
    /// # Errors
    /// More than `limit` timers fell due.
    pub fn advance(&self, by: Duration, limit: u64) -> Result<(), TooManyTimers> {
        let end = self.now() + by;
        self.run(Some(end), limit, || false)?;
        self.inner.state.lock().now = end;
        Ok(())
    }

    /// Runs until the task has ended and nothing more can happen at that instant. `None`: it waits for something that
    /// never happens.
    ///
    /// # Errors
    /// More than `limit` timers fell due.
    pub fn finish<T>(&self, handle: &mut Handle<T>, limit: u64) -> Result<Option<T>, TooManyTimers> {
        let mut outcome = None;
        self.run(None, limit, || {
            outcome = outcome.take().or_else(|| handle.take());
            outcome.is_some()
        })?;
        self.settle(limit)?;
        Ok(outcome)
    }

    /// Runs what can happen at this instant.
    ///
    /// # Errors
    /// More than `limit` timers fell due.
    pub fn settle(&self, limit: u64) -> Result<(), TooManyTimers> {
        self.run(Some(self.now()), limit, || false)
    }

    /// Runs until it is done, nothing is left, or the next timer is due after `end`.
    fn run(
        &self,
        end: Option<MonoTime>,
        limit: u64,
        mut is_done: impl FnMut() -> bool,
    ) -> Result<(), TooManyTimers> {
        let mut fired = 0;
        loop {
            self.run_ready();
            if is_done() || !self.fire_next(end) {
                return Ok(());
            }
            fired += 1;
            if fired > limit {
                return Err(TooManyTimers(limit));
            }
        }
    }

    fn run_ready(&self) {
        loop {
            let next = self.inner.ready.lock().pop_front();
            let Some(task) = next else { return };
            task.poll();
        }
    }

    fn fire_next(&self, end: Option<MonoTime>) -> bool {
        let mut state = self.inner.state.lock();
        let Some(timer) = state.timers.first_entry() else { return false };
        let at = timer.key().at;
        if end.is_some_and(|end| at > end) {
            return false;
        }
        let waker = timer.remove();
        state.now = state.now.max(at);
        drop(state);
        waker.wake();
        true
    }
}

impl Runtime for VirtualRuntime {
    fn now(&self) -> MonoTime {
        self.inner.state.lock().now
    }

    fn sleep_until(&self, at: MonoTime) -> BoxFuture<'static, ()> {
        Box::pin(Timer::new(&self.inner, at, false))
    }

    fn deadline(&self, at: MonoTime) -> BoxFuture<'static, ()> {
        Box::pin(Timer::new(&self.inner, at, true))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let task = Task { future: Mutex::new(Some(task)), inner: Arc::downgrade(&self.inner) };
        self.inner.ready.lock().push_back(Arc::new(task));
    }
}

impl fmt::Debug for VirtualRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualRuntime").field("now", &self.now()).finish_non_exhaustive()
    }
}

struct Task {
    /// `None` once it has ended.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    inner: Weak<Inner>,
}

impl Task {
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        // Nobody else polls, so the lock is free; it is not held while the future runs.
        let future = self.future.lock().take();
        let Some(mut future) = future else { return };
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.future.lock() = Some(future);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Some(inner) = self.inner.upgrade() {
            inner.ready.lock().push_back(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{OutOfTime, within};

    const LIMIT: u64 = 100;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn time_moves_to_the_next_timer_when_everything_waits() {
        let runtime = VirtualRuntime::default();
        let inside = runtime.clone();
        let mut task = runtime.start(async move {
            inside.sleep_until(at(300)).await;
            inside.now()
        });
        runtime.advance(Duration::from_millis(299), LIMIT).unwrap();
        assert_eq!(task.take(), None);
        assert_eq!(runtime.finish(&mut task, LIMIT), Ok(Some(at(300))));
        assert_eq!(runtime.now(), at(300));
    }

    #[test]
    fn what_ends_at_the_very_instant_of_a_deadline_counts_whatever_it_went_through() {
        let runtime = VirtualRuntime::default();
        for (work, outcome) in [(100, Ok(())), (101, Err(OutOfTime))] {
            let (start, inside) = (runtime.now(), runtime.clone());
            let by = move |ms| start + Duration::from_millis(ms);
            let mut task = runtime.start(async move {
                // The answer comes through another task.
                let (sender, answer) = oneshot::channel();
                let other = inside.clone();
                inside.spawn(Box::pin(async move {
                    other.sleep_until(by(work)).await;
                    sender.send(()).unwrap();
                }));
                within(&inside, Some(by(100)), answer.map(|_| ())).await
            });
            assert_eq!(runtime.finish(&mut task, LIMIT), Ok(Some(outcome)));
        }
    }

    #[test]
    fn a_task_that_waits_for_nothing_and_one_that_never_rests_come_to_an_end() {
        let runtime = VirtualRuntime::default();
        let mut stuck = runtime.start(std::future::pending::<()>());
        assert_eq!(runtime.finish(&mut stuck, LIMIT), Ok(None));
        let inside = runtime.clone();
        let mut restless = runtime.start(async move {
            loop {
                inside.sleep_until(inside.now() + Duration::from_secs(1)).await;
            }
        });
        assert_eq!(runtime.finish::<()>(&mut restless, LIMIT), Err(TooManyTimers(LIMIT)));
    }
}
