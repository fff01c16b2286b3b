//! Settings of a node.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use pointsman_ids::check_labels;

use crate::{Bytes, SettingsError, load};

/// Section `[node]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSettings {
    /// Stable name of the node, unique in its cluster.
    pub name: String,
    /// Addresses of coordinators, as URLs; the active one is found among them.
    pub coordinators: Vec<String>,
    /// Where the worker listens.
    pub grpc_listen: SocketAddr,
    /// The address that others reach the worker at, as URL; empty: from the listener.
    pub advertise: String,
    /// Where health and metrics listen.
    pub http_listen: SocketAddr,
    /// Folder of the segment cache and the incarnation.
    pub data_dir: PathBuf,
    /// Root of the object store; empty: the one that the coordinator names.
    pub objects: String,
    /// The resource group that the node would like to be a member of; empty: any.
    pub resource_group: String,
    /// Labels for filters of resource groups.
    pub labels: BTreeMap<String, String>,
    /// Bytes that cached segments may take on disk.
    pub cache_limit: Bytes,
    /// Segments that are fetched at once.
    pub fetch_concurrency: usize,
    /// Indexes over vectors that are built at once; 0: half as many as there are cores.
    pub index_concurrency: usize,
    /// Memory that queries may take together.
    pub memory_limit: Bytes,
    /// Memory that vectors and indexes may take which requests by shard keep from one to the next, and which builds of
    /// indexes read.
    pub vector_memory: Bytes,
    /// Requests by shard at once; more are refused.
    pub shard_requests: u64,
    /// Memory that questions and answers of requests by shard may take together; more are refused.
    pub shard_request_memory: Bytes,
    /// How long a node that was told to stop keeps serving, at most: half of it for others to take over what it
    /// serves, the rest for brokers and running queries.
    #[serde(with = "humantime_serde")]
    pub grace: Duration,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            name: "node-1".into(),
            coordinators: vec!["http://127.0.0.1:8190".into()],
            grpc_listen: SocketAddr::from(([127, 0, 0, 1], 8290)),
            advertise: String::new(),
            http_listen: SocketAddr::from(([127, 0, 0, 1], 8291)),
            data_dir: "pointsman-data/node".into(),
            objects: String::new(),
            resource_group: String::new(),
            labels: BTreeMap::new(),
            cache_limit: Bytes(64 << 30),
            fetch_concurrency: 4,
            index_concurrency: 0,
            memory_limit: Bytes::mib(2048),
            vector_memory: Bytes::mib(2048),
            shard_requests: 1024,
            shard_request_memory: Bytes::mib(512),
            grace: Duration::from_secs(10),
        }
    }
}

impl NodeSettings {
    /// Reads `[node]` of a TOML text, overlaid by variables.
    ///
    /// # Errors
    /// Names the key that is unknown, does not parse or is out of range.
    pub fn load(
        toml: &str,
        env: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Result<Self, SettingsError> {
        let settings: Self = load::section("node", toml, env)?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        load::check_name("node.name", &self.name)?;
        if !self.resource_group.is_empty() {
            load::check_name("node.resource_group", &self.resource_group)?;
        }
        if let Err(what) = check_labels(&self.labels) {
            return Err(SettingsError::range("node.labels", shown(&self.labels), format!("it {what}")));
        }
        load::check_coordinators("node.coordinators", &self.coordinators)?;
        load::check_listeners("node.http_listen", self.http_listen, self.grpc_listen)?;
        load::check_limit("node.cache_limit", self.cache_limit)?;
        load::check_limit("node.memory_limit", self.memory_limit)?;
        load::check_limit("node.vector_memory", self.vector_memory)?;
        load::check_limit("node.shard_request_memory", self.shard_request_memory)?;
        if self.shard_requests == 0 {
            return Err(SettingsError::range("node.shard_requests", 0, "must be at least 1"));
        }
        if self.fetch_concurrency == 0 {
            return Err(SettingsError::range("node.fetch_concurrency", 0, "must be at least 1"));
        }
        Ok(())
    }
}

/// The beginning of labels, for people.
fn shown(labels: &BTreeMap<String, String>) -> String {
    let names: Vec<String> = labels.keys().take(3).map(|name| name.chars().take(32).collect()).collect();
    let more = if labels.len() > names.len() { ", ..." } else { "" };
    format!("{{{}{more}}}", names.join(", ").escape_debug())
}
