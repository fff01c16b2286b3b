//! Nodes and clusters that options name and nobody knows. They are told and not refused: a node may join later, and a
//! broker may get to know a cluster.

use std::collections::BTreeSet;

use pointsman_ids::{NodeName, catalog::CollectionOptions, near};

use crate::{
    args::Target,
    client::{Broker, Coordinator},
    output,
};

/// Tells of each name that is known to nobody, with what comes of it and what to do.
pub(super) async fn tell(options: &CollectionOptions, coordinator: &Coordinator, target: &Target) {
    if !options.routing.replica_groups.is_empty() {
        match coordinator.nodes().await {
            Ok(nodes) => {
                let known = nodes.iter().map(|node| node.name.as_str()).collect();
                unknown_nodes(options, &known).iter().for_each(output::note);
            }
            Err(error) => output::note(format_args!("whether all nodes have joined was not asked: {error}")),
        }
    }
    if !options.clusters.is_empty() {
        match known_clusters(target).await {
            Ok(Some(known)) => {
                let known = known.iter().map(String::as_str).collect();
                unknown_clusters(options, &known).iter().for_each(output::note);
            }
            Ok(None) => {}
            Err(error) => {
                output::note(format_args!("whether the broker knows all clusters was not asked: {error:#}"));
            }
        }
    }
}

/// Those of the broker that the command line or the data directory names; `None`: neither names one.
async fn known_clusters(target: &Target) -> anyhow::Result<Option<Vec<String>>> {
    match Broker::named(target)? {
        Some(broker) => broker.clusters().await.map(Some),
        None => Ok(None),
    }
}

fn unknown_nodes(options: &CollectionOptions, known: &BTreeSet<&str>) -> Vec<String> {
    let named = options.routing.replica_groups.values().flatten().flatten().map(NodeName::as_str);
    let named: BTreeSet<&str> = named.collect();
    let tell = |name: &&str| {
        let hint = near(name, known.iter().copied(), "nobody has");
        format!("note: no node '{name}' has joined ({hint}); until it does, its replica group lacks it")
    };
    named.difference(known).map(tell).collect()
}

fn unknown_clusters(options: &CollectionOptions, known: &BTreeSet<&str>) -> Vec<String> {
    let named: BTreeSet<&str> = options.clusters.iter().map(|name| name.as_str()).collect();
    let tell = |name: &&str| {
        let hint = near(name, known.iter().copied(), "it knows none");
        format!(
            "note: the broker knows no cluster '{name}' ({hint}); until `broker.remote_clusters` has it, answers lack it and \
             say so with 510"
        )
    };
    named.difference(known).map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CollectionOptions {
        let mut options = CollectionOptions {
            clusters: vec!["local".parse().unwrap(), "wset".parse().unwrap()],
            ..CollectionOptions::default()
        };
        let nodes = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        options.routing.replica_groups.insert(0, vec![nodes(&["n1", "m2"]), nodes(&["n3"])]);
        options
    }

    #[test]
    fn who_is_known_is_not_told() {
        assert!(unknown_nodes(&options(), &BTreeSet::from(["m2", "n1", "n3", "n4"])).is_empty());
        assert!(unknown_clusters(&options(), &BTreeSet::from(["local", "wset"])).is_empty());
        assert!(unknown_clusters(&CollectionOptions::default(), &BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_stranger_is_told_by_name_with_whom_may_be_meant() {
        let told = unknown_nodes(&options(), &BTreeSet::from(["n1", "n2", "n3"]));
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("'m2' has joined (there are: n1, n2, n3)"), "{}", told[0]);
        let told = unknown_clusters(&options(), &BTreeSet::from(["local", "west"]));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("'wset' (did you mean west?)") && told[0].contains("remote_clusters"),
            "{}",
            told[0]
        );
    }
}
