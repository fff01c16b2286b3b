//! `pointsman rows`.

use clap::Args;
use pointsman_ids::request::Query;
use pointsman_proto::broker::v1::QueryRequest;

use crate::{Exit, args::Target, client::Shards, rows::RowsArgs};

const EXAMPLES: &str = "\
Examples:
  pointsman rows docs
  pointsman rows docs --filter \"lang = 'en'\" --columns id,title --limit 100 --format csv
  pointsman rows docs --resource-group east --json

Prints rows by their key, where the collection has one. The leaders of the shards answer; `pointsman sql` answers anything
else. The answer is whole, or the command fails.";

/// Options of `rows`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListRowsArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Condition in SQL that rows have to meet
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Columns to print [default: all]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    rows: RowsArgs,
}

/// Asks for rows and prints them.
pub(crate) async fn run(args: ListRowsArgs, target: &Target) -> anyhow::Result<Exit> {
    let query = Query { filter: args.filter, columns: args.columns, limit: args.limit };
    let request = QueryRequest {
        collection: args.collection,
        query: Some((&query).into()),
        options: Some(args.rows.message()),
    };
    Shards::connect(target).await?.query(request).await?.print(&args.rows)?;
    Ok(Exit::Ok)
}
