//! `pointsman collection`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use pointsman_engine::ingest;
use pointsman_ids::catalog::{CollectionOptions, Column, RoutingOptions, SelectorKind};
use pointsman_proto::{
    column_to_proto,
    coordinator::v1::{Collection, CreateCollectionRequest, DropCollectionRequest},
};
use serde_json::json;

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    column, duration,
    output::{self, Field},
};

const CREATE_EXAMPLES: &str = "\
Examples:
  pointsman collection create events --column 'id bigint not null' --column 'at timestamp' --column 'what text'
  pointsman collection create orders --like orders.parquet --shards 4

`pointsman segment push` creates a collection by itself when there is none.";

/// Named, typed sets of rows; what SQL calls tables.
#[derive(Debug, Subcommand)]
pub(crate) enum CollectionCommand {
    /// Create a collection
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List collections
    #[command(after_help = "Example:\n  pointsman collection list --json")]
    List(ListArgs),
    /// Show one collection with its columns
    #[command(after_help = "Example:\n  pointsman collection show lineitem")]
    Show(ShowArgs),
    /// Drop a collection with its segments; it must not be loaded
    #[command(after_help = "Example:\n  pointsman release events && pointsman collection drop events")]
    Drop(DropArgs),
}

/// How replicas are chosen.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Selector {
    /// Every segment takes the next of its replicas in turn
    Balanced,
    /// One replica for a whole request
    ReplicaGroup,
    /// As replica_group, leaving out nodes with a gap
    StrictReplicaGroup,
    /// Whole replica groups per placement partition
    MultiStageReplicaGroup,
}

impl From<Selector> for SelectorKind {
    fn from(selector: Selector) -> Self {
        match selector {
            Selector::Balanced => Self::Balanced,
            Selector::ReplicaGroup => Self::ReplicaGroup,
            Selector::StrictReplicaGroup => Self::StrictReplicaGroup,
            Selector::MultiStageReplicaGroup => Self::MultiStageReplicaGroup,
        }
    }
}

/// Options of `collection create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the new collection
    name: String,
    /// A column: "name type [not null]"; in order
    #[arg(long, value_name = "COLUMN", required_unless_present = "like", conflicts_with = "like", value_parser = column::parse)]
    column: Vec<Column>,
    /// Take the columns of this Parquet file
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// Number of shards
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    shards: u32,
    /// How replicas are chosen
    #[arg(long, value_enum, default_value_t = Selector::Balanced)]
    selector: Selector,
    /// Deadline of its queries, such as 30s [default: the broker's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    query_timeout: Option<Duration>,
}

/// Options of `collection list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `collection show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Name of the collection
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `collection drop`.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// Collections to drop
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(command: CollectionCommand, target: &Target) -> anyhow::Result<Exit> {
    match command {
        CollectionCommand::Create(args) => create(args, target).await?,
        CollectionCommand::List(args) => list(args, target).await?,
        CollectionCommand::Show(args) => show(args, target).await?,
        CollectionCommand::Drop(args) => drop(args, target).await?,
    }
    Ok(Exit::Ok)
}

async fn create(args: CreateArgs, target: &Target) -> anyhow::Result<()> {
    let columns = match &args.like {
        Some(file) => ingest::inspect_parquet(file)?.columns,
        None => args.column,
    };
    let options = CollectionOptions {
        shards: args.shards,
        routing: RoutingOptions { selector: args.selector.into(), ..RoutingOptions::default() },
        clusters: Vec::new(),
        query_timeout: args.query_timeout,
    };
    let request = CreateCollectionRequest {
        name: args.name.clone(),
        columns: columns.iter().map(column_to_proto).collect(),
        options: Some((&options).into()),
    };
    let coordinator = Coordinator::connect(target).await?;
    let created = answer(coordinator.catalog().create_collection(request).await)?.created;
    output::note(format_args!(
        "collection {} {}",
        args.name,
        if created { "created" } else { "was there already" }
    ));
    Ok(())
}

async fn list(args: ListArgs, target: &Target) -> anyhow::Result<()> {
    let collections = Coordinator::connect(target).await?.collections().await?;
    if args.json {
        return Ok(output::json(&collections.iter().map(to_json).collect::<anyhow::Result<_>>()?)?);
    }
    if collections.is_empty() {
        output::note(
            "there is no collection yet; `pointsman segment push --collection NAME FILE...` makes one",
        );
        return Ok(());
    }
    let header = ["name", "columns", "partitions", "segments", "rows", "size"];
    Ok(output::print(output::list(&header, collections.iter().map(row)))?)
}

async fn show(args: ShowArgs, target: &Target) -> anyhow::Result<()> {
    let collection = Coordinator::connect(target).await?.collection(&args.name).await?;
    if args.json {
        return Ok(output::json(&to_json(&collection)?)?);
    }
    let options: CollectionOptions = collection.options.clone().unwrap_or_default().try_into()?;
    output::line(format_args!(
        "{}: {} of {} in {}, {}; {}, selector {}",
        collection.name,
        output::count(collection.segments, "segment"),
        output::count(collection.rows, "row"),
        output::count(collection.partitions.len() as u64, "partition"),
        output::size(collection.bytes),
        output::count(options.shards.into(), "shard"),
        options.routing.selector.as_str(),
    ))?;
    let columns = collection.columns.iter().map(|column| {
        let null = if column.nullable { "" } else { "not null" };
        vec![Field::text(&column.name), Field::text(&column.data_type), Field::text(null)]
    });
    Ok(output::print(output::list(&["column", "type", ""], columns))?)
}

async fn drop(args: DropArgs, target: &Target) -> anyhow::Result<()> {
    let coordinator = Coordinator::connect(target).await?;
    for name in args.names {
        let request = DropCollectionRequest { name: name.clone() };
        if let Err(error) = answer(coordinator.catalog().drop_collection(request).await) {
            return Err(coordinator.explain(error, &name).await.into());
        }
        output::note(format_args!("{name}: dropped"));
    }
    Ok(())
}

fn row(collection: &Collection) -> Vec<Field> {
    vec![
        Field::text(&collection.name),
        Field::number(collection.columns.len() as u64),
        Field::number(collection.partitions.len() as u64),
        Field::number(collection.segments),
        Field::number(collection.rows),
        Field::text(output::size(collection.bytes)),
    ]
}

fn to_json(collection: &Collection) -> anyhow::Result<serde_json::Value> {
    let options: CollectionOptions = collection.options.clone().unwrap_or_default().try_into()?;
    let columns = collection
        .columns
        .iter()
        .map(|column| json!({ "name": column.name, "type": column.data_type, "nullable": column.nullable }));
    Ok(json!({
        "name": collection.name,
        "id": collection.id,
        "columns": columns.collect::<Vec<_>>(),
        "shards": options.shards,
        "selector": options.routing.selector.as_str(),
        "query_timeout_ms": options.query_timeout.map(|timeout| timeout.as_millis() as u64),
        "created_at": output::time(collection.created_at_ns),
        "partitions": collection.partitions,
        "segments": collection.segments,
        "rows": collection.rows,
        "bytes": collection.bytes,
    }))
}
