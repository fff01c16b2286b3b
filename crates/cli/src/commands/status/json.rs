//! How far loads are, for programs.

use std::collections::BTreeSet;

use pointsman_proto::coordinator::v1::{CollectionLoad, GroupLoad};
use serde_json::json;

use crate::{commands::partition, verdict};

/// How far a load is.
pub(super) fn to_json(load: &CollectionLoad, disabled: &BTreeSet<String>) -> serde_json::Value {
    json!({
        "collection": load.collection,
        "collection_id": load.collection_id,
        "replicas": load.replicas,
        "loaded": load.loaded,
        "percent": load.percent,
        "serving": load.serving,
        "segments": load.segments,
        "rows": load.rows,
        "current_version": load.current_version,
        "partitions": load.partitions.iter().map(partition::to_json).collect::<Vec<_>>(),
        "stalled_ms": load.stalled_ms,
        "obstacles": load.obstacles,
        "dropped_groups": load.dropped_groups.iter().map(|dropped| json!({
            "resource_group": dropped.resource_group,
            "why": dropped.why,
        })).collect::<Vec<_>>(),
        "groups": load.groups.iter().map(|group| group_to_json(group, disabled)).collect::<Vec<_>>(),
    })
}

fn group_to_json(group: &GroupLoad, disabled: &BTreeSet<String>) -> serde_json::Value {
    let failures = group.failures.iter().map(|failure| {
        let error = failure.error.clone().unwrap_or_default();
        json!({
            "node": failure.node,
            "segment": failure.segment,
            "tries": failure.tries,
            "code": error.code,
            "name": error.name,
            "message": error.message,
        })
    });
    json!({
        "resource_group": group.resource_group,
        "percent": group.percent,
        "ready": group.ready,
        "phase": group.phase().as_str_name().trim_start_matches("LOAD_PHASE_").to_lowercase(),
        "expected_ms": group.expected_ms,
        "reason": group.reason,
        "total_shards": group.total_shards,
        "unready_shards": verdict::unready_to_json(&group.unready_shards),
        "behind": group.behind,
        "replicas": group.replicas,
        "segments_held": group.segments_held,
        "segments_wanted": group.segments_wanted,
        "nodes": group.nodes,
        "disabled_nodes": group.nodes.iter().filter(|node| disabled.contains(*node)).collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
    })
}
