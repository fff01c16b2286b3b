//! What a broker says of nodes and of itself.

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::Sql;

/// A node as the broker sees it: an entry of `/debug/nodes`.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeView {
    /// Its cluster.
    pub cluster: String,
    /// Its name in there.
    pub node: String,
    /// Where the broker calls it.
    pub address: String,
    /// One per start of its process.
    pub incarnation: u64,
    /// Whether its cluster lets queries go to it.
    pub enabled: bool,
    /// Whether the coordinator has not heard of it for a lease.
    pub lost: bool,
    /// Whether queries go to it.
    pub routable: bool,
    /// Milliseconds since it was excluded. None: it is not.
    pub excluded_for_ms: Option<u64>,
    /// Why it was excluded.
    pub evidence: Option<String>,
    /// Probes that it failed since.
    pub tries: u64,
    /// Milliseconds to the next probe.
    pub next_probe_in_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Page {
    nodes: Vec<NodeView>,
}

impl NodeView {
    /// The node is excluded.
    ///
    /// # Errors
    /// It is not; tells how it is.
    pub fn excluded(&self) -> anyhow::Result<&Self> {
        ensure!(self.excluded_for_ms.is_some() && !self.routable, "not excluded: {self:?}");
        Ok(self)
    }

    /// Queries go to the node.
    ///
    /// # Errors
    /// They do not; tells how it is.
    pub fn routable(&self) -> anyhow::Result<&Self> {
        ensure!(self.excluded_for_ms.is_none() && self.routable, "not routable: {self:?}");
        Ok(self)
    }
}

impl Sql {
    /// Every node of every cluster.
    ///
    /// # Errors
    /// The broker cannot be reached, or its page is not what it should be.
    pub fn nodes(&self) -> anyhow::Result<Vec<NodeView>> {
        let (status, text) = self.get("/debug/nodes")?;
        ensure!(status == 200, "/debug/nodes: {status} {text}");
        let page: Page =
            serde_json::from_str(&text).with_context(|| format!("not a list of nodes: {text}"))?;
        Ok(page.nodes)
    }

    /// The node with a key such as `local/n1`.
    ///
    /// # Errors
    /// As [`Sql::nodes`]; or the broker does not know it.
    pub fn node(&self, key: &str) -> anyhow::Result<NodeView> {
        let nodes = self.nodes()?;
        let found = nodes.iter().find(|node| key == format!("{}/{}", node.cluster, node.node));
        found.cloned().with_context(|| format!("the broker knows no {key}: {nodes:?}"))
    }

    /// The sum of a metric's series whose labels hold each of `labels`, such as `reason="probe"`; 0 without any.
    ///
    /// # Errors
    /// The broker cannot be reached, or a value is not a number.
    pub fn metric(&self, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
        let (status, text) = self.get("/metrics")?;
        ensure!(status == 200, "/metrics: {status} {text}");
        sum(&text, name, labels)
    }
}

fn sum(text: &str, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for line in text.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let (metric, given) = series.split_once('{').unwrap_or((series, ""));
        if metric == name && labels.iter().all(|label| given.contains(label)) {
            sum += value.parse::<f64>().with_context(|| line.to_owned())?;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_by_name_and_labels() {
        let text = "# TYPE a counter\na{x=\"1\",y=\"2\"} 3\na{x=\"1\"} 4\na{x=\"2\"} 5\naa{x=\"1\"} 6\nb 7\n";
        for (name, labels, expected) in
            [("a", &["x=\"1\""][..], 7.0), ("a", &[], 12.0), ("b", &[], 7.0), ("c", &[], 0.0)]
        {
            assert!((sum(text, name, labels).unwrap() - expected).abs() < 1e-9, "{name} {labels:?}");
        }
        assert!(sum("a x", "a", &[]).is_err());
    }
}
