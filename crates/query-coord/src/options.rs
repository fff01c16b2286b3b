//! What options of a collection make sense together.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    Error, ErrorCode, NodeName,
    catalog::{CollectionOptions, RoutingOptions, SelectorKind},
};

/// The options as they are kept: names of samplers trimmed and in lower case, every cluster once, at its first place.
///
/// # Errors
/// `parameter_invalid` naming what contradicts what, and what to do.
pub fn lawful_options(mut options: CollectionOptions) -> Result<CollectionOptions, Error> {
    let mut seen = BTreeSet::new();
    options.clusters.retain(|cluster| seen.insert(cluster.clone()));
    check_consistency(&options.routing)?;
    tidy_samplers(&mut options.routing)?;
    check_partitions(&options.routing)?;
    Ok(options)
}

fn invalid(text: String) -> Error {
    Error::new(ErrorCode::ParameterInvalid, text)
}

fn check_consistency(routing: &RoutingOptions) -> Result<(), Error> {
    let grouped = matches!(routing.selector, SelectorKind::ReplicaGroup | SelectorKind::StrictReplicaGroup);
    if routing.consistent_replicas && !grouped {
        return Err(invalid(format!(
            "consistent_replicas works with the selectors replica_group and strict_replica_group alone, and the \
             selector is '{}'; choose one of the two, or switch consistent_replicas off",
            routing.selector.as_str()
        )));
    }
    Ok(())
}

fn tidy_samplers(routing: &mut RoutingOptions) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for sampler in &mut routing.samplers {
        sampler.name = sampler.name.trim().to_lowercase();
        let name = sampler.name.escape_debug();
        if sampler.name.is_empty() {
            return Err(invalid("a sampler has a blank name; give it one".into()));
        }
        if sampler.first_n == 0 {
            return Err(invalid(format!("sampler '{name}' keeps the first 0 segments; keep at least 1")));
        }
        if !seen.insert(sampler.name.clone()) {
            return Err(invalid(format!(
                "sampler '{name}' stands twice (case and blanks around it do not count); name each once"
            )));
        }
    }
    Ok(())
}

fn check_partitions(routing: &RoutingOptions) -> Result<(), Error> {
    let (selector, partitions) = (routing.selector, &routing.replica_groups);
    match (selector == SelectorKind::MultiStageReplicaGroup, partitions.first_key_value()) {
        (false, None) => Ok(()),
        (false, Some(_)) => Err(invalid(format!(
            "placement partitions are read by the selector multi_stage_replica_group alone, and the selector is '{}'; \
             choose it, or take the placement partitions away",
            selector.as_str()
        ))),
        (true, None) => Err(invalid(
            "the selector multi_stage_replica_group needs placement partitions; name the replica groups of one at least"
                .into(),
        )),
        (true, Some((first, groups))) => {
            check_counts(partitions, *first, groups.len())?;
            check_nodes(partitions)
        }
    }
}

fn check_counts(
    partitions: &BTreeMap<u32, Vec<Vec<NodeName>>>,
    first: u32,
    count: usize,
) -> Result<(), Error> {
    if count == 0 {
        return Err(invalid(format!(
            "placement partition {first} has no replica group; give it one at least"
        )));
    }
    match partitions.iter().find(|(_, groups)| groups.len() != count) {
        None => Ok(()),
        Some((other, groups)) => Err(invalid(format!(
            "placement partition {first} has {count} replica groups and placement partition {other} has {}; give all \
             the same number",
            groups.len()
        ))),
    }
}

/// Every group has a node, and no node stands in two places.
fn check_nodes(partitions: &BTreeMap<u32, Vec<Vec<NodeName>>>) -> Result<(), Error> {
    let mut places: BTreeMap<&NodeName, String> = BTreeMap::new();
    for (partition, groups) in partitions {
        for (at, nodes) in groups.iter().enumerate() {
            let place = format!("replica group {at} of placement partition {partition}");
            if nodes.is_empty() {
                return Err(invalid(format!("{place} has no node; name one at least")));
            }
            for node in nodes {
                if let Some(former) = places.insert(node, place.clone()) {
                    return Err(invalid(format!(
                        "node '{node}' stands in {former} and in {place}; name each node once"
                    )));
                }
            }
        }
    }
    Ok(())
}
