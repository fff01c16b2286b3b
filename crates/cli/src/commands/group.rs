//! `pointsman group`: resource groups.

mod configure;
mod shown;
mod transfer;

use clap::{Args, Subcommand};
use pointsman_proto::coordinator::v1::{
    DescribeResourceGroupRequest, DescribeResourceGroupResponse, DropResourceGroupRequest,
    ListResourceGroupsRequest,
};
use serde_json::json;

use self::{
    configure::{CreateArgs, UpdateArgs},
    transfer::TransferArgs,
};
use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    output,
};

const DROP_EXAMPLES: &str = "\
Examples:
  pointsman group update west --requests 0 --limits 0
  pointsman group drop west

The default group stays, and so does one whose limits are not 0, that a transfer list of another group names, or in which
replicas live. Members go to groups that miss nodes or have room.";

/// Named pools of nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Create a resource group
    #[command(after_help = configure::CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List resource groups and their nodes
    #[command(after_help = "Example:\n  pointsman group list --json")]
    List(ListArgs),
    /// Show a resource group: its configuration, nodes, and what it lends and borrows
    #[command(after_help = "Examples:\n  pointsman group show east\n  pointsman group show east --json")]
    Show(NameArgs),
    /// Change what a resource group wants and takes, or that of several at once
    #[command(after_help = configure::UPDATE_EXAMPLES)]
    Update(UpdateArgs),
    /// Drop a resource group
    #[command(after_help = DROP_EXAMPLES)]
    Drop(NameArgs),
    /// Move nodes, or replicas of a collection, from one resource group to another
    #[command(after_help = transfer::EXAMPLES)]
    Transfer(TransferArgs),
}

/// Options of `group list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `group show` and `group drop`.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the group
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(command: GroupCommand, target: &Target) -> anyhow::Result<Exit> {
    let connect = || Coordinator::connect(target);
    match command {
        GroupCommand::Create(args) => configure::create(args, &connect().await?).await?,
        GroupCommand::List(args) => list(args, &connect().await?).await?,
        GroupCommand::Show(args) => show(args, &connect().await?).await?,
        GroupCommand::Update(args) => configure::update(args, target).await?,
        GroupCommand::Drop(args) => drop_group(args, &connect().await?).await?,
        GroupCommand::Transfer(args) => transfer::transfer(args, &connect().await?).await?,
    }
    Ok(Exit::Ok)
}

async fn list(args: ListArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let request = ListResourceGroupsRequest {};
    let groups = answer(coordinator.resource_groups().list_resource_groups(request).await)?.groups;
    if args.json {
        return Ok(output::json(&groups.iter().map(shown::json).collect())?);
    }
    let header = ["name", "requests", "limits", "missing", "nodes"];
    Ok(output::print(output::list(&header, groups.iter().map(shown::row)))?)
}

async fn describe(coordinator: &Coordinator, name: &str) -> anyhow::Result<DescribeResourceGroupResponse> {
    let request = DescribeResourceGroupRequest { name: name.to_owned() };
    Ok(answer(coordinator.resource_groups().describe_resource_group(request).await)?)
}

async fn show(args: NameArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let described = describe(coordinator, &args.name).await?;
    if args.json {
        return Ok(output::json(&shown::described_json(&described))?);
    }
    Ok(output::print(shown::described(&described))?)
}

async fn drop_group(args: NameArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let request = DropResourceGroupRequest { name: args.name.clone() };
    let dropped = answer(coordinator.resource_groups().drop_resource_group(request).await)?;
    if args.json {
        let told = json!({ "name": args.name, "dropped": dropped.dropped, "moved": dropped.moved });
        return Ok(output::json(&told)?);
    }
    let outcome = if dropped.dropped { "dropped" } else { "there was no such group" };
    output::note(format_args!("{}: {outcome}{}", args.name, shown::moved(&dropped.moved)));
    Ok(())
}
