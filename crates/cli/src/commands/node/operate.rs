//! What operators do with nodes: `pointsman node enable`, `disable`, `accept-loss` and `remove`.

use clap::Args;
use pointsman_proto::coordinator::v1::{AcceptLossRequest, RemoveNodeRequest, SetNodeEnabledRequest};

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    output,
};

pub(super) const ENABLE_EXAMPLES: &str = "\
Example:
  pointsman node enable n1 n2";

pub(super) const DISABLE_EXAMPLES: &str = "\
Example:
  pointsman node disable n1

A disabled node keeps its data and its places and takes nothing new; what it leads is led by other nodes of the same
replica. No broker opens a call to it. The switch stays as it is when node or coordinator start again.";

pub(super) const LOSS_EXAMPLES: &str = "\
Example:
  pointsman node accept-loss

A coordinator that loses most nodes within one lease time is more likely cut off itself: it moves nothing, and `pointsman
status` says so. It goes on when half of them are back, or by this command.";

/// Options of `node enable` and `node disable`.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// Nodes, all of which are switched, or none
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Options of `node remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the node
    name: String,
}

/// Turns the operator's switch.
pub(super) async fn switch(args: NamesArgs, on: bool, target: &Target) -> anyhow::Result<Exit> {
    let word = if on { "enabled" } else { "disabled" };
    let request = SetNodeEnabledRequest { nodes: args.names.clone(), enabled: on };
    let coordinator = Coordinator::connect(target).await?;
    let changed = answer(coordinator.cluster().set_node_enabled(request).await)?.changed;
    for name in args.names {
        let already = if changed.contains(&name) { "" } else { " already" };
        output::note(format_args!("{name}: {word}{already}"));
    }
    Ok(Exit::Ok)
}

/// Has the coordinator go on without lost nodes.
pub(super) async fn accept_loss(target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let nodes = answer(coordinator.cluster().accept_loss(AcceptLossRequest {}).await)?.nodes;
    match nodes.as_slice() {
        [] => output::note("the coordinator does not suspect itself: there is nothing to accept"),
        nodes => output::note(format_args!("the cluster goes on without {}", nodes.join(", "))),
    }
    Ok(Exit::Ok)
}

/// Has a node forgotten.
pub(super) async fn remove(args: RemoveArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let request = RemoveNodeRequest { node: args.name.clone() };
    answer(coordinator.cluster().remove_node(request).await)?;
    output::note(format_args!("{}: removed", args.name));
    Ok(Exit::Ok)
}
