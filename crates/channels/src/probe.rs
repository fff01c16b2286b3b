//! The health probe.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::{Code, Status, body::Body, metadata::MetadataMap};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use url::Url;

use crate::{Channels, Failure, OwnConnection, failure, failure::with_causes};

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node serves.
    Healthy,
    /// It does not, or did not say so in time; with the reason.
    Unhealthy(String),
    /// A connection stands, and the node has no health service to ask.
    Unknown,
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it found.
    pub verdict: Verdict,
    /// Whether there was an answer, whatever it said: a node that does not serve yet, or not any more, can be called.
    pub reached: bool,
    /// How old the answer was when it came: what its header `age` says in whole seconds, as caches do that answer for
    /// a node; zero without one, of several the highest, and without end if one cannot be read.
    pub age: Duration,
    /// How long the probe took.
    pub took: Duration,
}

impl Answer {
    /// Whether it was formed before the probe began, and so says nothing about the node of now.
    pub fn is_from_before(&self) -> bool {
        self.age > self.took
    }
}

impl Channels {
    /// Asks the standard health service at `url` how the process is, connecting if there is no connection.
    pub async fn probe(&self, url: &Url, deadline: Duration) -> Answer {
        probe_over(self.channel(url), deadline).await
    }
}

impl OwnConnection {
    /// As [`Channels::probe`], over this connection.
    pub async fn probe(&self, deadline: Duration) -> Answer {
        probe_over(self.clone(), deadline).await
    }
}

async fn probe_over<S>(channel: S, deadline: Duration) -> Answer
where
    S: tower::Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let began = Instant::now();
    let mut client = HealthClient::new(channel);
    let asked = timeout(deadline, client.check(HealthCheckRequest::default())).await;
    let reached = match &asked {
        Err(_) => false,
        Ok(Err(status)) => failure(status) == Failure::Answer,
        Ok(Ok(_)) => true,
    };
    let (verdict, age) = match asked {
        Err(_) => (Verdict::Unhealthy(format!("no answer to a probe within {deadline:?}")), Duration::ZERO),
        Ok(Err(status)) if is_unimplemented(&status) => (Verdict::Unknown, age(status.metadata())),
        Ok(Err(status)) => {
            let text = with_causes(status.message().to_owned(), &status);
            (Verdict::Unhealthy(format!("probe failed: {text}")), age(status.metadata()))
        }
        Ok(Ok(answer)) => {
            let age = age(answer.metadata());
            let verdict = match answer.into_inner().status() {
                ServingStatus::Serving => Verdict::Healthy,
                other => Verdict::Unhealthy(format!("a probe was answered {}", other.as_str_name())),
            };
            (verdict, age)
        }
    };
    Answer { verdict, reached, age, took: began.elapsed() }
}

fn age(metadata: &MetadataMap) -> Duration {
    let seconds = metadata.get_all("age").iter().map(|age| {
        let seconds = age.to_str().ok().and_then(|age| age.trim().parse::<u64>().ok());
        seconds.unwrap_or(u64::MAX)
    });
    Duration::from_secs(seconds.max().unwrap_or(0))
}

fn is_unimplemented(status: &Status) -> bool {
    status.code() == Code::Unimplemented && failure(status) == Failure::Answer
}
