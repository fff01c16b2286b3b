//! `pointsman release`.

use clap::Args;
use pointsman_proto::coordinator::v1::ReleaseCollectionRequest;

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    loading, output,
};

/// Options of `release`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pointsman release orders lineitem")]
pub(crate) struct ReleaseArgs {
    /// Collections to release
    #[arg(required = true, value_name = "COLLECTION")]
    collections: Vec<String>,
}

/// Releases the collections, in order. One that is not loaded is no error.
pub(crate) async fn run(args: ReleaseArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    for collection in args.collections {
        // The coordinator takes any name, since a release may race a drop; here it would hide a slip of the keyboard.
        coordinator.collection(&collection).await?;
        let was_loaded = !loading::show(&coordinator, std::slice::from_ref(&collection)).await?.is_empty();
        let request = ReleaseCollectionRequest { collection: collection.clone() };
        let call = async |active: &Coordinator| {
            answer(active.query_coord().release_collection(request.clone()).await)
        };
        if let Err(error) = coordinator.persist(call).await {
            return Err(coordinator.explain(error, &collection).await.into());
        }
        let what = if was_loaded { "released" } else { "was not loaded" };
        output::note(format_args!("{collection}: {what}"));
    }
    Ok(Exit::Ok)
}
