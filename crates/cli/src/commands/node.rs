//! `pointsman node`: lists nodes, switches them off and on, has them leave, and runs one.

mod can_stop;
mod drain;
mod operate;
mod told;

use clap::{Args, Subcommand};
use pointsman_proto::coordinator::v1::{DrainPhase, Node, NodeState};
use serde_json::json;

use self::{
    can_stop::CanStopArgs,
    drain::DrainArgs,
    operate::{NamesArgs, RemoveArgs},
};
use super::serve::Serve;
use crate::{
    Exit, Failure,
    args::Target,
    client::{Coordinator, Health},
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
    /// Let queries go to nodes again that were disabled
    #[command(after_help = operate::ENABLE_EXAMPLES)]
    Enable(NamesArgs),
    /// Take nodes out of everything that routes, at once; they keep their data and places
    #[command(after_help = operate::DISABLE_EXAMPLES)]
    Disable(NamesArgs),
    /// Ask whether a node may stop without a gap
    #[command(after_help = can_stop::EXAMPLES)]
    CanStop(CanStopArgs),
    /// Have a node leave: others take over what it serves, then it may be stopped
    #[command(after_help = drain::EXAMPLES)]
    Drain(DrainArgs),
    /// Say that lost nodes are not coming back, when so many were lost at once that the coordinator suspects itself
    #[command(after_help = operate::LOSS_EXAMPLES)]
    AcceptLoss,
    /// Forget a node that is gone and has no segments to hold
    #[command(after_help = "Example:\n  pointsman node remove n3")]
    Remove(RemoveArgs),
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

/// Does what can be done with nodes.
pub(crate) async fn run(action: NodeAction, target: &Target) -> anyhow::Result<Exit> {
    match action {
        NodeAction::List(args) => list(args, target).await,
        NodeAction::Enable(args) => operate::switch(args, true, target).await,
        NodeAction::Disable(args) => operate::switch(args, false, target).await,
        NodeAction::CanStop(args) => can_stop::run(args, target).await,
        NodeAction::Drain(args) => drain::run(args, target).await,
        NodeAction::AcceptLoss => operate::accept_loss(target).await,
        NodeAction::Remove(args) => operate::remove(args, target).await,
    }
}

/// Lists nodes by name.
async fn list(args: ListArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let nodes = coordinator.nodes().await?;
    let health = Health::of_local_nodes(target).await;
    let of = |node: &Node| health.get(&node.name);
    if args.json {
        output::json(&nodes.iter().map(|node| to_json(node, of(node))).collect())?;
        return Ok(Exit::Ok);
    }
    if nodes.is_empty() {
        output::note("no node has joined yet");
        return Ok(Exit::Ok);
    }
    let header = [
        "name", "group", "state", "enabled", "address", "held", "wanted", "failed", "size", "silent",
        "broker",
    ];
    output::print(output::list(&header, nodes.iter().map(|node| row(node, of(node)))))?;
    Ok(Exit::Ok)
}

fn row(node: &Node, health: Option<&Health>) -> Vec<Field> {
    let group = if node.resource_group.is_empty() { "-" } else { &node.resource_group };
    let silent = std::time::Duration::from_millis(node.silent_ms);
    let broker = health
        .map_or(Field::text("-"), |health| Field::State(output::visible(&health.words()), health.routable));
    vec![
        Field::text(&node.name),
        Field::text(group),
        Field::State(shown_state(node), is_live(node)),
        Field::State(enabled(node).to_owned(), node.enabled),
        Field::text(&node.address),
        Field::number(node.segments_held),
        Field::number(node.segments_wanted),
        Field::number(node.segments_failed),
        Field::text(output::size(node.bytes_held)),
        Field::text(humantime::format_duration(silent)),
        broker,
    ]
}

fn state(node: &Node) -> &'static str {
    match node.state() {
        NodeState::Unspecified => "unknown",
        NodeState::Live => "live",
        NodeState::Stopping => "stopping",
        NodeState::Lost => "lost",
        NodeState::Gone => "gone",
    }
}

/// Whether it lives and stays.
fn is_live(node: &Node) -> bool {
    node.state() == NodeState::Live && node.drain() == DrainPhase::Unspecified
}

/// Its state with what becomes of it: a node that is drained has not failed.
fn shown_state(node: &Node) -> String {
    let mut state = state(node).to_owned();
    if let Some(phase) = drain::word(node.drain()) {
        state += if phase == "drained" { ", drained" } else { ", draining" };
    }
    if node.stop_lease_ms > 0 {
        state += ", may stop";
    }
    state
}

/// Whether the cluster lets queries go to it, and who decided otherwise.
fn enabled(node: &Node) -> &'static str {
    match (node.enabled, node.switched_on) {
        (true, _) => "yes",
        (false, true) => "no",
        (false, false) => "no, by operator",
    }
}

fn to_json(node: &Node, health: Option<&Health>) -> serde_json::Value {
    let group = (!node.resource_group.is_empty()).then_some(&node.resource_group);
    json!({
        "name": node.name,
        "id": node.id,
        "incarnation": node.incarnation,
        "address": node.address,
        "resource_group": group,
        "state": state(node),
        "enabled": node.enabled,
        "routed": node.routed,
        "drain": drain::word(node.drain()),
        "stop_lease_ms": node.stop_lease_ms,
        "calls": node.calls,
        "switched_on": node.switched_on,
        "segments_held": node.segments_held,
        "segments_wanted": node.segments_wanted,
        "segments_failed": node.segments_failed,
        "bytes_held": node.bytes_held,
        "silent_ms": node.silent_ms,
        "broker": health,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_whether_queries_may_go_to_a_node_and_who_decided_otherwise() {
        for (is_enabled, switched_on, told) in
            [(true, true, "yes"), (false, true, "no"), (false, false, "no, by operator")]
        {
            let node = Node { enabled: is_enabled, switched_on, ..Node::default() };
            assert_eq!(enabled(&node), told);
            assert_eq!(to_json(&node, None)["enabled"], is_enabled);
            assert_eq!(to_json(&node, None)["switched_on"], switched_on);
        }
    }

    #[test]
    fn a_node_that_is_drained_is_told_from_one_that_has_failed() {
        let live = Node { state: NodeState::Live.into(), ..Node::default() };
        for (phase, state, word) in [
            (DrainPhase::Unspecified, "live", None),
            (DrainPhase::Moving, "live, draining", Some("moving")),
            (DrainPhase::Leaving, "live, draining", Some("leaving")),
            (DrainPhase::Drained, "live, drained", Some("drained")),
        ] {
            let node = Node { drain: phase.into(), ..live.clone() };
            assert_eq!(shown_state(&node), state);
            assert_eq!(to_json(&node, None)["drain"], json!(word));
            assert_eq!(is_live(&node), word.is_none());
        }
        let leased = Node { stop_lease_ms: 1, ..live };
        assert_eq!(shown_state(&leased), "live, may stop");
    }
}
