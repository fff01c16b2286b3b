//! What operators do with nodes: `pointsman node enable`, `disable` and `remove`.

use clap::Args;
use pointsman_proto::coordinator::v1::{RemoveNodeRequest, SetNodeEnabledRequest};

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

/// Has a node forgotten.
pub(super) async fn remove(args: RemoveArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let request = RemoveNodeRequest { node: args.name.clone() };
    answer(coordinator.cluster().remove_node(request).await)?;
    output::note(format_args!("{}: removed", args.name));
    Ok(Exit::Ok)
}
