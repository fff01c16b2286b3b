//! The health probe.

use std::{error::Error, time::Duration};

use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use url::Url;

use crate::{Channels, Failure, failure};

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

impl Channels {
    /// Asks the standard health service at `url` how the process is, connecting if there is no connection.
    pub async fn probe(&self, url: &Url, deadline: Duration) -> Verdict {
        let mut client = HealthClient::new(self.channel(url));
        match timeout(deadline, client.check(HealthCheckRequest::default())).await {
            Err(_) => Verdict::Unhealthy(format!("no answer to a probe within {deadline:?}")),
            Ok(Err(status)) if is_unimplemented(&status) => Verdict::Unknown,
            Ok(Err(status)) => Verdict::Unhealthy(format!("probe failed: {}", chain(&status))),
            Ok(Ok(answer)) => match answer.into_inner().status() {
                ServingStatus::Serving => Verdict::Healthy,
                other => Verdict::Unhealthy(format!("a probe was answered {}", other.as_str_name())),
            },
        }
    }
}

fn is_unimplemented(status: &Status) -> bool {
    status.code() == Code::Unimplemented && failure(status) == Failure::Answer
}

/// The message and its causes on one line.
fn chain(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut next = status.source();
    while let Some(source) = next {
        let cause = source.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = source.source();
    }
    text
}
