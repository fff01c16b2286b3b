//! How many queries run at once and how many may wait for a place.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use pointsman_ids::{Error, ErrorCode, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics;

/// The places that queries run in. Places are given in the order in which queries asked.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    max_running: usize,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Admission {
    /// Places for `max_running` queries, and a queue for `max_waiting` more.
    pub(crate) fn new(max_running: usize, max_waiting: usize) -> Self {
        let places = Arc::new(Semaphore::new(max_running.min(Semaphore::MAX_PERMITS)));
        Self { places, max_running, waiting: AtomicUsize::new(0), max_waiting }
    }

    /// Waits for a place. Giving up waiting, by a deadline around this call, leaves the queue.
    ///
    /// # Errors
    /// `service_too_many_requests` at once when the queue is full.
    pub(crate) async fn enter(&self) -> Result<Place> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place(permit));
        }
        let _waiting = self.queue()?;
        let stopped = |_| Error::new(ErrorCode::ServiceUnavailable, "the broker is stopping");
        Arc::clone(&self.places).acquire_owned().await.map(Place).map_err(stopped)
    }

    fn queue(&self) -> Result<Waiting<'_>> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) < self.max_waiting {
            return Ok(waiting);
        }
        Err(Error::new(
            ErrorCode::ServiceTooManyRequests,
            format!(
                "{} queries run and {} wait, as many as this broker takes (broker.query.max_concurrent, .max_waiting); \
                 try again later",
                self.max_running, self.max_waiting
            ),
        ))
    }

    /// Sets the gauges.
    pub(crate) fn publish(&self) {
        let running = self.max_running.saturating_sub(self.places.available_permits());
        metrics::admission(running, self.waiting.load(Ordering::Relaxed));
    }
}

/// Stands in the queue until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_a_free_place_is_taken() {
        let admission = Admission::new(1, 1);
        let running = admission.enter().await.unwrap();
        let mut waiting = Box::pin(admission.enter());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(admission.enter().await.unwrap_err().code(), ErrorCode::ServiceTooManyRequests);
        drop(running);
        let second = waiting.await.unwrap();
        drop(second);
        admission.enter().await.unwrap();
    }

    #[tokio::test]
    async fn one_that_gives_up_waiting_leaves_the_queue() {
        let admission = Admission::new(1, 1);
        let _running = admission.enter().await.unwrap();
        assert!(admission.enter().now_or_never().is_none());
        assert!(
            admission.enter().now_or_never().is_none(),
            "the first left the queue, so the second may wait"
        );
    }
}
