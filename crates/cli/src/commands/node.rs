//! `pointsman node`: lists nodes, and runs one.

use clap::{Args, Subcommand};
use pointsman_proto::coordinator::v1::{ListNodesRequest, Node, NodeState};
use serde_json::json;

use super::serve::Serve;
use crate::{
    Exit, Failure,
    args::Target,
    client::{Coordinator, answer},
    output::{self, Field},
};

/// `pointsman node list`, or `pointsman node --config FILE`, which runs a node.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct NodeCommand {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<NodeAction>,
    /// How to run a node.
    #[command(flatten)]
    pub(crate) serve: Serve,
}

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// List nodes, their groups and what they hold
    #[command(after_help = "Example:\n  pointsman node list --json")]
    List(ListArgs),
}

/// Options of `node list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Whether a node is to be run at all: the word alone more likely means the list.
///
/// # Errors
/// [`Failure::Usage`] with both ways on.
pub(crate) fn check(serve: &Serve) -> Result<(), Failure> {
    if serve.args.config.is_none() {
        let text = "`pointsman node list` lists nodes, `pointsman node --config FILE` runs one";
        return Err(Failure::Usage(text.into()));
    }
    Ok(())
}

/// Lists nodes by name.
pub(crate) async fn list(args: ListArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let nodes = answer(coordinator.cluster().list_nodes(ListNodesRequest {}).await)?.nodes;
    if args.json {
        output::json(&nodes.iter().map(to_json).collect())?;
        return Ok(Exit::Ok);
    }
    if nodes.is_empty() {
        output::note("no node has joined yet");
        return Ok(Exit::Ok);
    }
    let header = ["name", "group", "state", "address", "held", "wanted", "failed", "size", "silent"];
    output::print(output::list(&header, nodes.iter().map(row)))?;
    Ok(Exit::Ok)
}

fn row(node: &Node) -> Vec<Field> {
    let group = if node.resource_group.is_empty() { "-" } else { &node.resource_group };
    let silent = std::time::Duration::from_millis(node.silent_ms);
    vec![
        Field::text(&node.name),
        Field::text(group),
        Field::State(state(node).to_owned(), node.state() == NodeState::Live),
        Field::text(&node.address),
        Field::number(node.segments_held),
        Field::number(node.segments_wanted),
        Field::number(node.segments_failed),
        Field::text(output::size(node.bytes_held)),
        Field::text(humantime::format_duration(silent)),
    ]
}

fn state(node: &Node) -> &'static str {
    match node.state() {
        NodeState::Unspecified => "unknown",
        NodeState::Live if !node.switched_on => "switched off",
        NodeState::Live => "live",
        NodeState::Stopping => "stopping",
        NodeState::Lost => "lost",
        NodeState::Gone => "gone",
    }
}

fn to_json(node: &Node) -> serde_json::Value {
    let group = (!node.resource_group.is_empty()).then_some(&node.resource_group);
    json!({
        "name": node.name,
        "id": node.id,
        "incarnation": node.incarnation,
        "address": node.address,
        "resource_group": group,
        "state": state(node),
        "switched_on": node.switched_on,
        "segments_held": node.segments_held,
        "segments_wanted": node.segments_wanted,
        "segments_failed": node.segments_failed,
        "bytes_held": node.bytes_held,
        "silent_ms": node.silent_ms,
    })
}
