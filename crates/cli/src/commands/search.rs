//! `pointsman search`.

use std::path::PathBuf;

use clap::Args;
use pointsman_ids::request::{Metric, Search};
use pointsman_proto::broker::v1::SearchRequest;

use crate::{
    Exit, Failure,
    args::Target,
    client::Shards,
    rows::{self, RowsArgs},
};

const EXAMPLES: &str = "\
Examples:
  pointsman search docs --vector '[0.1, 0.2, 0.3]'
  pointsman search docs --vector-file queries.npy --k 5 --metric cosine --columns id,title
  pointsman search docs --vector '[0.1, 0.2, 0.3]' --filter \"lang = 'en' AND year > 2020\" --exact
  pointsman search docs --vector '[0.1, 0.2, 0.3]' --resource-group east --timeout 2s --json
  pointsman search docs --vector '[0.1, 0.2, 0.3]' --prefer-group east

Prints for each vector the nearest rows, by distance. Smaller is nearer: l2 is the square of the distance, inner_product is
negated, cosine is one minus the cosine of the angle. A file of vectors holds numbers line by line (1,2,3 or [1,2,3]), a
JSON list, or what numpy.save writes; `-` is standard input. The answer is whole, or the command fails. With --prefer-group
the leaders of that group are asked first; standard error says where others answered.";

/// Options of `search`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SearchArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// A vector to compare with, such as '[0.1, 0.2]'; may be repeated
    #[arg(
        long = "vector",
        value_name = "VECTOR",
        allow_hyphen_values = true,
        required_unless_present = "vector_file"
    )]
    vectors: Vec<String>,
    /// File with vectors to compare with
    #[arg(long, value_name = "FILE", conflicts_with = "vectors")]
    vector_file: Option<PathBuf>,
    /// Column to search [default: the only one that holds vectors]
    #[arg(long, value_name = "COLUMN")]
    column: Option<String>,
    /// Rows per vector
    #[arg(long, short, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,
    /// How to measure: l2, inner_product or cosine [default: that of the column's index, else l2]
    #[arg(long, value_name = "METRIC", value_parser = metric)]
    metric: Option<Metric>,
    /// Condition in SQL that rows have to meet
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Columns to print besides the distance [default: the key]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Look at every vector, whatever index there is
    #[arg(long)]
    exact: bool,
    /// Rows that an index looks at closely per segment; more find more, and take longer [default: the broker's]
    #[arg(long, value_name = "N", conflicts_with = "exact", value_parser = clap::value_parser!(u32).range(1..))]
    candidates: Option<u32>,
    #[command(flatten)]
    rows: RowsArgs,
}

fn metric(text: &str) -> Result<Metric, String> {
    text.parse().map_err(|error: pointsman_ids::Error| error.to_string())
}

/// Searches and prints what was found.
pub(crate) async fn run(args: SearchArgs, target: &Target) -> anyhow::Result<Exit> {
    let vectors = match &args.vector_file {
        Some(file) => rows::read(file)?,
        None => given(&args.vectors)?,
    };
    let count = vectors.len();
    let search = Search {
        column: args.column,
        vectors,
        k: args.k,
        metric: args.metric,
        filter: args.filter,
        columns: args.columns,
        exact: args.exact,
        candidates: args.candidates,
    };
    let request = SearchRequest {
        collection: args.collection,
        search: Some((&search).into()),
        options: Some(args.rows.message()),
    };
    let answer = Shards::connect(target).await?.search(request).await?;
    answer.by_vector(count).print(&args.rows)?;
    Ok(Exit::Ok)
}

fn given(texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
    let parse = |text: &String| rows::parse(text).map_err(|why| Failure::Usage(format!("--vector: {why}")));
    texts.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args as Line, Command};

    fn search(line: &[&str]) -> Result<SearchArgs, String> {
        let args = Line::read(["pointsman", "search", "docs"].iter().chain(line))
            .map_err(|error| error.to_string())?;
        match args.command {
            Command::Search(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_search_needs_vectors_and_says_what_it_does_not_understand() {
        assert!(search(&[]).unwrap_err().contains("--vector"));
        let args =
            search(&["--vector", "-1,2", "--vector", "[3,4]", "-k", "3", "--metric", "cosine"]).unwrap();
        assert_eq!(given(&args.vectors), Ok(vec![vec![-1.0, 2.0], vec![3.0, 4.0]]));
        assert_eq!((args.k, args.metric), (3, Some(Metric::Cosine)));
        assert!(search(&["--vector", "1", "--metric", "euclid"]).unwrap_err().contains("inner_product"));
        assert!(search(&["--vector", "1", "--k", "0"]).is_err());
        assert!(
            search(&["--vector", "1", "--json", "--format", "csv"])
                .unwrap_err()
                .contains("cannot be used with")
        );
        let error = given(&["[1, x]".to_owned()]).unwrap_err();
        assert!(matches!(&error, Failure::Usage(text) if text.contains("component 1 ('x')")), "{error}");
    }
}
