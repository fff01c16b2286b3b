//! What probes find.

use std::time::{Duration, Instant};

use pointsman_channels::{Channels, Verdict};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, service::Routes, transport::Server};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse,
        health_server::{Health, HealthServer},
    },
};
use url::Url;

use crate::net::{Process, SETTINGS};

const DEADLINE: Duration = Duration::from_secs(5);

fn is_unhealthy(verdict: &Verdict, why: &str) -> bool {
    matches!(verdict, Verdict::Unhealthy(reason) if reason.contains(why))
}

#[tokio::test]
async fn a_node_is_as_healthy_as_it_says() {
    let process = Process::start().await;
    let channels = Channels::tcp(SETTINGS);
    assert_eq!(channels.probe(&process.url(), DEADLINE).await.verdict, Verdict::Healthy);
    process.health.set_service_status("", ServingStatus::NotServing).await;
    let answer = channels.probe(&process.url(), DEADLINE).await;
    assert!(is_unhealthy(&answer.verdict, "NOT_SERVING") && answer.reached, "{answer:?}");
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_unhealthy() {
    let process = Process::start().await;
    let url = process.url();
    process.kill().await;
    let answer = Channels::tcp(SETTINGS).probe(&url, DEADLINE).await;
    assert!(is_unhealthy(&answer.verdict, "refused") && !answer.reached, "{answer:?}");
}

#[tokio::test]
async fn a_node_that_does_not_answer_in_time_is_unhealthy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (start, deadline) = (Instant::now(), Duration::from_millis(100));
    let verdict = Channels::tcp(SETTINGS).probe(&url, deadline).await.verdict;
    assert!(is_unhealthy(&verdict, "within 100ms"), "{verdict:?}");
    assert!(start.elapsed() < DEADLINE);
}

#[tokio::test]
async fn a_node_without_a_health_service_has_no_opinion() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let server = Server::builder().add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    assert_eq!(Channels::tcp(SETTINGS).probe(&url, DEADLINE).await.verdict, Verdict::Unknown);
}

/// Answers for a node like a cache: with what it heard so long ago, once for each cache on the way.
struct Cache(&'static [&'static str]);

#[tonic::async_trait]
impl Health for Cache {
    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let mut response = Response::new(HealthCheckResponse { status: 1 });
        for age in self.0 {
            response.metadata_mut().append("age", age.parse().unwrap());
        }
        Ok(response)
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("nobody watches"))
    }
}

#[tokio::test]
async fn an_answer_carries_its_age() {
    for (ages, seconds) in [
        (&["7"][..], 7),
        (&["7", "3600"], 3600),
        // Too old to be counted, or of nobody knows when: no answer of now in any case.
        (&["99999999999999999999999"], u64::MAX),
        (&["0", "a while"], u64::MAX),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = Server::builder().add_service(HealthServer::new(Cache(ages)));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let answer = Channels::tcp(SETTINGS).probe(&url, DEADLINE).await;
        assert!(answer.is_from_before() && answer.took < DEADLINE, "{answer:?}");
        assert_eq!((answer.verdict, answer.age), (Verdict::Healthy, Duration::from_secs(seconds)));
    }
    let process = Process::start().await;
    let answer = Channels::tcp(SETTINGS).probe(&process.url(), DEADLINE).await;
    assert!(answer.age.is_zero() && !answer.is_from_before(), "{answer:?}");
}
