//! The bound on calls under way to one node.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use pointsman_ids::{Error, ErrorCode, NodeKey, Result};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// The places of all nodes. Those of a node are given in the order in which calls asked.
#[derive(Debug)]
pub(crate) struct InFlight {
    max: usize,
    patience: Duration,
    nodes: Mutex<BTreeMap<NodeKey, Arc<Semaphore>>>,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl InFlight {
    /// Places for `max` calls to each node. More wait as long as `patience` lasts.
    pub(crate) fn new(max: usize, patience: Duration) -> Self {
        Self { max: max.min(Semaphore::MAX_PERMITS), patience, nodes: Mutex::default() }
    }

    /// Waits for a place of a node, no longer than the call has time.
    ///
    /// # Errors
    /// `service_too_many_requests` naming the node and the bound.
    pub(crate) async fn enter(&self, node: &NodeKey, remaining: Duration) -> Result<Place> {
        let places = self.places(node);
        if let Ok(permit) = Arc::clone(&places).try_acquire_owned() {
            return Ok(Place(permit));
        }
        match timeout(self.patience.min(remaining), places.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Place(permit)),
            _ => Err(self.full(node)),
        }
    }

    /// Takes a place of a node if one is free.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub(crate) fn enter_now(&self, node: &NodeKey) -> Result<Place> {
        self.places(node).try_acquire_owned().map(Place).map_err(|_| self.full(node))
    }

    fn full(&self, node: &NodeKey) -> Error {
        let text = format!(
            "{} calls to node {node} are under way, as many as broker.node.max_in_flight allows",
            self.max
        );
        Error::new(ErrorCode::ServiceTooManyRequests, text)
    }

    fn places(&self, node: &NodeKey) -> Arc<Semaphore> {
        let mut nodes = self.nodes.lock();
        if let Some(places) = nodes.get(node) {
            return Arc::clone(places);
        }
        // Nodes come and go; those that nobody calls are forgotten.
        nodes.retain(|_, places| Arc::strong_count(places) > 1);
        let places = Arc::new(Semaphore::new(self.max));
        nodes.insert(node.clone(), Arc::clone(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn node(name: &str) -> NodeKey {
        NodeKey { cluster: "local".parse().unwrap(), node: name.parse().unwrap() }
    }

    const AMPLE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_call_beyond_the_bound_is_refused_when_its_patience_is_over() {
        let in_flight = InFlight::new(1, Duration::from_millis(20));
        let first = in_flight.enter(&node("n1"), AMPLE).await.unwrap();
        let _other = in_flight.enter(&node("n2"), AMPLE).await.unwrap();
        let began = tokio::time::Instant::now();
        let refused = in_flight.enter(&node("n1"), AMPLE).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ServiceTooManyRequests);
        assert!(refused.message().contains("local/n1"), "{refused}");
        assert!(began.elapsed() >= Duration::from_millis(20));
        drop(first);
        in_flight.enter(&node("n1"), AMPLE).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_waits_no_longer_than_it_has_time_and_takes_a_place_that_is_given_back() {
        let in_flight = InFlight::new(1, AMPLE);
        let node = node("n1");
        let first = in_flight.enter(&node, AMPLE).await.unwrap();
        in_flight.enter(&node, Duration::from_millis(10)).await.unwrap_err();
        let mut waiting = Box::pin(in_flight.enter(&node, AMPLE));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(first);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn nodes_that_nobody_calls_are_forgotten() {
        let in_flight = InFlight::new(1, AMPLE);
        drop(in_flight.enter(&node("n1"), Duration::ZERO).await);
        let held = in_flight.enter(&node("n2"), Duration::ZERO).await.unwrap();
        drop(in_flight.enter(&node("n3"), Duration::ZERO).await);
        let known: Vec<_> = in_flight.nodes.lock().keys().cloned().collect();
        assert_eq!(known, [node("n2"), node("n3")]);
        drop(held);
    }
}
