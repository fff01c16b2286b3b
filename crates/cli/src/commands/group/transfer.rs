//! `pointsman group transfer`: nodes or replicas from one group to another.

use clap::Args;
use pointsman_proto::coordinator::v1::{TransferNodesRequest, TransferReplicasRequest};
use serde_json::json;

use crate::{
    client::{Coordinator, answer},
    output,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  pointsman group transfer default east --nodes 2
  pointsman group transfer west east --replicas 1 --collection orders

Nodes take the requests and limits for them along, so they stay where they were moved to. Of replicas only the group
changes: their former nodes serve on until nodes of the new group have taken over. Either all are moved or none.";

/// Options of `group transfer`.
#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// The group that gives
    #[arg(value_name = "FROM")]
    source: String,
    /// The group that takes
    #[arg(value_name = "TO")]
    target: String,
    /// How many nodes to move
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "replicas",
        conflicts_with = "replicas",
        value_parser = clap::value_parser!(i64).range(1..)
    )]
    nodes: Option<i64>,
    /// How many replicas of a collection to move
    #[arg(long, value_name = "N", requires = "collection", value_parser = clap::value_parser!(i64).range(1..))]
    replicas: Option<i64>,
    /// The collection whose replicas are moved
    #[arg(long, value_name = "COLLECTION", conflicts_with = "nodes")]
    collection: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Moves what is asked for.
pub(super) async fn transfer(args: TransferArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    match (args.replicas, &args.collection) {
        (Some(count), Some(collection)) => replicas(&args, count, collection, coordinator).await,
        _ => nodes(&args, args.nodes.unwrap_or_default(), coordinator).await,
    }
}

async fn nodes(args: &TransferArgs, count: i64, coordinator: &Coordinator) -> anyhow::Result<()> {
    let TransferArgs { source, target, .. } = args;
    let request = TransferNodesRequest { source: source.clone(), target: target.clone(), count };
    let moved = answer(coordinator.resource_groups().transfer_nodes(request).await)?.moved;
    if args.json {
        let told = json!({ "source": source, "target": target, "nodes": moved });
        return Ok(output::json(&told)?);
    }
    output::note(format_args!("moved from {source} to {target}: {}", moved.join(", ")));
    Ok(())
}

async fn replicas(
    args: &TransferArgs,
    count: i64,
    collection: &str,
    coordinator: &Coordinator,
) -> anyhow::Result<()> {
    let TransferArgs { source, target, .. } = args;
    let request = TransferReplicasRequest {
        collection: collection.to_owned(),
        source: source.clone(),
        target: target.clone(),
        count,
    };
    let moved = match answer(coordinator.resource_groups().transfer_replicas(request).await) {
        Ok(moved) => moved,
        Err(error) => return Err(coordinator.explain(error, collection).await.into()),
    };
    if !moved.warning.is_empty() {
        output::note(format_args!("warning: {collection}: {}", output::visible(&moved.warning)));
    }
    if args.json {
        let warning = Some(moved.warning).filter(|warning| !warning.is_empty());
        let told = json!({
            "collection": collection, "source": source, "target": target, "replicas": moved.moved, "warning": warning
        });
        return Ok(output::json(&told)?);
    }
    let count = output::count(moved.moved.len() as u64, "replica");
    output::note(format_args!("{collection}: {count} moved from {source} to {target}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: TransferArgs,
    }

    #[test]
    fn either_nodes_or_replicas_of_a_collection_are_moved() {
        let read = |line: &str| Line::try_parse_from(line.split_whitespace()).map(|line| line.args);
        assert_eq!(read("transfer a b --nodes 2").unwrap().nodes, Some(2));
        let replicas = read("transfer a b --replicas 1 --collection t").unwrap();
        assert_eq!((replicas.replicas, replicas.collection.as_deref()), (Some(1), Some("t")));
        for wrong in [
            "transfer a b",
            "transfer a b --nodes 0",
            "transfer a b --nodes 1 --replicas 1 --collection t",
            "transfer a b --replicas 1",
            "transfer a b --nodes 1 --collection t",
            "transfer a --nodes 1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
