//! Counts the calls of the worker that run, so that a node that drains knows when the last one has ended.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::{Layer, Service};

use crate::metrics;

/// Whether a call asks or watches health, which brokers do for ever: it is no query.
pub(crate) fn is_health(path: &str) -> bool {
    path.starts_with("/grpc.health.v1.Health/")
}

/// The number of calls that run. A call runs from its arrival to the end of its answer's body.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// How many run now.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn enter(&self) -> Running {
        metrics::calls(self.0.fetch_add(1, Ordering::AcqRel) + 1);
        Running(self.clone())
    }
}

impl<S> Layer<S> for InFlight {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, in_flight: self.clone() }
    }
}

/// One call, until it is dropped.
#[derive(Debug)]
struct Running(InFlight);

impl Drop for Running {
    fn drop(&mut self) {
        metrics::calls(self.0.0.fetch_sub(1, Ordering::AcqRel) - 1);
    }
}

/// A service whose calls are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    in_flight: InFlight,
}

impl<S, B> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<tonic::body::Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<tonic::body::Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let running = (!is_health(request.uri().path())).then(|| self.in_flight.enter());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| tonic::body::Body::new(CountedBody { body, _running: running })))
        })
    }
}

/// A body that counts as running until it is dropped.
struct CountedBody {
    body: tonic::body::Body,
    _running: Option<Running>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        Poll::Ready(ready!(Pin::new(&mut self.body).poll_frame(cx)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    /// A body that goes on for ever.
    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = tonic::Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_call_runs_until_its_body_is_dropped_and_health_does_not_count() {
        let in_flight = InFlight::default();
        let body = || tonic::body::Body::new(Endless);
        let answer = move |_: Request<()>| async move { Ok::<_, Infallible>(Response::new(body())) };
        let service = in_flight.layer(service_fn(answer));
        let request = |path: &str| Request::builder().uri(path).body(()).unwrap();
        let watch = service.clone().oneshot(request("/grpc.health.v1.Health/Watch")).await.unwrap();
        assert_eq!(in_flight.count(), 0);
        let query = service.clone().oneshot(request("/worker/Execute")).await.unwrap();
        assert_eq!(in_flight.count(), 1);
        drop((watch, query));
        assert_eq!(in_flight.count(), 0);
    }
}
