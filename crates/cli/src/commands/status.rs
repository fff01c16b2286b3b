//! `pointsman status`.

mod json;

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use pointsman_ids::ReadinessReason;
use pointsman_proto::coordinator::v1::{
    CollectionLoad, DrainPhase, GetReadinessRequest, GroupLoad, LoadFailure, LoadPhase,
};

use self::json::to_json;
use crate::{
    Exit, Failure,
    args::Target,
    client::{Coordinator, Health, answer},
    loading,
    output::{self, Field},
    verdict,
};

/// Lines about missing shards per group.
const SHOWN: usize = 10;

/// Options of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  pointsman status\n  pointsman status lineitem --json")]
pub(crate) struct StatusArgs {
    /// Collections to show [default: every one that is loaded or loading]
    #[arg(value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows how far loads are.
pub(crate) async fn run(args: StatusArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    let loads = loading::show(&coordinator, &args.collections).await?;
    for name in &args.collections {
        if !loads.iter().any(|load| load.collection == *name) {
            return Err(not_loaded(&coordinator, name).await?.into());
        }
    }
    let nodes = coordinator.nodes().await?;
    let disabled: BTreeSet<String> =
        nodes.iter().filter(|node| !node.switched_on).map(|node| node.name.clone()).collect();
    if args.json {
        output::json(&loads.iter().map(|load| to_json(load, &disabled)).collect())?;
        return Ok(Exit::Ok);
    }
    if loads.is_empty() {
        output::note("nothing is loaded; `pointsman load COLLECTION...` loads");
        return Ok(Exit::Ok);
    }
    let header = ["collection", "group", "progress", "ready", "held", "wanted", "replicas", "nodes"];
    output::print(output::list(&header, loads.iter().flat_map(rows)))?;
    for line in loads.iter().flat_map(|load| load.groups.iter().flat_map(|group| missing(load, group))) {
        output::line(output::visible(&line))?;
    }
    for line in loads.iter().flat_map(failures).chain(loads.iter().flat_map(troubles)) {
        output::line(output::visible(&line))?;
    }
    for node in &disabled {
        let text = format!("operator: node {node} is disabled; `pointsman node enable {node}` takes it back");
        output::line(output::visible(&text))?;
    }
    if coordinator.about.mass_loss {
        let lost = coordinator.about.lost_nodes.join(", ");
        let text = format!(
            "coordinator: moves nothing, since most nodes were lost at once ({lost}); it goes on when half of them are back, \
             or by `pointsman node accept-loss`"
        );
        output::line(output::visible(&text))?;
    }
    for node in nodes.iter().filter(|node| node.drain() != DrainPhase::Unspecified) {
        let word = if node.drain() == DrainPhase::Drained { "drained" } else { "being drained" };
        let text = format!(
            "operator: node {0} is {word}; `pointsman node drain {0} --cancel` takes it back",
            node.name
        );
        output::line(output::visible(&text))?;
    }
    for (name, health) in Health::of_local_nodes(target).await {
        if !health.routable {
            output::line(format_args!("broker: node {name} is {}", output::visible(&health.words())))?;
        }
    }
    Ok(Exit::Ok)
}

/// Tells a collection that is merely not loaded from one whose load failed, and from an unknown name.
async fn not_loaded(coordinator: &Coordinator, name: &str) -> anyhow::Result<Failure> {
    let request = GetReadinessRequest { collection: name.to_owned(), ..GetReadinessRequest::default() };
    let verdict = match answer(coordinator.query_coord().get_readiness(request).await) {
        Ok(verdict) => verdict,
        Err(error) => return Err(coordinator.explain(error, name).await.into()),
    };
    let load = format!("`pointsman load {name}` loads it");
    // Beside this verdict stands an error only where a load has failed.
    let failed = verdict.error.filter(|_| verdict.reason == ReadinessReason::CollectionNotLoaded.as_str());
    Ok(match failed {
        Some(error) => Failure::Failed(format!("'{name}': {}; mend that, and {load} anew", error.message)),
        None => Failure::NotReady(format!("'{name}' is not loaded; {load}")),
    })
}

fn rows(load: &CollectionLoad) -> impl Iterator<Item = Vec<Field>> {
    load.groups.iter().map(|group| {
        vec![
            Field::text(&load.collection),
            Field::text(&group.resource_group),
            Field::text(format_args!("{} %", group.percent)),
            ready(group),
            Field::number(group.segments_held),
            Field::number(group.segments_wanted),
            Field::number(group.replicas),
            Field::text(group.nodes.join(", ")),
        ]
    })
}

/// `yes`, or where the load stands and why it does not serve.
fn ready(group: &GroupLoad) -> Field {
    let phase = match group.phase() {
        LoadPhase::Serving | LoadPhase::Unspecified => return Field::yes(group.ready),
        LoadPhase::Loading => "loading",
        LoadPhase::Recovering => "recovering",
    };
    let said = verdict::words(&group.reason, group.unready_shards.len(), group.total_shards);
    let rest = group.expected_ms.map_or_else(String::new, |rest| format!(", about {} left", about(rest)));
    Field::State(output::visible(&format!("{phase}: {said}{rest}")), false)
}

/// A guess at a time: two units are more than it is worth.
fn about(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    let (unit, name) = match seconds {
        0..120 => (1, "s"),
        120..7200 => (60, "min"),
        _ => (3600, "h"),
    };
    format!("{} {name}", seconds.div_ceil(unit))
}

/// Shards that the group does not serve, or serves from an older target, and why; the first of many.
fn missing(load: &CollectionLoad, group: &GroupLoad) -> Vec<String> {
    let place = format!("{} in group {}", load.collection, group.resource_group);
    let mut lines: Vec<String> = verdict::lines(&group.unready_shards, &group.behind).collect();
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more (`pointsman ready` and --json show all)"));
    }
    if group.nodes.is_empty() {
        let text = "none of its nodes is there (`pointsman group show` tells which it has and wants)";
        lines.insert(0, text.to_owned());
    }
    lines.iter().map(|line| format!("{place}: {line}")).collect()
}

