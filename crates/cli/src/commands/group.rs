//! `pointsman group`: resource groups.

use clap::{Args, Subcommand};
use pointsman_proto::coordinator::v1::{
    CreateResourceGroupRequest, ListResourceGroupsRequest, ResourceGroup,
};
use serde_json::json;

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    output::{self, Field},
};

/// Named pools of nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Create a resource group
    #[command(after_help = "Example:\n  pointsman group create east --requests 2 --limits 4")]
    Create(CreateArgs),
    /// List resource groups and their nodes
    #[command(after_help = "Example:\n  pointsman group list --json")]
    List(ListArgs),
}

/// Options of `group create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the new group
    name: String,
    /// Nodes that it wants at least
    #[arg(long, value_name = "N", default_value_t = 0)]
    requests: u32,
    /// Nodes that it takes at most [default: no limit]
    #[arg(long, value_name = "N")]
    limits: Option<u32>,
}

/// Options of `group list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(command: GroupCommand, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    match command {
        GroupCommand::Create(args) => create(args, &coordinator).await,
        GroupCommand::List(args) => list(args, &coordinator).await,
    }
}

async fn create(args: CreateArgs, coordinator: &Coordinator) -> anyhow::Result<Exit> {
    let CreateArgs { name, requests, limits } = args;
    let request = CreateResourceGroupRequest { name: name.clone(), requests, limits };
    let created = answer(coordinator.resource_groups().create_resource_group(request).await)?.created;
    output::note(format_args!(
        "resource group {name} {}",
        if created { "created" } else { "was there already" }
    ));
    Ok(Exit::Ok)
}

async fn list(args: ListArgs, coordinator: &Coordinator) -> anyhow::Result<Exit> {
    let request = ListResourceGroupsRequest {};
    let groups = answer(coordinator.resource_groups().list_resource_groups(request).await)?.groups;
    if args.json {
        output::json(&groups.iter().map(to_json).collect())?;
        return Ok(Exit::Ok);
    }
    output::print(output::list(&["name", "requests", "limits", "nodes"], groups.iter().map(row)))?;
    Ok(Exit::Ok)
}

fn row(group: &ResourceGroup) -> Vec<Field> {
    let nodes = if group.nodes.is_empty() { "-".to_owned() } else { group.nodes.join(", ") };
    vec![
        Field::text(&group.name),
        Field::number(group.requests),
        Field::number(group.limits),
        Field::text(nodes),
    ]
}

fn to_json(group: &ResourceGroup) -> serde_json::Value {
    json!({
        "name": group.name,
        "number": group.number,
        "requests": group.requests,
        "limits": group.limits,
        "nodes": group.nodes,
    })
}
