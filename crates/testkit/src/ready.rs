//! The ready file that `pointsman dev` writes once queries can be answered.

use std::{fs, path::Path};

use anyhow::Context;
use serde::Deserialize;

/// Where everything is.
#[derive(Clone, Debug, Deserialize)]
pub struct Ready {
    /// The broker.
    pub broker: Endpoint,
    /// The coordinator.
    pub coordinator: Endpoint,
    /// The nodes, by name.
    pub nodes: Vec<NodeEndpoint>,
    /// The metastore, without secrets.
    pub metastore: String,
    /// The folder of the object store.
    pub objects: String,
}

/// A process with both surfaces.
#[derive(Clone, Debug, Deserialize)]
pub struct Endpoint {
    /// URL of its HTTP surface.
    pub http: String,
    /// URL of its gRPC surface.
    pub grpc: String,
    /// Its process number.
    pub pid: u32,
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeEndpoint {
    /// Its stable name.
    pub name: String,
    /// Its resource group.
    pub resource_group: String,
    /// URL of its worker.
    pub grpc: String,
    /// Its process number.
    pub pid: u32,
}

impl Ready {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not there yet, or not what it should be.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).context("no ready file yet")?;
        serde_json::from_str(&text).with_context(|| format!("not a ready file: {text}"))
    }

    /// The numbers of all processes.
    pub fn pids(&self) -> Vec<u32> {
        let nodes = self.nodes.iter().map(|node| node.pid);
        [self.broker.pid, self.coordinator.pid].into_iter().chain(nodes).collect()
    }
}