fn failures(load: &CollectionLoad) -> impl Iterator<Item = String> {
    let each = |group: &GroupLoad| group.failures.clone();
    load.groups.iter().flat_map(each).map(|failure| {
        let LoadFailure { node, segment, tries, error } = failure;
        let cause = error.map_or_else(|| "unknown cause".to_owned(), |error| error.message);
        let tries = if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
        format!("failed: {} on {node}, segment {segment}, after {tries}: {cause}", load.collection)
    })
}

/// What is in the way of a load, groups in which it was given up, and partitions that are still loading.
fn troubles(load: &CollectionLoad) -> Vec<String> {
    let name = &load.collection;
    let stalled = load.stalled_ms.map(|stalled| {
        let since = humantime::format_duration(Duration::from_secs(stalled / 1000));
        let why = if load.obstacles.is_empty() {
            "nothing is known to be in the way".to_owned()
        } else {
            load.obstacles.join("; ")
        };
        format!("{name}: no progress for {since}: {why}")
    });
    let behind = load.stalled_ms.is_none() && !load.obstacles.is_empty();
    let behind = behind.then(|| format!("{name}: not served by all: {}", load.obstacles.join("; ")));
    let dropped = load.dropped_groups.iter().map(|dropped| {
        let group = &dropped.resource_group;
        format!("{name}: given up in group {group}: {}", dropped.why)
    });
    let loading = load.partitions.iter().filter(|partition| !partition.loaded && load.partitions.len() > 1);
    let loading: Vec<String> =
        loading.map(|partition| format!("{} {} %", partition.partition, partition.percent)).collect();
    let more = loading.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = loading.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let loading = (!loading.is_empty()).then(|| format!("{name}: partitions loading: {shown}{more}"));
    stalled.into_iter().chain(behind).chain(dropped).chain(loading).collect()
}

#[cfg(test)]
mod tests {
    use pointsman_proto::coordinator::v1::{DroppedGroup, PartitionLoad};

    use super::*;

    #[test]
    fn a_guess_has_one_unit() {
        assert_eq!(
            [1, 61_000, 121_000, 7_200_000, 90_000_000].map(about),
            ["1 s", "61 s", "3 min", "2 h", "25 h"]
        );
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let partition = |name: &str, loaded| PartitionLoad {
            partition: name.into(),
            loaded,
            percent: if loaded { 100 } else { 40 },
        };
        let mut load = CollectionLoad {
            collection: "orders".into(),
            partitions: vec![partition("p", true), partition("q", false)],
            ..CollectionLoad::default()
        };
        assert_eq!(troubles(&load), ["orders: partitions loading: q 40 %"]);
        load.partitions.clear();
        load.stalled_ms = Some(95_500);
        load.obstacles = vec!["group east lacks nodes".into()];
        load.dropped_groups = vec![DroppedGroup { resource_group: "west".into(), why: "no room".into() }];
        assert_eq!(
            troubles(&load),
            [
                "orders: no progress for 1m 35s: group east lacks nodes",
                "orders: given up in group west: no room"
            ]
        );
        let loaded = CollectionLoad { stalled_ms: None, dropped_groups: vec![], ..load };
        assert_eq!(troubles(&loaded), ["orders: not served by all: group east lacks nodes"]);
    }
}
