//! `pointsman release`.

use clap::Args;
use pointsman_proto::coordinator::v1::{ReleaseCollectionRequest, ReleasePartitionsRequest};

use super::load::words;
use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    loading, output,
};

const EXAMPLES: &str = "\
Examples:
  pointsman release orders lineitem
  pointsman release events --partitions 2026-01,2026-02

Waits up to 20 seconds until nodes have dropped the data, and names those that do it later. Without its last partition a
collection is released as well. What is not loaded is no error.";

/// Options of `release`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReleaseArgs {
    /// Collections to release
    #[arg(required = true, value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Release these partitions, and keep the others
    #[arg(long, value_name = "PARTITION", value_delimiter = ',')]
    partitions: Vec<String>,
}

/// Releases the collections, in order. One that is not loaded is no error.
pub(crate) async fn run(args: ReleaseArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    for collection in &args.collections {
        // The coordinator takes any name, since a release may race a drop; here it would hide a slip of the keyboard.
        coordinator.collection(collection).await?;
        let loads = loading::show(&coordinator, std::slice::from_ref(collection)).await?;
        let loaded: Vec<&str> =
            loads.iter().flat_map(|load| &load.partitions).map(|one| one.partition.as_str()).collect();
        let (was_loaded, absent): (bool, Vec<&str>) = match args.partitions.as_slice() {
            [] => (!loads.is_empty(), Vec::new()),
            names => {
                let absent = |name: &&str| !loaded.contains(name);
                let absent: Vec<&str> = names.iter().map(String::as_str).filter(absent).collect();
                (absent.len() < names.len(), absent)
            }
        };
        let waits_for = release(&coordinator, collection, &args.partitions).await;
        let waits_for = match waits_for {
            Ok(nodes) => nodes,
            Err(error) => return Err(coordinator.explain(error, collection).await.into()),
        };
        output::note(output::visible(&format!("{collection}: {}", said(was_loaded, &absent, &waits_for))));
    }
    Ok(Exit::Ok)
}

/// What became of a release in words; of partitions, which of them were not loaded.
fn said(was_loaded: bool, absent: &[&str], waits_for: &[String]) -> String {
    let absent = match absent {
        [] if was_loaded => None,
        [] => Some("was not loaded".to_owned()),
        names => Some(format!("not loaded: partition {}", names.join(", "))),
    };
    let released = was_loaded.then(|| words("released", "", waits_for));
    released.into_iter().chain(absent).collect::<Vec<_>>().join("; ")
}

/// Releases all or a part of a collection. Gives the nodes that drop it later.
async fn release(
    coordinator: &Coordinator,
    collection: &str,
    partitions: &[String],
) -> Result<Vec<String>, pointsman_ids::Error> {
    let collection = collection.to_owned();
    if partitions.is_empty() {
        let request = ReleaseCollectionRequest { collection };
        let call = async |active: &Coordinator| {
            answer(active.query_coord().release_collection(request.clone()).await)
        };
        return Ok(coordinator.persist(call).await?.waits_for);
    }
    let request = ReleasePartitionsRequest { collection, partitions: partitions.to_vec() };
    let call =
        async |active: &Coordinator| answer(active.query_coord().release_partitions(request.clone()).await);
    Ok(coordinator.persist(call).await?.waits_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_loaded_is_named() {
        assert_eq!(said(true, &[], &[]), "released");
        assert_eq!(said(false, &[], &[]), "was not loaded");
        assert_eq!(said(false, &["nope"], &[]), "not loaded: partition nope");
        assert_eq!(said(true, &["a", "b"], &[]), "released; not loaded: partition a, b");
    }
}
