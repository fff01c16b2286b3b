//! The broker's query surface.

use std::time::Duration;

use anyhow::Context;
use pointsman_ids::{Error, ErrorCode, near};
use reqwest::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    Endpoints, NO_COLLECTION, Routing,
    health::{Health, Nodes},
    leaders::{self, Leaders},
    route::{Page, Refused},
};
use crate::{Failure, args::Target, sql::Answer};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for one of its pages.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// What the answer may take longer than the query's deadline.
const SLACK: Duration = Duration::from_secs(5);

/// A broker.
#[derive(Clone, Debug)]
pub(crate) struct Broker {
    http: reqwest::Client,
    endpoints: String,
    url: String,
}

/// Options of a query, as the broker reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryOptions {
    /// Deadline; `None`: the broker's own.
    pub(crate) timeout: Option<Duration>,
    /// The one resource group whose replicas may answer.
    pub(crate) resource_group: Option<String>,
}

impl QueryOptions {
    fn text(&self) -> String {
        let timeout = self.timeout.map(|timeout| format!("timeoutMs={}", timeout.as_millis().max(1)));
        let group = self.resource_group.as_ref().map(|group| format!("resource_group={group}"));
        [timeout, group].into_iter().flatten().collect::<Vec<_>>().join(";")
    }
}

impl Broker {
    /// The broker that the command line names. Connects with the first query.
    pub(crate) fn new(target: &Target) -> anyhow::Result<Self> {
        Self::of(target.broker()?)
    }

    /// The broker if the command line or the data directory names one.
    pub(crate) fn named(target: &Target) -> anyhow::Result<Option<Self>> {
        target.named_broker()?.map(Self::of).transpose()
    }

    fn of(endpoints: Endpoints) -> anyhow::Result<Self> {
        let Endpoints { urls, named_by } = endpoints;
        Self::at(urls.into_iter().next().unwrap_or_default(), named_by)
    }

