//! Calls of the worker run on threads of their own, and the plans that they start stay there.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use pointsman_ids::{Error, ErrorCode};
use pointsman_program::QueryThreads;
use tonic::Status;
use tower::{Layer, Service};

use crate::in_flight::is_health;

/// Moves calls to the threads for queries.
#[derive(Clone, Debug)]
pub(crate) struct Computing(pub(crate) QueryThreads);

impl<S> Layer<S> for Computing {
    type Service = Elsewhere<S>;

    fn layer(&self, inner: S) -> Elsewhere<S> {
        Elsewhere { inner, threads: self.0.clone() }
    }
}

/// A service whose calls run on the threads for queries, health aside. A call that is dropped is ended there.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere<S> {
    inner: S,
    threads: QueryThreads,
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
        if !is_query {
            return Box::pin(answer);
        }
        let running = self.threads.spawn(answer);
        Box::pin(async move {
            match running.await {
                Ok(answer) => answer,
                // A panic ends its own call, and not the connection with everybody else's.
                Err(ended) if ended.is_panic() => {
                    tracing::error!("a query panicked; standard error says where");
                    Ok(Status::internal("the query broke an invariant of the node").into_http())
                }
                Err(_) => Ok(stops().into_http()),
            }
        })
    }
}

/// The answer to a call that comes, or runs, when the threads are no more: no fault, and to be had elsewhere.
fn stops() -> Status {
    pointsman_proto::status(&Error::new(ErrorCode::NodeNotServing, "the node stops"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test]
    async fn queries_run_on_their_own_threads_and_health_does_not() {
        let whose = |_: Request<()>| async {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let answer = Response::builder().header("thread", name).body(tonic::body::Body::empty());
            Ok::<_, Infallible>(answer.unwrap())
        };
        let service = Computing(QueryThreads::start().unwrap()).layer(service_fn(whose));
        for (path, is_query) in
            [("/worker.WorkerService/ExecuteTask", true), ("/grpc.health.v1.Health/Check", false)]
        {
            let request = Request::builder().uri(path).body(()).unwrap();
            let answer = service.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.headers()["thread"] == "query", is_query, "{path}");
        }
    }

    #[tokio::test]
    async fn a_panic_ends_its_call_alone() {
        let broken = |_: Request<()>| async { panic!("on purpose") };
        let broken = service_fn(move |request| async move {
            let answer: Result<Response<tonic::body::Body>, Infallible> = broken(request).await;
            answer
        });
        let service = Computing(QueryThreads::start().unwrap()).layer(broken);
        // Calling takes the service: the threads must outlive it, as a server's do.
        let answer = service.clone().oneshot(Request::builder().uri("/q").body(()).unwrap()).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "13");
    }
}
