//! Options of collections.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{
    Error, NodeName,
    catalog::{CollectionOptions, RoutingOptions, Sampler, SelectorKind},
};

use super::invalid;
use crate::{common::v1 as pb, coordinator::v1 as coordinator};

impl From<SelectorKind> for pb::Selector {
    fn from(kind: SelectorKind) -> Self {
        match kind {
            SelectorKind::Balanced => Self::Balanced,
            SelectorKind::ReplicaGroup => Self::ReplicaGroup,
            SelectorKind::StrictReplicaGroup => Self::StrictReplicaGroup,
            SelectorKind::MultiStageReplicaGroup => Self::MultiStageReplicaGroup,
        }
    }
}

impl From<pb::Selector> for SelectorKind {
    fn from(selector: pb::Selector) -> Self {
        match selector {
            pb::Selector::Unspecified | pb::Selector::Balanced => Self::Balanced,
            pb::Selector::ReplicaGroup => Self::ReplicaGroup,
            pb::Selector::StrictReplicaGroup => Self::StrictReplicaGroup,
            pb::Selector::MultiStageReplicaGroup => Self::MultiStageReplicaGroup,
        }
    }
}

impl From<&CollectionOptions> for coordinator::CollectionOptions {
    fn from(options: &CollectionOptions) -> Self {
        Self {
            shards: options.shards,
            selector: pb::Selector::from(options.routing.selector).into(),
            query_timeout_ms: options.query_timeout.map(millis),
            routing: Some(routing_to_proto(&options.routing)),
            clusters: options.clusters.iter().map(ToString::to_string).collect(),
            serve_before_promotion: options.serve_before_promotion,
            key: options.key.clone().unwrap_or_default(),
            vector_indexes: options.vector_indexes.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<coordinator::CollectionOptions> for CollectionOptions {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` for a name that makes no sense or a placement partition that stands twice.
    fn try_from(options: coordinator::CollectionOptions) -> Result<Self, Error> {
        let selector = options.selector();
        Ok(Self {
            shards: options.shards.max(1),
            routing: routing_from_proto(selector, options.routing.unwrap_or_default())?,
            clusters: options.clusters.into_iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
            query_timeout: options.query_timeout_ms.map(Duration::from_millis),
            serve_before_promotion: options.serve_before_promotion,
            key: Some(options.key).filter(|key| !key.is_empty()),
            vector_indexes: options
                .vector_indexes
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// How nodes are chosen, without the selector, which stands beside it on the wire.
pub(super) fn routing_to_proto(options: &RoutingOptions) -> pb::RoutingOptions {
    let sampler = |sampler: &Sampler| pb::Sampler { name: sampler.name.clone(), first_n: sampler.first_n };
    pb::RoutingOptions {
        consistent_replicas: options.consistent_replicas,
        fixed_replica: options.fixed_replica,
        fail_closed: options.fail_closed,
        samplers: options.samplers.iter().map(sampler).collect(),
        placement_partitions: options.replica_groups.iter().map(partition_to_proto).collect(),
    }
}

fn partition_to_proto((number, groups): (&u32, &Vec<Vec<NodeName>>)) -> pb::PlacementPartition {
    let names = |nodes: &Vec<NodeName>| nodes.iter().map(ToString::to_string).collect();
    let groups = groups.iter().map(|nodes| pb::ReplicaGroup { nodes: names(nodes) });
    pb::PlacementPartition { number: *number, groups: groups.collect() }
}

/// # Errors
/// `parameter_invalid` for a node's name that makes no sense or a placement partition that stands twice.
pub(super) fn routing_from_proto(
    selector: pb::Selector,
    options: pb::RoutingOptions,
) -> Result<RoutingOptions, Error> {
    let sampler = |sampler: pb::Sampler| Sampler { name: sampler.name, first_n: sampler.first_n };
    Ok(RoutingOptions {
        selector: selector.into(),
        consistent_replicas: options.consistent_replicas,
        fixed_replica: options.fixed_replica,
        fail_closed: options.fail_closed,
        samplers: options.samplers.into_iter().map(sampler).collect(),
        replica_groups: partitions_from_proto(options.placement_partitions)?,
    })
}

fn partitions_from_proto(
    partitions: Vec<pb::PlacementPartition>,
) -> Result<BTreeMap<u32, Vec<Vec<NodeName>>>, Error> {
    let nodes = |group: pb::ReplicaGroup| group.nodes.into_iter().map(NodeName::try_from).collect();
    let mut read = BTreeMap::new();
    for partition in partitions {
        let number = partition.number;
        let groups: Result<_, Error> = partition.groups.into_iter().map(nodes).collect();
        let groups = groups.map_err(|e| e.context(format_args!("placement partition {number}")))?;
        if read.insert(number, groups).is_some() {
            return Err(invalid(format!("placement partition {number} stands twice; name each once")));
        }
    }
    Ok(read)
}

/// Whole milliseconds, at most `u64::MAX`.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use pointsman_ids::request::{Metric, VectorIndex};

    use super::*;

    fn options() -> CollectionOptions {
        let group = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        CollectionOptions {
            shards: 3,
            routing: RoutingOptions {
                selector: SelectorKind::MultiStageReplicaGroup,
                consistent_replicas: true,
                fixed_replica: true,
                fail_closed: true,
                samplers: vec![
                    Sampler { name: "few".into(), first_n: 2 },
                    Sampler { name: "more".into(), first_n: u64::MAX },
                ],
                replica_groups: BTreeMap::from([
                    (0, vec![group(&["n1", "n2"]), group(&["n3"])]),
                    (7, vec![group(&["n4"]), group(&["n5"])]),
                ]),
            },
            clusters: vec!["west".parse().unwrap(), "local".parse().unwrap()],
            query_timeout: Some(Duration::from_millis(1500)),
            serve_before_promotion: true,
            key: Some("id".into()),
            vector_indexes: vec![VectorIndex { column: "v".into(), metric: Metric::Cosine }],
        }
    }

    #[test]
    fn options_come_back_as_they_went() {
        for sent in [options(), CollectionOptions::default()] {
            let message = coordinator::CollectionOptions::from(&sent);
            assert_eq!(CollectionOptions::try_from(message).unwrap(), sent);
        }
    }

    #[test]
    fn what_an_older_peer_leaves_out_has_its_default() {
        let message = coordinator::CollectionOptions::default();
        assert_eq!(CollectionOptions::try_from(message).unwrap(), CollectionOptions::default());
    }

    #[test]
    fn names_that_make_no_sense_are_refused_with_their_place() {
        let refused = |change: fn(&mut coordinator::CollectionOptions)| {
            let mut message = coordinator::CollectionOptions::from(&options());
            change(&mut message);
            CollectionOptions::try_from(message).unwrap_err().to_string()
        };
        let text = refused(|options| {
            let partitions = &mut options.routing.as_mut().unwrap().placement_partitions;
            partitions[1].groups[0].nodes.push("no name".into());
        });
        assert!(text.contains("placement partition 7") && text.contains("'no name'"), "{text}");
        let text = refused(|options| options.routing.as_mut().unwrap().placement_partitions[1].number = 0);
        assert!(text.contains("placement partition 0 stands twice"), "{text}");
        let text = refused(|options| options.clusters.push("a b".into()));
        assert!(text.contains("'a b'"), "{text}");
    }
}
