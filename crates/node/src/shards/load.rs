//! What the node works on for requests by shard, and how much of that it takes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pointsman_ids::{Error, ErrorCode};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::metrics;

/// The most that is taken on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests at once; more are refused.
    pub(crate) requests: u64,
    /// Bytes that their questions and answers may take together; more are refused.
    pub(crate) bytes: u64,
    /// Requests that compute at once; more wait.
    pub(crate) computing: usize,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    requests: AtomicU64,
    nq: AtomicU64,
    bytes: AtomicU64,
    computing: Semaphore,
}

/// The requests by shard that a node works on.
#[derive(Clone, Debug)]
pub(crate) struct Load(Arc<Shared>);

/// The figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Figures {
    /// Requests, those that wait included.
    pub(crate) requests: u64,
    /// Their vectors and keys.
    pub(crate) nq: u64,
    /// Bytes of their questions and answers.
    pub(crate) bytes: u64,
}

impl Load {
    /// Nothing yet.
    pub(crate) fn new(limits: Limits) -> Self {
        let computing = Semaphore::new(limits.computing.clamp(1, Semaphore::MAX_PERMITS));
        Self(Arc::new(Shared {
            limits,
            requests: AtomicU64::new(0),
            nq: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            computing,
        }))
    }

    /// What it is now.
    pub(crate) fn figures(&self) -> Figures {
        let read = |number: &AtomicU64| number.load(Ordering::Acquire);
        Figures { requests: read(&self.0.requests), nq: read(&self.0.nq), bytes: read(&self.0.bytes) }
    }

    /// Takes on a request of so many vectors or keys.
    ///
    /// # Errors
    /// `service_too_many_requests` when there are as many as allowed.
    pub(crate) fn enter(&self, nq: u64) -> Result<Entered, Error> {
        // Taken before it is compared, so that it is given back by the same guard either way.
        let before = self.0.requests.fetch_add(1, Ordering::AcqRel);
        self.0.nq.fetch_add(nq, Ordering::AcqRel);
        let entered = Entered { load: self.clone(), nq, bytes: AtomicU64::new(0) };
        let limit = self.0.limits.requests;
        metrics::shard_load(self.figures());
        if before >= limit {
            let text = format!("the node works on {limit} requests by shard, which is `node.shard_requests`");
            return Err(Error::new(ErrorCode::ServiceTooManyRequests, text));
        }
        Ok(entered)
    }

    /// Waits for its turn to compute.
    ///
    /// # Errors
    /// `node_not_serving` when the node stops.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, Error> {
        let turn = self.0.computing.acquire().await;
        turn.map_err(|_| Error::new(ErrorCode::NodeNotServing, "the node stops"))
    }
}

/// A request that was taken on, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    load: Load,
    nq: u64,
    bytes: AtomicU64,
}

impl Entered {
    /// It takes so many bytes more from now on.
    ///
    /// # Errors
    /// `service_too_many_requests` when all together would take more than allowed.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Error> {
        let (all, limit) = (&self.load.0.bytes, self.load.0.limits.bytes);
        let before = all.fetch_add(bytes, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) <= limit {
            return Ok(());
        }
        let text = format!(
            "requests by shard take {before} bytes of the node's memory, and {bytes} more are above the {limit} of \
             `node.shard_request_memory`"
        );
        Err(Error::new(ErrorCode::ServiceTooManyRequests, text))
    }

    /// Vectors and keys of all other requests.
    pub(crate) fn others_nq(&self) -> u64 {
        self.load.figures().nq.saturating_sub(self.nq)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let shared = &self.load.0;
        shared.requests.fetch_sub(1, Ordering::AcqRel);
        shared.nq.fetch_sub(self.nq, Ordering::AcqRel);
        shared.bytes.fetch_sub(self.bytes.load(Ordering::Acquire), Ordering::AcqRel);
        metrics::shard_load(self.load.figures());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(requests: u64, bytes: u64) -> Load {
        Load::new(Limits { requests, bytes, computing: 1 })
    }

    #[test]
    fn more_than_allowed_is_refused_retriably_and_leaves_no_count() {
        let load = load(2, 100);
        let (first, _second) = (load.enter(3).unwrap(), load.enter(4).unwrap());
        let refused = load.enter(5).unwrap_err();
        assert!(refused.is_retriable() && refused.message().contains("node.shard_requests"), "{refused}");
        assert_eq!(load.figures(), Figures { requests: 2, nq: 7, bytes: 0 });
        assert_eq!(first.others_nq(), 4);
        drop(first);
        assert!(load.enter(5).is_ok());
    }

    #[test]
    fn bytes_are_bounded_and_given_back() {
        let load = load(2, 100);
        let entered = load.enter(1).unwrap();
        entered.take(60).unwrap();
        let refused = entered.take(41).unwrap_err();
        assert!(
            refused.is_retriable() && refused.message().contains("node.shard_request_memory"),
            "{refused}"
        );
        drop(entered);
        assert_eq!(load.figures(), Figures::default());
    }

    #[tokio::test]
    async fn one_computes_after_the_other_and_who_leaves_the_queue_blocks_nobody() {
        let load = load(9, 100);
        let turn = load.turn().await.unwrap();
        let waiting = load.turn();
        futures::pin_mut!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        let impatient = tokio::time::timeout(std::time::Duration::from_millis(1), load.turn()).await;
        assert!(impatient.is_err());
        drop(turn);
        drop(waiting.await.unwrap());
    }
}