    /// The broker at a URL.
    pub(crate) fn at(url: String, named_by: String) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).build()?;
        Ok(Self { http, endpoints: named_by, url: url.trim_end_matches('/').to_owned() })
    }

    /// Runs one statement.
    pub(crate) async fn query(&self, sql: &str, options: &QueryOptions) -> anyhow::Result<Answer> {
        let url = format!("{}/query/sql", self.url);
        let body = json!({ "sql": sql, "queryOptions": options.text(), "trace": true });
        let mut request = self.http.post(&url).json(&body);
        if let Some(timeout) = options.timeout {
            request = request.timeout(timeout + SLACK);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.context("the broker broke off its answer")?;
        read(&url, status, &text)
    }

    /// How it would route a collection; `None` when it does not know it.
    pub(crate) async fn routing(&self, collection: &str) -> anyhow::Result<Option<Routing>> {
        let url = format!("{}/debug/routing/{collection}", self.url);
        let request = self.http.get(&url).timeout(PAGE_TIMEOUT);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        read(&url, status, &text).map(Some)
    }

    /// How it would route segments of a collection (none: all) under these options, with reasons.
    ///
    /// # Errors
    /// What the broker refuses; for an unknown collection with names that are near.
    pub(crate) async fn route(
        &self,
        collection: &str,
        segments: &[String],
        options: Option<&str>,
    ) -> anyhow::Result<Page> {
        let url = format!("{}/debug/route", self.url);
        let segments = segments.iter().map(|segment| ("segment", segment.as_str()));
        let options = options.map(|options| ("queryOptions", options));
        let query: Vec<_> = [("collection", collection)].into_iter().chain(segments).chain(options).collect();
        let request = self.http.get(&url).query(&query).timeout(PAGE_TIMEOUT);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        if !status.is_success() {
            return Err(refused(collection, &read(&url, status, &text)?));
        }
        let json = read(&url, status, &text)?;
        Ok(Page { routes: read(&url, status, &text)?, json })
    }

    /// What it thinks of every node.
    pub(crate) async fn nodes(&self) -> anyhow::Result<Vec<Health>> {
        let url = format!("{}/debug/nodes", self.url);
        let request = self.http.get(&url).timeout(PAGE_TIMEOUT);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        read(&url, status, &text).map(|page: Nodes| page.nodes)
    }

    /// The shard leaders that it knows of a collection, also as they came.
    ///
    /// # Errors
    /// What the broker refuses; for an unknown collection with names that are near.
    pub(crate) async fn leaders(&self, collection: &str) -> anyhow::Result<(Leaders, serde_json::Value)> {
        let url = format!("{}/debug/shards", self.url);
        let page = self.page(&url, self.http.get(&url).query(&[("collection", collection)])).await?;
        Ok((serde_json::from_value(page.clone()).context("the broker's page cannot be read")?, page))
    }

    /// Has it ask for a collection's leaders again; with a shard and a node, has it ask the node for the shard again. Says
    /// whether anything stood in the way.
    ///
    /// # Errors
    /// As [`Self::leaders`], and for an unknown node.
    pub(crate) async fn clear(&self, collection: &str, entry: Option<(&str, &str)>) -> anyhow::Result<bool> {
        let url = format!("{}/debug/shards", self.url);
        let entry = entry.map(|(shard, node)| [("shard", shard), ("node", node)]).into_iter().flatten();
        let query: Vec<_> = [("collection", collection)].into_iter().chain(entry).collect();
        let page = self.page(&url, self.http.delete(&url).query(&query)).await?;
        Ok(["was_avoided", "was_cached"].iter().any(|word| page[*word] == json!(true)))
    }

    async fn page(&self, url: &str, request: reqwest::RequestBuilder) -> anyhow::Result<serde_json::Value> {
        let request = request.timeout(PAGE_TIMEOUT);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        if status.is_success() {
            return read(url, status, &text);
        }
        let leaders::Refused { error } = read(url, status, &text)?;
        Err(Error::new(ErrorCode::from_number(error.code), error.message).into())
    }

    /// Names of the clusters that it routes to, its own first, connected or not.
    pub(crate) async fn clusters(&self) -> anyhow::Result<Vec<String>> {
        // A broker that is not ready says so by its status, and names them all the same.
        let url = format!("{}/ready", self.url);
        let request = self.http.get(&url).timeout(PAGE_TIMEOUT);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        read(&url, status, &text)
            .map(|page: Ready| page.clusters.into_iter().map(|cluster| cluster.cluster).collect())
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let (url, from) = (&self.url, &self.endpoints);
        if error.is_timeout() && !error.is_connect() {
            return Failure::NotReady(format!("the broker at {url} did not answer in time"));
        }
        let cause = pointsman_telemetry::chain(error);
        Failure::Unreachable(format!(
            "the broker at {url} does not answer ({cause}); address from {from}. Is the cluster up? `pointsman dev` starts one"
        ))
    }
}

/// What the command line reads of a broker's `/ready`.
#[derive(Debug, Deserialize)]
struct Ready {
    clusters: Vec<Cluster>,
}

#[derive(Debug, Deserialize)]
struct Cluster {
    cluster: String,
}

fn refused(collection: &str, refused: &Refused) -> anyhow::Error {
    let code = ErrorCode::from_number(refused.error.code);
    if code != ErrorCode::CollectionNotFound {
        return Error::new(code, refused.error.message.clone()).into();
    }
    let hint = near(collection, refused.known.iter().map(String::as_str), NO_COLLECTION);
    Error::new(code, format!("no collection '{collection}'; {hint}")).into()
}

fn read<T: DeserializeOwned>(url: &str, status: StatusCode, text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        let start: String = text.chars().take(200).collect();
        Failure::Failed(format!("{url} answered HTTP {status} with what is no answer ({error}): {start}"))
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_the_broker_reads_them() {
        let options =
            QueryOptions { timeout: Some(Duration::from_secs(2)), resource_group: Some("east".into()) };
        assert_eq!(options.text(), "timeoutMs=2000;resource_group=east");
        assert_eq!(QueryOptions::default().text(), "");
    }
}
