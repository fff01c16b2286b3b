//! `pointsman segment replace`.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pointsman_proto::coordinator::v1::CollectionLoad;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    args::Target,
    client::Coordinator,
    duration, interrupt, loading, output,
    push::{self, Replaced, Replacement},
    routed,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  pointsman segment replace --collection orders --old orders-2025-01,orders-2025-02 orders-2025-q1.parquet --wait
  pointsman segment replace --collection events --old events events-fixed.csv --dry-run

Old segments go and new ones come in one step, and queries see either all of the old ones or all of the new ones, never a
mix: also when the coordinator dies on the way. New segments have names of their own. Without --partition they go to the
partition of the old ones. The same command again changes nothing.

Of a loaded collection the old ones answer until the new ones are loaded (--wait waits for that).";

/// Options of `segment replace`.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Collection
    #[arg(long, short, value_name = "NAME")]
    collection: String,
    /// Segments that go
    #[arg(long, required = true, value_name = "SEGMENT", value_delimiter = ',')]
    old: Vec<String>,
    /// Files, folders (all .parquet and .csv below) and URLs (http, https, s3, file) that become the new segments
    #[arg(required = true, value_name = "PATH|URL")]
    inputs: Vec<String>,
    /// Partition of the new segments [default: that of the old ones]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Only say whether it would be done
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Wait until every group serves the new segments and queries see them
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse, default_value = "5m", requires = "wait")]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes the replacement and, if asked, waits until queries see it.
pub(super) async fn run(args: ReplaceArgs, target: &Target) -> anyhow::Result<()> {
    let deadline = Instant::now() + args.timeout;
    let inputs = push::expand(&args.inputs)?;
    let coordinator = Coordinator::connect(target).await?;
    let wanted = Replacement {
        collection: args.collection.clone(),
        partition: args.partition.clone(),
        old: args.old.clone(),
        inputs,
        dry_run: args.dry_run,
    };
    let replaced = push::replace(&coordinator, wanted).await?;
    if !args.json {
        output::note(said(&args, &replaced));
    }
    let mut served = None;
    if args.wait && replaced.target_version > 0 {
        let goes_on = || goes_on(&args.collection);
        let seen = seen(&coordinator, &args.collection, &replaced, target, deadline);
        let waited = interrupt::waiting(seen, goes_on).await;
        served = Some(waited.with_context(|| format!("the replacement in '{}' stands", args.collection))?);
    }
    if args.json {
        output::json(&to_json(&args, &replaced, served))?;
    } else if served == Some(true) {
        output::note(format_args!("{}: queries see the new segments", args.collection));
    }
    Ok(())
}

/// Waits until queries see what was replaced, in every group and through the broker. Whether the broker says so.
async fn seen(
    coordinator: &Coordinator,
    collection: &str,
    replaced: &Replaced,
    target: &Target,
    deadline: Instant,
) -> anyhow::Result<bool> {
    let is_current = |load: &CollectionLoad| load.current_version >= replaced.target_version;
    let arrived = |load: &CollectionLoad| is_current(load) && loading::has_arrived(load);
    let loads = loading::wait_until(coordinator, &[collection.to_owned()], arrived, deadline).await?;
    routed::wait(target, coordinator, loads, &replaced.new, deadline).await
}

fn goes_on(collection: &str) -> String {
    format!(
        "stopped waiting; the replacement stands, and {collection} changes over as its nodes load the new segments: \
         `pointsman status {collection}` shows how far that is"
    )
}

fn said(args: &ReplaceArgs, replaced: &Replaced) -> String {
    let name = &args.collection;
    let new = output::count(replaced.new.len() as u64, "new segment");
    let old = output::count(args.old.len() as u64, "old one");
    let rows = output::count(replaced.rows, "row");
    let unseen = match (args.wait, replaced.target_version) {
        _ if args.dry_run => "",
        (_, 0) => "; the collection is not loaded",
        (true, _) => "",
        (false, _) => "; queries change over when the new ones are loaded",
    };
    match (args.dry_run, replaced.replaced) {
        (true, true) => format!("{name}: {new} with {rows} would take the place of {old}"),
        (_, true) => format!("{name}: {new} with {rows} in the place of {old}{unseen}"),
        (_, false) => format!(
            "{name}: done already, all new segments are there and no old one is ({})",
            args.old.join(", ")
        ),
    }
}

fn to_json(args: &ReplaceArgs, replaced: &Replaced, served: Option<bool>) -> serde_json::Value {
    json!({
        "collection": args.collection,
        "replaced": replaced.replaced && !args.dry_run,
        "would_replace": args.dry_run.then_some(replaced.replaced),
        "old": args.old,
        "new": replaced.new,
        "rows": replaced.rows,
        "target_version": replaced.target_version,
        "served": served,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReplaceArgs,
    }

    fn args(line: &[&str]) -> ReplaceArgs {
        let line = ["x", "-c", "t", "--old", "a,b", "c.csv"].iter().chain(line);
        Line::try_parse_from(line).unwrap().args
    }

    fn replaced(replaced: bool, target_version: u64) -> Replaced {
        Replaced { replaced, new: vec!["c".into()], rows: 3, target_version }
    }

    #[test]
    fn it_is_told_what_became_of_it() {
        let done = "t: 1 new segment with 3 rows in the place of 2 old ones";
        assert_eq!(said(&args(&["--wait"]), &replaced(true, 7)), done);
        assert_eq!(said(&args(&[]), &replaced(true, 0)), format!("{done}; the collection is not loaded"));
        let later = format!("{done}; queries change over when the new ones are loaded");
        assert_eq!(said(&args(&[]), &replaced(true, 7)), later);
        let would = "t: 1 new segment with 3 rows would take the place of 2 old ones";
        assert_eq!(said(&args(&["--dry-run"]), &replaced(true, 0)), would);
        assert!(said(&args(&[]), &replaced(false, 7)).contains("done already"));
    }

    #[test]
    fn a_dry_run_replaces_nothing() {
        let told = to_json(&args(&["--dry-run"]), &replaced(true, 0), None);
        assert_eq!((&told["replaced"], &told["would_replace"]), (&json!(false), &json!(true)));
        let told = to_json(&args(&["--wait"]), &replaced(true, 7), Some(true));
        assert_eq!(
            (&told["replaced"], &told["would_replace"], &told["served"]),
            (&json!(true), &json!(null), &json!(true))
        );
    }
}
