//! How far the loads of partitions are.

use pointsman_ids::{Error, ErrorCode, PartitionName};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{CollectionStore, LoadStatus, Stores, answers::Registered};

use crate::{catalog::find, shared::Shared};

/// How far partitions of a collection are: those that are named, or all that are loaded.
pub(crate) fn show_partitions(
    shared: &Shared,
    request: &pb::ShowPartitionsRequest,
) -> Result<pb::ShowPartitionsResponse, Error> {
    let tenure = shared.in_charge()?;
    let names = request.partitions.iter().map(|name| PartitionName::new(name));
    let names: Vec<PartitionName> = names.collect::<Result<_, Error>>()?;
    let moment = tenure.moment();
    let collection = {
        let state = tenure.state();
        let store = find(&state.stores, &request.collection)?;
        names.iter().try_for_each(|name| check(&state.stores, store, name))?;
        store.collection.id
    };
    let figures = moment.entry().show_partitions(collection, &names);
    let figures = figures.map_err(|error| error.context(format_args!("'{}'", request.collection)))?;
    Ok(pb::ShowPartitionsResponse { partitions: figures.into_iter().map(message).collect() })
}

/// Tells a partition that is not loaded from one that nobody knows.
fn check(stores: &Stores, store: &CollectionStore, name: &PartitionName) -> Result<(), Error> {
    let record = stores.loads.get(store.collection.id);
    let is_registered = record.is_some_and(|record| record.partitions.contains_key(name));
    if is_registered || store.partitions().any(|known| known == name) {
        return Ok(());
    }
    let names: Vec<&str> = store.partitions().map(PartitionName::as_str).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let text =
        format!("collection '{}' has no partition '{name}'; there are: {known}", store.collection.name);
    Err(Error::new(ErrorCode::PartitionNotFound, text))
}

fn message((name, figure): (PartitionName, Registered)) -> pb::PartitionLoad {
    pb::PartitionLoad {
        partition: name.to_string(),
        loaded: figure.status == LoadStatus::Loaded,
        percent: figure.percentage.into(),
    }
}
