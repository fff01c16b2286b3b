//! `pointsman segment`.

mod replace;

use clap::{Args, Subcommand};
use pointsman_proto::coordinator::v1::{DropSegmentsRequest, Segment};
use serde_json::json;

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    output::{self, Field},
    push::{self, Push},
};

const PUSH_EXAMPLES: &str = "\
Examples:
  pointsman segment push --collection events events.csv
  pointsman segment push --collection orders --partition 2026-11 exports/*.parquet
  pointsman segment push --collection orders https://example.org/orders.parquet
  pointsman segment push --collection docs --shard shard-2 embeddings.parquet

Every file becomes one segment, named after it (in a folder: after its path there). A push is whole: either all segments
are in the catalog or none (beyond 10,000 segments this holds for each 10,000). Pushing the same again
changes nothing, but repairs objects that were damaged or lost; another content under a name that is there is refused.
Lists of numbers in a Parquet file become vectors where the collection has a column of vectors.";

/// Immutable pieces of collections.
#[derive(Debug, Subcommand)]
pub(crate) enum SegmentCommand {
    /// Push Parquet or CSV files as segments
    #[command(after_help = PUSH_EXAMPLES)]
    Push(PushArgs),
    /// Put new segments in the place of old ones, in one step
    #[command(after_help = replace::EXAMPLES)]
    Replace(replace::ReplaceArgs),
    /// List a collection's segments
    #[command(after_help = "Example:\n  pointsman segment list --collection orders --json")]
    List(ListArgs),
    /// Drop segments from a collection
    #[command(after_help = "Example:\n  pointsman segment drop --collection orders orders-2019")]
    Drop(DropArgs),
}

/// Options of `segment push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Collection; created with the columns of the first file when it does not exist
    #[arg(long, short, value_name = "NAME")]
    collection: String,
    /// Partition [default: `default`]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Shard, such as shard-0 [default: by hash of each segment's name]
    #[arg(long, value_name = "NAME")]
    shard: Option<String>,
    /// Files, folders (all .parquet and .csv below) and URLs (http, https, s3, file)
    #[arg(required = true, value_name = "PATH|URL")]
    inputs: Vec<String>,
}

/// Options of `segment list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Collection
    #[arg(long, short, value_name = "NAME")]
    collection: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `segment drop`.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// Collection
    #[arg(long, short, value_name = "NAME")]
    collection: String,
    /// Segments to drop, all or none
    #[arg(required = true, value_name = "SEGMENT")]
    segments: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(command: SegmentCommand, target: &Target) -> anyhow::Result<Exit> {
    match command {
        SegmentCommand::Push(args) => push(args, target).await?,
        SegmentCommand::Replace(args) => replace::run(args, target).await?,
        SegmentCommand::List(args) => list(args, target).await?,
        SegmentCommand::Drop(args) => drop(args, target).await?,
    }
    Ok(Exit::Ok)
}

async fn push(args: PushArgs, target: &Target) -> anyhow::Result<()> {
    let PushArgs { collection, partition, shard, inputs } = args;
    let inputs = push::expand(&inputs)?;
    let coordinator = Coordinator::connect(target).await?;
    let pushed =
        push::run(&coordinator, Push { collection: collection.clone(), partition, shard, inputs }).await?;
    if pushed.created {
        output::note(format_args!("collection {collection} created"));
    }
    let unchanged = match pushed.unchanged {
        0 => String::new(),
        unchanged => format!(", {unchanged} there already"),
    };
    let repaired = match pushed.repaired {
        0 => String::new(),
        repaired => format!(", {repaired} repaired"),
    };
    output::note(format_args!(
        "{collection}: {} with {} added{unchanged}{repaired}",
        output::count(pushed.added, "segment"),
        output::count(pushed.rows_added, "row"),
    ));
    Ok(())
}

async fn list(args: ListArgs, target: &Target) -> anyhow::Result<()> {
    let segments = Coordinator::connect(target).await?.segments(&args.collection).await?;
    if args.json {
        return Ok(output::json(&segments.iter().map(to_json).collect())?);
    }
    let header = ["name", "partition", "shard", "rows", "size", "pushed"];
    Ok(output::print(output::list(&header, segments.iter().map(row)))?)
}

async fn drop(args: DropArgs, target: &Target) -> anyhow::Result<()> {
    let coordinator = Coordinator::connect(target).await?;
    let request = DropSegmentsRequest { collection: args.collection.clone(), names: args.segments };
    match answer(coordinator.catalog().drop_segments(request).await) {
        Ok(answer) => {
            let dropped = output::count(answer.dropped, "segment");
            output::note(format_args!("{}: {dropped} dropped", args.collection));
            Ok(())
        }
        Err(error) => Err(coordinator.explain(error, &args.collection).await.into()),
    }
}

fn row(segment: &Segment) -> Vec<Field> {
    vec![
        Field::text(&segment.name),
        Field::text(&segment.partition),
        Field::text(&segment.shard),
        Field::number(segment.rows),
        Field::text(output::size(segment.bytes)),
        Field::text(output::time(segment.created_at_ns)),
    ]
}

fn to_json(segment: &Segment) -> serde_json::Value {
    json!({
        "name": segment.name,
        "id": segment.id,
        "partition": segment.partition,
        "shard": segment.shard,
        "object": segment.object,
        "rows": segment.rows,
        "bytes": segment.bytes,
        "checksum": segment.checksum,
        "created_at": output::time(segment.created_at_ns),
    })
}
