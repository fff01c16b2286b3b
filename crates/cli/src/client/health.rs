//! What a broker thinks of the nodes, as its `/debug/nodes` page says.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::Broker;
use crate::{args::Target, output};

/// The page.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Nodes {
    /// Every member of every cluster that the broker knows.
    pub(crate) nodes: Vec<Health>,
}

/// One node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Health {
    /// Its cluster.
    pub(crate) cluster: String,
    /// Its name.
    pub(crate) node: String,
    /// Queries may go to it.
    enabled: bool,
    /// Queries do go to it.
    pub(crate) routable: bool,
    /// For how long it is excluded; absent: it is not.
    excluded_for_ms: Option<u64>,
    /// What was seen of its failure; absent: it is not excluded.
    evidence: Option<String>,
    /// Probes that have failed since.
    tries: u64,
    /// Time until the next one; absent: none is due.
    next_probe_in_ms: Option<u64>,
    /// Suspicions in a row.
    suspicions: u64,
    /// What the last one rests on; absent: there is none.
    suspicion: Option<String>,
}

impl Health {
    /// What the broker that the command line or the data directory names thinks of the nodes of its own cluster, by
    /// name. Nothing without such a broker, or with a note when it does not answer.
    pub(crate) async fn of_local_nodes(target: &Target) -> BTreeMap<String, Self> {
        let asked = async {
            match Broker::named(target)? {
                Some(broker) => broker.nodes().await,
                None => Ok(vec![]),
            }
        };
        let nodes = asked.await.unwrap_or_else(|error| {
            output::note(format_args!("the broker's view is not shown: {error:#}"));
            vec![]
        });
        // It lists its own cluster first.
        let local = nodes.first().map(|node| node.cluster.clone());
        let nodes = nodes.into_iter().filter(|node| Some(&node.cluster) == local.as_ref());
        nodes.map(|node| (node.node.clone(), node)).collect()
    }

    /// For people: whether queries go to it, and else since when not, by what evidence, and when it is looked at again.
    pub(crate) fn words(&self) -> String {
        let time = |ms: u64| humantime::format_duration(Duration::from_secs(ms / 1000)).to_string();
        if let Some(since) = self.excluded_for_ms {
            let probe = self.next_probe_in_ms.map(|wait| format!(", next probe in {}", time(wait)));
            let tries = (self.tries > 0).then(|| format!(", {} probes failed", self.tries));
            let notes: String = [tries, probe].into_iter().flatten().collect();
            let evidence = self.evidence.as_deref().unwrap_or("unknown");
            return format!("excluded {} ago: {evidence}{notes}", time(since));
        }
        let word = if self.enabled { "routable" } else { "disabled" };
        match &self.suspicion {
            Some(suspicion) => format!("{word}, {} suspicions: {suspicion}", self.suspicions),
            None => word.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(changed: &[(&str, serde_json::Value)]) -> String {
        let mut health = json!({
            "cluster": "local", "node": "n1", "enabled": true, "routable": true, "excluded_for_ms": null,
            "evidence": null, "tries": 0, "next_probe_in_ms": null, "suspicions": 0, "suspicion": null,
        });
        for (field, value) in changed {
            health[*field] = value.clone();
        }
        serde_json::from_value::<Health>(health).unwrap().words()
    }

    #[test]
    fn an_excluded_node_shows_since_when_why_and_what_comes_next() {
        let excluded = [
            ("excluded_for_ms", json!(12_345)),
            ("evidence", json!("refused")),
            ("tries", json!(2)),
            ("next_probe_in_ms", json!(3_000)),
        ];
        assert_eq!(words(&excluded), "excluded 12s ago: refused, 2 probes failed, next probe in 3s");
    }

    #[test]
    fn a_suspected_node_is_routable_all_the_same() {
        assert_eq!(words(&[]), "routable");
        assert_eq!(words(&[("enabled", json!(false))]), "disabled");
        let suspected = [("suspicions", json!(2)), ("suspicion", json!("did not answer"))];
        assert_eq!(words(&suspected), "routable, 2 suspicions: did not answer");
    }
}
