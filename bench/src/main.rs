//! `pointsman-baseline --objects DIR --cores N`: plain DataFusion as a process that a benchmark drives.
//!
//! Reads one JSON text (a SQL statement) per line from standard input and answers each with one line,
//! `{"rows": N, "ms": M}` or `{"error": "..."}`. Says `{"ready": true}` first, and ends with its input.

use std::{
    io::{self, BufRead, Write},
    path::PathBuf,
    time::Instant,
};

use clap::Parser;
use pointsman_bench::Plain;
use serde_json::{Value, json};

/// Plain DataFusion in one process, as a baseline.
#[derive(Debug, Parser)]
struct Args {
    /// Folder with one folder of Parquet files per table.
    #[arg(long)]
    objects: PathBuf,
    /// Partitions that queries run on.
    #[arg(long)]
    cores: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let plain = Plain::open(&args.objects, args.cores).await?;
    say(&json!({ "ready": true }))?;
    for line in io::stdin().lock().lines() {
        let sql: String = serde_json::from_str(&line?)?;
        let since = Instant::now();
        let answer = match plain.query(&sql).await {
            Ok(batches) => {
                let rows: usize = batches.iter().map(arrow::array::RecordBatch::num_rows).sum();
                json!({ "rows": rows, "ms": since.elapsed().as_secs_f64() * 1e3 })
            }
            Err(error) => json!({ "error": format!("{error:#}") }),
        };
        say(&answer)?;
    }
    Ok(())
}

fn say(answer: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{answer}")?;
    out.flush()
}
