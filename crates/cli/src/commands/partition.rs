//! `pointsman partition`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use pointsman_ids::ErrorCode;
use pointsman_proto::coordinator::v1::{PartitionLoad, ShowPartitionsRequest};
use serde_json::json;

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    output::{self, Field},
};

const EXAMPLES: &str = "\
Examples:
  pointsman partition list events
  pointsman partition list events --json

A partition comes with its first segment. `pointsman load events --partitions NAME` loads it alone, `pointsman release events
--partitions NAME` releases it.";

/// Named parts of collections.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    /// List a collection's partitions and how far their loads are
    #[command(after_help = EXAMPLES)]
    List(ListArgs),
}

/// Options of `partition list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(command: PartitionCommand, target: &Target) -> anyhow::Result<Exit> {
    let PartitionCommand::List(ListArgs { collection, json }) = command;
    let coordinator = Coordinator::connect(target).await?;
    let known = coordinator.collection(&collection).await?.partitions;
    let request = ShowPartitionsRequest { collection: collection.clone(), partitions: Vec::new() };
    let call =
        async |active: &Coordinator| answer(active.query_coord().show_partitions(request.clone()).await);
    let loaded = match coordinator.persist(call).await {
        Ok(answer) => answer.partitions,
        // None is, which is no failure of this command.
        Err(error) if error.code() == ErrorCode::PartitionNotLoaded => {
            if !json {
                output::note(output::visible(error.message()));
            }
            Vec::new()
        }
        Err(error) => return Err(coordinator.explain(error, &collection).await.into()),
    };
    let partitions = merged(known, loaded);
    if json {
        output::json(&partitions.iter().map(|(name, load)| entry(name, load.as_ref())).collect())?;
    } else {
        let row = |(name, load): (&String, &Option<PartitionLoad>)| {
            let percent = load.as_ref().map_or_else(String::new, |load| format!("{} %", load.percent));
            vec![Field::text(name), Field::text(percent), Field::text(word(load.as_ref()))]
        };
        output::print(output::list(&["partition", "progress", "load"], partitions.iter().map(row)))?;
    }
    Ok(Exit::Ok)
}

/// Partitions of the catalog and of the load, by name: either may have one that the other has not.
fn merged(known: Vec<String>, loaded: Vec<PartitionLoad>) -> BTreeMap<String, Option<PartitionLoad>> {
    let known = known.into_iter().map(|name| (name, None));
    let loaded = loaded.into_iter().map(|load| (load.partition.clone(), Some(load)));
    known.chain(loaded).collect()
}

fn word(load: Option<&PartitionLoad>) -> &'static str {
    match load {
        None => "not loaded",
        Some(load) if load.loaded => "loaded",
        Some(_) => "loading",
    }
}

/// The load of a partition.
pub(crate) fn to_json(load: &PartitionLoad) -> serde_json::Value {
    entry(&load.partition, Some(load))
}

fn entry(name: &str, load: Option<&PartitionLoad>) -> serde_json::Value {
    json!({
        "partition": name,
        "percent": load.map(|load| load.percent),
        "load": word(load).replace(' ', "_"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_that_are_loaded_and_others_are_one_list() {
        let load = |name: &str, loaded, percent| PartitionLoad { partition: name.into(), loaded, percent };
        let loads = vec![load("b", true, 100), load("c", false, 40)];
        let merged = merged(vec!["a".into(), "b".into()], loads);
        let words: Vec<_> = merged.iter().map(|(name, load)| (name.as_str(), word(load.as_ref()))).collect();
        assert_eq!(words, [("a", "not loaded"), ("b", "loaded"), ("c", "loading")]);
        assert_eq!(entry("a", None), json!({"partition": "a", "percent": null, "load": "not_loaded"}));
    }
}
