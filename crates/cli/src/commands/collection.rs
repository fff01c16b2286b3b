//! `pointsman collection`.

mod alter;
mod options;
mod shown;
mod strangers;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pointsman_engine::ingest;
use pointsman_ids::catalog::{CollectionOptions, Column, SelectorKind};
use pointsman_proto::{
    column_to_proto,
    coordinator::v1::{Collection, CreateCollectionRequest, DropCollectionRequest},
};
use serde_json::{Value, json};

use self::{alter::AlterArgs, options::OptionArgs};
use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    column,
    output::{self, Field},
};

const CREATE_EXAMPLES: &str = "\
Examples:
  pointsman collection create events --column 'id bigint not null' --column 'at timestamp' --column 'what text'
  pointsman collection create orders --like orders.parquet --shards 4
  pointsman collection create keyed --like keyed.parquet --selector strict_replica_group --fail-closed
  pointsman collection create docs --column 'id bigint not null' --column 'embedding vector(384)' --shards 4 \\
      --key id --vector-index embedding:cosine
  pointsman collection create photos --like embeddings.parquet --vector-index embedding
  pointsman collection create joined --like joined.parquet --selector multi_stage_replica_group \\
      --placement-partition 0=n1,n2/n3,n4

`pointsman segment push` creates a collection by itself when there is none. Vectors are lists of one length: with --like and
--vector-index, a column of lists of numbers becomes one of vectors as long as its first list.";

/// Named, typed sets of rows; what SQL calls tables.
#[derive(Debug, Subcommand)]
pub(crate) enum CollectionCommand {
    /// Create a collection
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Change how a collection is routed, its key and its vector indexes
    #[command(after_help = alter::EXAMPLES)]
    Alter(AlterArgs),
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

/// Options of `collection create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the new collection
    name: String,
    /// A column: "name type [not null]"; in order. Vectors: "name vector(N)"
    #[arg(long, value_name = "COLUMN", required_unless_present = "like", conflicts_with = "like", value_parser = column::parse)]
    column: Vec<Column>,
    /// Take the columns of this Parquet file
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// Number of shards
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    shards: u32,
    /// Let queries see new segments as they are loaded, and not all together once they are
    #[arg(long)]
    serve_before_promotion: bool,
    #[command(flatten)]
    options: OptionArgs,
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
        CollectionCommand::Alter(args) => alter::alter(args, target).await?,
        CollectionCommand::List(args) => list(args, target).await?,
        CollectionCommand::Show(args) => show(args, target).await?,
        CollectionCommand::Drop(args) => drop(args, target).await?,
    }
    Ok(Exit::Ok)
}

async fn create(args: CreateArgs, target: &Target) -> anyhow::Result<()> {
    let columns = match &args.like {
        // Whoever asks for an index says that the lists of the column are vectors.
        Some(file) => {
            let indexed: Vec<&str> =
                args.options.vector_indexes.iter().map(|index| index.column.as_str()).collect();
            ingest::with_vector_types(file, ingest::inspect_parquet(file)?.columns, &indexed)?
        }
        None => args.column,
    };
    let options = CollectionOptions {
        serve_before_promotion: args.serve_before_promotion,
        ..args.options.options(args.shards)?
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
    strangers::tell(&options, &coordinator, target).await;
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
    let header = [
        "name",
        "columns",
        "shards",
        "partitions",
        "segments",
        "rows",
        "size",
        "selector",
        "key",
        "vector indexes",
    ];
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
    for line in shown::lines(&options) {
        output::line(output::visible(&line))?;
    }
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
    let options = collection.options.clone().unwrap_or_default();
    let indexes: Vec<&str> = options.vector_indexes.iter().map(|index| index.column.as_str()).collect();
    vec![
        Field::text(&collection.name),
        Field::number(collection.columns.len() as u64),
        Field::number(options.shards.max(1)),
        Field::number(collection.partitions.len() as u64),
        Field::number(collection.segments),
        Field::number(collection.rows),
        Field::text(output::size(collection.bytes)),
        Field::text(SelectorKind::from(options.selector()).as_str()),
        Field::text(&options.key),
        Field::text(indexes.join(", ")),
    ]
}

fn to_json(collection: &Collection) -> anyhow::Result<Value> {
    let options: CollectionOptions = collection.options.clone().unwrap_or_default().try_into()?;
    let columns = collection
        .columns
        .iter()
        .map(|column| json!({ "name": column.name, "type": column.data_type, "nullable": column.nullable }));
    let mut shown = json!({
        "name": collection.name,
        "id": collection.id,
        "columns": columns.collect::<Vec<_>>(),
        "created_at": output::time(collection.created_at_ns),
        "partitions": collection.partitions,
        "segments": collection.segments,
        "rows": collection.rows,
        "bytes": collection.bytes,
    });
    if let Value::Object(fields) = &mut shown {
        fields.extend(shown::json(&options));
    }
    Ok(shown)
}
