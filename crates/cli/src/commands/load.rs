//! `pointsman load`.

use std::time::Duration;

use clap::Args;
use pointsman_proto::coordinator::v1::LoadCollectionRequest;
use tokio::time::Instant;

use crate::{
    Exit,
    args::Target,
    client::{Broker, Coordinator, answer},
    duration, loading, output, routed,
};

const EXAMPLES: &str = "\
Examples:
  pointsman load lineitem orders --resource-groups east,west --wait
  pointsman load events --replicas 2

Without groups all replicas live in the group `default`; with one, all there; with several, one in each, and a group
that stands twice takes two.";

/// Options of `load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    /// Collections to load
    #[arg(required = true, value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Number of replicas [default: one per group]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: Option<u32>,
    /// Groups that the replicas live in
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    resource_groups: Vec<String>,
    /// Wait until every group serves and queries are answered, showing progress
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse, default_value = "5m", requires = "wait")]
    timeout: Duration,
}

/// Registers the loads and, if asked, waits for them.
pub(crate) async fn run(args: LoadArgs, target: &Target) -> anyhow::Result<Exit> {
    let deadline = Instant::now() + args.timeout;
    let coordinator = Coordinator::connect(target).await?;
    for collection in &args.collections {
        let replicas = args.replicas.unwrap_or(0);
        let registered = register(&coordinator, collection, replicas, &args.resource_groups).await?;
        let what = if registered { "load registered" } else { "load was registered already" };
        output::note(format_args!("{collection}: {what}"));
    }
    if args.wait {
        let loads = loading::wait(&coordinator, &args.collections, deadline).await?;
        if let Some(broker) = Broker::named(target)? {
            let segments = loads.into_iter().map(|load| (load.collection, load.segments)).collect();
            routed::wait(&broker, &segments, deadline).await?;
        }
    }
    Ok(Exit::Ok)
}

/// Registers one load; false when the very same was there. 0 replicas: one per group.
pub(crate) async fn register(
    coordinator: &Coordinator,
    collection: &str,
    replicas: u32,
    resource_groups: &[String],
) -> anyhow::Result<bool> {
    let request = LoadCollectionRequest {
        collection: collection.to_owned(),
        replicas,
        resource_groups: resource_groups.to_vec(),
    };
    let call =
        async |active: &Coordinator| answer(active.query_coord().load_collection(request.clone()).await);
    match coordinator.persist(call).await {
        Ok(answer) => Ok(answer.registered),
        Err(error) => Err(coordinator.explain(error, collection).await.into()),
    }
}
