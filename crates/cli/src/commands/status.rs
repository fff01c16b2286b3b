//! `pointsman status`.

use std::collections::BTreeSet;

use clap::Args;
use pointsman_proto::coordinator::v1::{CollectionLoad, GroupLoad, LoadFailure};
use serde_json::json;

use crate::{
    Exit, Failure,
    args::Target,
    client::{Coordinator, Health},
    loading,
    output::{self, Field},
};

/// Options of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  pointsman status\n  pointsman status lineitem --json")]
pub(crate) struct StatusArgs {
    /// Collections to show [default: every one that is loaded or loading]
    #[arg(value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows how far loads are.
pub(crate) async fn run(args: StatusArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let loads = loading::show(&coordinator, &args.collections).await?;
    for name in &args.collections {
        if !loads.iter().any(|load| load.collection == *name) {
            // Tells an unknown name from one that is merely not loaded.
            coordinator.collection(name).await?;
            let text = format!("'{name}' is not loaded; `pointsman load {name}` loads it");
            return Err(Failure::NotReady(text).into());
        }
    }
    let disabled = disabled(&coordinator).await?;
    if args.json {
        output::json(&loads.iter().map(|load| to_json(load, &disabled)).collect())?;
        return Ok(Exit::Ok);
    }
    if loads.is_empty() {
        output::note("nothing is loaded; `pointsman load COLLECTION...` loads");
        return Ok(Exit::Ok);
    }
    let header = ["collection", "group", "progress", "ready", "held", "wanted", "replicas", "nodes"];
    output::print(output::list(&header, loads.iter().flat_map(rows)))?;
    for line in loads.iter().flat_map(failures) {
        output::line(line)?;
    }
    for node in &disabled {
        let text = format!("operator: node {node} is disabled; `pointsman node enable {node}` takes it back");
        output::line(output::visible(&text))?;
    }
    for (name, health) in Health::of_local_nodes(target).await {
        if !health.routable {
            output::line(format_args!("broker: node {name} is {}", output::visible(&health.words())))?;
        }
    }
    Ok(Exit::Ok)
}

/// Nodes whose switch an operator has turned off.
async fn disabled(coordinator: &Coordinator) -> anyhow::Result<BTreeSet<String>> {
    let nodes = coordinator.nodes().await?;
    Ok(nodes.into_iter().filter(|node| !node.switched_on).map(|node| node.name).collect())
}

fn rows(load: &CollectionLoad) -> impl Iterator<Item = Vec<Field>> {
    load.groups.iter().map(|group| {
        vec![
            Field::text(&load.collection),
            Field::text(&group.resource_group),
            Field::text(format_args!("{} %", group.percent)),
            Field::yes(group.ready),
            Field::number(group.segments_held),
            Field::number(group.segments_wanted),
            Field::number(group.replicas),
            Field::text(group.nodes.join(", ")),
        ]
    })
}

fn failures(load: &CollectionLoad) -> impl Iterator<Item = String> {
    let each = |group: &GroupLoad| group.failures.clone();
    load.groups.iter().flat_map(each).map(|failure| {
        let LoadFailure { node, segment, tries, error } = failure;
        let cause = error.map_or_else(|| "unknown cause".to_owned(), |error| error.message);
        let tries = if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
        format!("failed: {} on {node}, segment {segment}, after {tries}: {cause}", load.collection)
    })
}

fn to_json(load: &CollectionLoad, disabled: &BTreeSet<String>) -> serde_json::Value {
    json!({
        "collection": load.collection,
        "collection_id": load.collection_id,
        "replicas": load.replicas,
        "loaded": load.loaded,
        "percent": load.percent,
        "serving": load.serving,
        "segments": load.segments,
        "rows": load.rows,
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
        "replicas": group.replicas,
        "segments_held": group.segments_held,
        "segments_wanted": group.segments_wanted,
        "nodes": group.nodes,
        "disabled_nodes": group.nodes.iter().filter(|node| disabled.contains(*node)).collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
    })
}
