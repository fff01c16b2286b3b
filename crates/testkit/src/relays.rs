//! Relays between the processes of a cluster.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, ensure};

use crate::{Cluster, Relay, eventually};

/// Longest time until a node that starts again serves.
const LIMIT: Duration = Duration::from_secs(60);

impl Cluster {
    /// Starts a node again behind a relay, which everybody who calls it then goes through: brokers and other nodes.
    ///
    /// # Errors
    /// There is no such node, or the broker does not see it there in time.
    pub fn relay_node(&mut self, name: &str) -> anyhow::Result<Relay> {
        let nodes = &self.ready().nodes;
        let node = nodes.iter().find(|node| node.name == name).with_context(|| format!("no node {name}"))?;
        let relay = Relay::start(socket(&node.grpc)?)?;
        let address = relay.url();
        self.kill_node(name)?;
        self.restart_node_with(name, &[("POINTSMAN_NODE__ADVERTISE", &address)])?;
        let (sql, key) = (self.sql(), format!("{}/{name}", self.name()));
        eventually(&format!("{name} behind a relay"), LIMIT, || {
            let node = sql.node(&key)?;
            ensure!(node.address.trim_end_matches('/') == address, "it is at {}", node.address);
            node.routable().map(drop)
        })?;
        Ok(relay)
    }

    /// A relay to the coordinator, for whoever is told its address.
    ///
    /// # Errors
    /// There is no free port.
    pub fn relay_coordinator(&self) -> anyhow::Result<Relay> {
        Relay::start(socket(&self.ready().coordinator.grpc)?)
    }
}

fn socket(url: &str) -> anyhow::Result<SocketAddr> {
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    address.parse().with_context(|| format!("{url} is not an address"))
}
