//! Calls that run to their end whether or not their caller waits for it.
//!
//! A caller that goes away, by Ctrl-C or at its deadline, has its call dropped wherever that waits: also between a write and
//! its effect in memory, which would then be behind the metastore for good.

use std::{
    future::{pending, ready},
    panic::resume_unwind,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tonic::Status;
use tower::{Layer, Service};

/// Makes every call of a service a task of its own.
#[derive(Clone, Debug)]
pub(crate) struct ToTheEnd {
    places: Arc<Semaphore>,
}

impl ToTheEnd {
    /// So many calls run at once; who comes beyond that is refused. Callers that come, go and come again while nothing
    /// gets on, as without the metastore, would else leave ever more of them.
    pub(crate) fn with_places(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)) }
    }
}

impl<S> Layer<S> for ToTheEnd {
    type Service = Detached<S>;

    fn layer(&self, inner: S) -> Detached<S> {
        Detached { inner, places: Arc::clone(&self.places) }
    }
}

/// A service whose calls are not dropped with their callers. What streams in an answer still is.
#[derive(Clone, Debug)]
pub(crate) struct Detached<S> {
    inner: S,
    places: Arc<Semaphore>,
}

impl<S, R, B> Service<R> for Detached<S>
where
    S: Service<R, Response = http::Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Default + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let refusal = Status::resource_exhausted("too many calls run already; try again later");
            return Box::pin(ready(Ok(refusal.into_http())));
        };
        let call = self.inner.call(request);
        let running = pointsman_telemetry::spawn("call", async move {
            let answer = call.await;
            drop(place);
            answer
        });
        Box::pin(async move {
            match running.await {
                Ok(answer) => answer,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The program ends, and with it whoever asks.
                    Err(_) => pending().await,
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use tokio::sync::Notify;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn a_call_ends_also_when_its_caller_goes_away() {
        let (begun, go, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let took_effect = Arc::new(AtomicBool::new(false));
        let parts = (Arc::clone(&begun), Arc::clone(&go), Arc::clone(&ended), Arc::clone(&took_effect));
        let work = move |()| {
            let (begun, go, ended, took_effect) = parts.clone();
            async move {
                begun.notify_one();
                go.notified().await;
                took_effect.store(true, Ordering::SeqCst);
                ended.notify_one();
                Ok::<_, Infallible>(http::Response::new(7))
            }
        };
        let mut service = ToTheEnd::with_places(1).layer(service_fn(work));
        let call = service.call(());
        begun.notified().await;
        drop(call);
        // It has its place until its end.
        let refused = service.call(()).await.unwrap();
        assert_eq!(
            Status::from_header_map(refused.headers()).unwrap().code(),
            tonic::Code::ResourceExhausted
        );
        go.notify_one();
        ended.notified().await;
        assert!(took_effect.load(Ordering::SeqCst));

        while service.places.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        let call = service.call(());
        go.notify_one();
        assert_eq!(call.await.unwrap().into_body(), 7);
    }
}
