//! `pointsman load`.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use pointsman_proto::coordinator::v1::{
    LoadCollectionRequest, LoadPartitionsRequest, UpdateLoadConfigRequest,
};
use tokio::time::Instant;

use crate::{
    Exit, Failure,
    args::Target,
    client::{Coordinator, answer},
    duration, interrupt, loading, output,
    replicas::{Asked, Replicas},
    routed,
};

const EXAMPLES: &str = "\
Examples:
  pointsman load lineitem orders --resource-groups east,west --wait
  pointsman load events --replicas 2
  pointsman load events --resource-groups east=2,west=1
  pointsman load events --partitions 2026-11,2026-12 --wait
  pointsman load events --update --resource-groups east,west --invisible --wait

Without groups all replicas live in the group `default`; with one, all there; with several, one in each, and a group
that stands twice takes two, as does `east=2`.

Of what is loaded already, what is said of replicas changes them, and queries go on. With --update nothing else changes, and
several collections change together or none; with --invisible new replicas answer no query until all of them can serve.

Partitions are loaded beside those that are; with --only they stay alone. `pointsman release --partitions` takes some away.
Ctrl-C ends the wait and nothing else.";

/// Options of `load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    /// Collections to load
    #[arg(required = true, value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Where replicas live, and how many
    #[command(flatten)]
    replicas: Replicas,
    /// Partitions to load [default: all of them, those that come later too]
    #[arg(long, value_name = "PARTITION", value_delimiter = ',')]
    partitions: Vec<String>,
    /// Release all other partitions
    #[arg(long, requires = "partitions")]
    only: bool,
    /// Change the replicas of what is loaded, and nothing else
    #[arg(long, conflicts_with = "partitions")]
    update: bool,
    /// New replicas answer no query until all of them can serve, and get nodes when their groups have theirs
    #[arg(long, requires = "update")]
    invisible: bool,
    /// Wait until every group serves and queries are answered, showing progress
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse, default_value = "5m", requires = "wait")]
    timeout: Duration,
}

/// Registers the loads and, if asked, waits for them.
pub(crate) async fn run(mut args: LoadArgs, target: &Target) -> anyhow::Result<Exit> {
    let deadline = Instant::now() + args.timeout;
    let mut named = BTreeSet::new();
    args.collections.retain(|name| named.insert(name.clone()));
    let replicas = args.replicas.asked()?;
    let coordinator = Coordinator::connect(target).await?;
    if args.update {
        update(&coordinator, &args, replicas).await?;
    } else {
        for collection in &args.collections {
            let became = load(&coordinator, &args, collection, &replicas).await?;
            output::note(output::visible(&format!("{collection}: {became}")));
        }
    }
    if args.wait {
        let wait = async {
            let loads = loading::wait(&coordinator, &args.collections, deadline).await?;
            routed::wait(target, &coordinator, loads, &[], deadline).await.map(drop)
        };
        interrupt::waiting(wait, || goes_on(&args.collections)).await?;
    }
    Ok(Exit::Ok)
}

fn goes_on(collections: &[String]) -> String {
    let names = collections.join(" ");
    format!(
        "stopped waiting; the coordinator goes on loading {names}: `pointsman status {names}` shows how far it is, \
         `pointsman release {names}` takes it back"
    )
}

/// Registers the load of one collection, or of some of its partitions. Gives what became of it in words.
async fn load(
    coordinator: &Coordinator,
    args: &LoadArgs,
    collection: &str,
    replicas: &Asked,
) -> anyhow::Result<String> {
    if args.partitions.is_empty() || args.only {
        let request = LoadCollectionRequest {
            collection: collection.to_owned(),
            replicas: replicas.number,
            resource_groups: replicas.groups.clone(),
            replicas_per_group: replicas.per_group.clone(),
            partitions: args.partitions.clone(),
        };
        return whole(coordinator, request).await;
    }
    let request = LoadPartitionsRequest {
        collection: collection.to_owned(),
        partitions: args.partitions.clone(),
        replicas: replicas.number,
        resource_groups: replicas.groups.clone(),
        replicas_per_group: replicas.per_group.clone(),
    };
    let call =
        async |active: &Coordinator| answer(active.query_coord().load_partitions(request.clone()).await);
    match coordinator.persist(call).await {
        Ok(answer) if answer.registered => Ok(words("load registered", &answer.warning, &[])),
        Ok(_) => Ok("these partitions were registered already".into()),
        Err(error) => Err(coordinator.explain(error, collection).await.into()),
    }
}

/// Registers a load as it is asked for. Gives what became of it in words.
pub(crate) async fn whole(
    coordinator: &Coordinator,
    request: LoadCollectionRequest,
) -> anyhow::Result<String> {
    let call =
        async |active: &Coordinator| answer(active.query_coord().load_collection(request.clone()).await);
    match coordinator.persist(call).await {
        Ok(answer) if answer.registered => Ok(words("load registered", &answer.warning, &answer.waits_for)),
        Ok(_) => Ok("load was registered already".into()),
        Err(error) => Err(coordinator.explain(error, &request.collection).await.into()),
    }
}

/// Changes the replicas of what is loaded.
async fn update(coordinator: &Coordinator, args: &LoadArgs, replicas: Asked) -> anyhow::Result<()> {
    if replicas.is_nothing() {
        let text = "name what is to change: --replicas, --resource-groups";
        return Err(Failure::Usage(text.into()).into());
    }
    let request = UpdateLoadConfigRequest {
        collections: args.collections.clone(),
        replicas: replicas.number,
        resource_groups: replicas.groups,
        replicas_per_group: replicas.per_group,
        wait_for_groups: args.invisible,
    };
    let call =
        async |active: &Coordinator| answer(active.query_coord().update_load_config(request.clone()).await);
    let answer = match (coordinator.persist(call).await, args.collections.as_slice()) {
        (Ok(answer), _) => answer,
        (Err(error), [only]) => return Err(coordinator.explain(error, only).await.into()),
        (Err(error), _) => return Err(error.into()),
    };
    for collection in &args.collections {
        let became =
            if answer.changed.contains(collection) { "replicas changed" } else { "nothing to change" };
        output::note(output::visible(&format!("{collection}: {became}")));
    }
    answer.warnings.iter().for_each(|warning| output::note(output::visible(&format!("warning: {warning}"))));
    Ok(())
}

/// What became of something, with what is amiss and what is still done.
pub(super) fn words(became: &str, warning: &str, waits_for: &[String]) -> String {
    let warning = if warning.is_empty() { String::new() } else { format!(" (warning: {warning})") };
    let later = match waits_for {
        [] => String::new(),
        nodes => format!("; {} will drop what is not loaded any more when it can", nodes.join(", ")),
    };
    format!("{became}{warning}{later}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LoadArgs,
    }

    fn parsed(line: &str) -> Result<LoadArgs, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.args)
    }

    #[test]
    fn what_excludes_each_other_is_refused() {
        assert!(parsed("load t --partitions p,q --only").is_ok());
        assert!(parsed("load t --update --replicas 2 --invisible").is_ok());
        for line in ["load t --only", "load t --invisible", "load t --update --partitions p"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn it_is_told_what_is_amiss_and_what_is_still_done() {
        assert_eq!(words("load registered", "", &[]), "load registered");
        assert_eq!(
            words("load registered", "east has 1 node", &["n1".into(), "n2".into()]),
            "load registered (warning: east has 1 node); n1, n2 will drop what is not loaded any more when it can"
        );
    }
}
