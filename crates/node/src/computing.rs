//! Threads of their own for queries.
//!
//! A join may compute for seconds without giving way. On the threads that answer pings, report to the coordinator and
//! serve the pages, that would make a healthy node look dead to everybody. So calls of the worker run elsewhere, and
//! the plans that they start stay there.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tower::{Layer, Service};

use crate::in_flight::is_health;

/// The threads, one per core. They end with the last clone; work that still runs is left behind.
#[derive(Clone, Debug)]
pub(crate) struct Computing(Arc<Threads>);

#[derive(Debug)]
struct Threads {
    /// Taken when dropped: a runtime may not wait for its end inside another.
    runtime: Option<Runtime>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Computing {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().thread_name("query").enable_all().build()?;
        Ok(Self(Arc::new(Threads { runtime: Some(runtime) })))
    }
}

impl<S> Layer<S> for Computing {
    type Service = Elsewhere<S>;

    fn layer(&self, inner: S) -> Elsewhere<S> {
        Elsewhere { inner, computing: self.clone() }
    }
}

/// A service whose calls run on the threads for queries, health aside. A call that is dropped is ended there.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere<S> {
    inner: S,
    computing: Computing,
}

impl<S, B> Service<Request<B>> for Elsewhere<S>
where
    S: Service<Request<B>, Response = Response<tonic::body::Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_query = !is_health(request.uri().path());
        let answer = self.inner.call(request);
        match &self.computing.0.runtime {
            Some(runtime) if is_query => {
                let task = AbortOnDropHandle::new(runtime.spawn(answer));
                Box::pin(async move {
                    match task.await {
                        Ok(answer) => answer,
                        // A panic ends its own call, and not the connection with everybody else's.
                        Err(ended) if ended.is_panic() => {
                            tracing::error!("a query panicked; standard error says where");
                            Ok(Status::internal("the query broke an invariant of the node").into_http())
                        }
                        Err(_) => Ok(Status::unavailable("the node stops").into_http()),
                    }
                })
            }
            _ => Box::pin(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test]
    async fn queries_run_on_their_own_threads_and_health_does_not() {
        let computing = Computing::start().unwrap();
        let whose = |_: Request<()>| async {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            Ok::<_, Infallible>(
                Response::builder().header("thread", name).body(tonic::body::Body::empty()).unwrap(),
            )
        };
        let service = computing.layer(service_fn(whose));
        for (path, is_query) in
            [("/worker.WorkerService/ExecuteTask", true), ("/grpc.health.v1.Health/Check", false)]
        {
            let request = Request::builder().uri(path).body(()).unwrap();
            let answer = service.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.headers()["thread"] == "query", is_query, "{path}");
        }
    }

    #[tokio::test]
    async fn a_dropped_call_ends_on_its_thread() {
        let computing = Computing::start().unwrap();
        let (started, ended) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let signals = (Arc::clone(&started), Arc::clone(&ended));
        let endless = move |_: Request<()>| {
            let (started, ended) = signals.clone();
            async move {
                let _told = told_at_drop(ended);
                started.notify_one();
                std::future::pending::<Result<Response<tonic::body::Body>, Infallible>>().await
            }
        };
        let call =
            computing.layer(service_fn(endless)).oneshot(Request::builder().uri("/q").body(()).unwrap());
        let call = tokio::spawn(call);
        started.notified().await;
        call.abort();
        ended.notified().await;
    }

    /// Notifies when it is dropped.
    fn told_at_drop(ended: Arc<tokio::sync::Notify>) -> impl Drop {
        struct Told(Arc<tokio::sync::Notify>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        Told(ended)
    }
}
