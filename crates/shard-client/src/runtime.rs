//! Where the client reads time, waits and starts tasks. The seam that lets the whole client run on a virtual clock.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use futures::future::BoxFuture;
use pointsman_clock::MonoTime;

/// Time and tasks.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// The time since a start of the runtime's choice.
    fn now(&self) -> MonoTime;

    /// Comes to an end at a time; at once if that has passed.
    fn sleep_until(&self, at: MonoTime) -> BoxFuture<'static, ()>;

    /// As [`Runtime::sleep_until`], for somebody who would rather not be woken: what else happens at that very instant
    /// happens first, if the runtime can tell.
    fn deadline(&self, at: MonoTime) -> BoxFuture<'static, ()> {
        self.sleep_until(at)
    }

    /// Runs a task beside the caller.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// tokio's clock and tasks. Tasks run where they are spawned, so calls must come from inside a tokio runtime.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime {
    start: tokio::time::Instant,
}

impl Default for TokioRuntime {
    /// Time counts from now.
    fn default() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> MonoTime {
        MonoTime::from_start(self.start.elapsed())
    }

    fn sleep_until(&self, at: MonoTime) -> BoxFuture<'static, ()> {
        match self.start.checked_add(at.since_start()) {
            Some(at) => Box::pin(tokio::time::sleep_until(at)),
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

/// A caller's time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfTime;

/// Waits for what comes first; an end at the very instant of the deadline counts. No timer is made for what is ready.
pub(crate) async fn within<T>(
    runtime: &dyn Runtime,
    deadline: Option<MonoTime>,
    work: impl Future<Output = T>,
) -> Result<T, OutOfTime> {
    let mut work = pin!(work);
    let Some(deadline) = deadline else { return Ok(work.await) };
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        let timer = timer.get_or_insert_with(|| runtime.deadline(deadline));
        timer.as_mut().poll(context).map(|()| Err(OutOfTime))
    })
    .await
}
