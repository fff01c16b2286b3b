//! `pointsman sql`.

use std::{
    io::{self, BufWriter, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;

use crate::{
    Exit, Failure,
    args::Target,
    client::{Broker, QueryOptions},
    duration, output,
    sql::{Answer, Format, statements},
};

const EXAMPLES: &str = "\
Examples:
  pointsman sql -c 'SELECT count(*) FROM lineitem'
  pointsman sql queries.sql --format csv > rows.csv
  echo 'SHOW TABLES' | pointsman sql
  pointsman sql --resource-group east -c 'SELECT count(*) FROM orders'

Several statements are parted by `;` and run one after the other; the first that fails ends the command. `SET name =
value;` holds for the statements after it. Rows go to standard output; a line about completeness and time, and what
went wrong, to standard error.";

/// Options of `sql`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SqlArgs {
    /// File with statements; `-` or nothing: standard input
    #[arg(value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Statements; may stand several times
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    command: Vec<String>,
    /// Form of printed rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Deadline of each statement, such as 30s [default: the broker's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Let only this resource group answer
    #[arg(long, value_name = "GROUP")]
    resource_group: Option<String>,
}

/// Runs the statements and says whether all were answered completely.
pub(crate) async fn run(args: SqlArgs, target: &Target) -> anyhow::Result<Exit> {
    let text = if args.command.is_empty() { read(args.file.as_deref())? } else { args.command.join("\n;\n") };
    let statements = statements(&text)?;
    if statements.is_empty() {
        return Err(Failure::Usage("there is no SQL statement in the input".into()).into());
    }
    let broker = Broker::new(target)?;
    let options = QueryOptions { timeout: args.timeout, resource_group: args.resource_group };
    for statement in statements {
        let answer = broker.query(&statement, &options).await?;
        print(&answer, args.format)?;
        if !answer.is_complete() {
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Ok)
}

fn read(file: Option<&Path>) -> anyhow::Result<String> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => std::fs::read_to_string(file).with_context(|| file.display().to_string()),
        None => {
            if io::stdin().is_terminal() {
                output::note("reading SQL from standard input; end with Ctrl-D");
            }
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("standard input")?;
            Ok(text)
        }
    }
}

fn print(answer: &Answer, format: Format) -> io::Result<()> {
    if let Some(table) = &answer.result_table {
        let mut out = BufWriter::new(io::stdout().lock());
        format.write(table, &mut out)?;
        out.flush()?;
    }
    for exception in &answer.exceptions {
        output::error(&format!("{} ({})", exception.message, exception.error_code));
    }
    for missing in &answer.coverage.unavailable {
        output::note(missing);
    }
    // A failure without rows has nothing to be complete.
    if answer.result_table.is_some() || answer.partial_result {
        output::note(answer.coverage());
    }
    Ok(())
}
