//! Options of a collection as they are shown.

use pointsman_ids::{NodeName, catalog::CollectionOptions};
use serde_json::{Map, Value, json};

/// What was chosen besides shards and selector, one line each; nothing where all is as it is by default.
pub(super) fn lines(options: &CollectionOptions) -> Vec<String> {
    let routing = &options.routing;
    let switches = [
        (routing.consistent_replicas, "consistent replicas: two replicas are never mixed"),
        (routing.fixed_replica, "fixed replica: all requests take the same replicas"),
        (routing.fail_closed, "fail closed: no segment is read from an excluded node"),
        (
            options.serve_before_promotion,
            "serve before promotion: queries see new segments as they are loaded",
        ),
    ];
    let switches = switches.into_iter().filter(|(on, _)| *on).map(|(_, text)| text.to_owned());
    let samplers = routing
        .samplers
        .iter()
        .map(|sampler| format!("sampler {}: the first {} segments by name", sampler.name, sampler.first_n));
    let partitions = routing.replica_groups.iter().map(|(number, groups)| {
        let groups: Vec<String> = groups.iter().map(|nodes| names(nodes).join(",")).collect();
        format!("placement partition {number}: {}", groups.join("/"))
    });
    let clusters = (!options.clusters.is_empty()).then(|| {
        let names: Vec<&str> = options.clusters.iter().map(|cluster| cluster.as_str()).collect();
        format!("clusters: {}", names.join(", "))
    });
    let timeout = options
        .query_timeout
        .map(|timeout| format!("query timeout: {}", humantime::format_duration(timeout)));
    let key = options.key.as_ref().map(|key| format!("key: {key}"));
    let indexes = options
        .vector_indexes
        .iter()
        .map(|index| format!("vector index: {} by {}", index.column, index.metric));
    key.into_iter()
        .chain(indexes)
        .chain(switches)
        .chain(samplers)
        .chain(partitions)
        .chain(clusters)
        .chain(timeout)
        .collect()
}

/// All options, by name.
pub(super) fn json(options: &CollectionOptions) -> Map<String, Value> {
    let routing = &options.routing;
    let samplers = routing.samplers.iter().map(|s| (s.name.clone(), json!({ "first_n": s.first_n })));
    let groups = routing.replica_groups.iter().map(|(number, groups)| {
        let groups: Vec<Vec<&str>> = groups.iter().map(|nodes| names(nodes)).collect();
        (number.to_string(), json!(groups))
    });
    let clusters: Vec<&str> = options.clusters.iter().map(|cluster| cluster.as_str()).collect();
    let indexes = options.vector_indexes.iter();
    let indexes = indexes.map(|index| json!({ "column": index.column, "metric": index.metric.as_str() }));
    let timeout = options.query_timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    [
        ("shards", json!(options.shards)),
        ("key", json!(options.key)),
        ("vector_indexes", indexes.collect()),
        ("selector", json!(routing.selector.as_str())),
        ("consistent_replicas", json!(routing.consistent_replicas)),
        ("fixed_replica", json!(routing.fixed_replica)),
        ("fail_closed", json!(routing.fail_closed)),
        ("samplers", Value::Object(samplers.collect())),
        ("replica_groups", Value::Object(groups.collect())),
        ("clusters", json!(clusters)),
        ("query_timeout_ms", json!(timeout)),
        ("serve_before_promotion", json!(options.serve_before_promotion)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn names(nodes: &[NodeName]) -> Vec<&str> {
    nodes.iter().map(NodeName::as_str).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use pointsman_ids::{
        catalog::{RoutingOptions, Sampler, SelectorKind},
        request::{Metric, VectorIndex},
    };

    use super::*;

    fn options() -> CollectionOptions {
        let nodes = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        CollectionOptions {
            shards: 2,
            routing: RoutingOptions {
                selector: SelectorKind::MultiStageReplicaGroup,
                fail_closed: true,
                samplers: vec![Sampler { name: "few".into(), first_n: 2 }],
                replica_groups: BTreeMap::from([(0, vec![nodes(&["n1", "n2"]), nodes(&["n3"])])]),
                ..RoutingOptions::default()
            },
            clusters: vec!["local".parse().unwrap(), "east".parse().unwrap()],
            query_timeout: Some(Duration::from_secs(30)),
            serve_before_promotion: true,
            key: Some("id".into()),
            vector_indexes: vec![VectorIndex { column: "v".into(), metric: Metric::Cosine }],
        }
    }

    #[test]
    fn only_what_was_chosen_is_told() {
        assert_eq!(lines(&CollectionOptions::default()), [""; 0]);
        let expected = [
            "key: id",
            "vector index: v by cosine",
            "fail closed: no segment is read from an excluded node",
            "serve before promotion: queries see new segments as they are loaded",
            "sampler few: the first 2 segments by name",
            "placement partition 0: n1,n2/n3",
            "clusters: local, east",
            "query timeout: 30s",
        ];
        assert_eq!(lines(&options()), expected);
    }

    #[test]
    fn json_holds_every_option() {
        let expected = json!({
            "shards": 2, "key": "id", "vector_indexes": [{"column": "v", "metric": "cosine"}], "selector": "multi_stage_replica_group", "consistent_replicas": false,
            "fixed_replica": false, "fail_closed": true, "samplers": {"few": {"first_n": 2}},
            "replica_groups": {"0": [["n1", "n2"], ["n3"]]}, "clusters": ["local", "east"],
            "query_timeout_ms": 30_000, "serve_before_promotion": true,
        });
        assert_eq!(Value::Object(json(&options())), expected);
    }
}
