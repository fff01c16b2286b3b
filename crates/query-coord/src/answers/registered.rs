//! What the registration says, of the collection as a whole: the figures as they are stored.

use pointsman_ids::{CollectionId, Error, ErrorCode, PartitionName};

use crate::{LoadRecord, LoadStatus, Wired};

/// The stored figure of a collection or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Percent, 0 to 100; of a collection the average of its partitions, rounded down. The status does not lift it.
    pub percentage: u8,
    /// Whether it reached 100 once.
    pub status: LoadStatus,
}

/// The stored figure of a collection.
///
/// # Errors
/// `service_not_ready` without the store; `collection_not_loaded` when it is not registered, with the text of a recorded
/// failure if there is one.
pub fn show_load(stores: &Wired<'_>, collection: CollectionId) -> Result<Registered, Error> {
    let record = stores.registrations()?.get(collection);
    record.and_then(of_collection).ok_or_else(|| stores.not_loaded(collection))
}

/// The stored figures of all registered collections, by number. Those that are not registered are left out.
///
/// # Errors
/// `service_not_ready` without the store.
pub fn show_loads(stores: &Wired<'_>) -> Result<Vec<(CollectionId, Registered)>, Error> {
    let records = stores.registrations()?.iter();
    Ok(records.filter_map(|record| Some((record.collection, of_collection(record)?))).collect())
}

/// The stored figures of these partitions, in this order; without any named, of all that are registered, by name.
///
/// # Errors
/// `service_not_ready` without the store; `partition_not_loaded` naming the first one that is not registered, or the
/// collection when none is, with the text of a recorded failure if there is one.
pub fn show_partitions(
    stores: &Wired<'_>,
    collection: CollectionId,
    partitions: &[PartitionName],
) -> Result<Vec<(PartitionName, Registered)>, Error> {
    let record = stores.registrations()?.get(collection);
    let refuse = |what: String| {
        let cause = stores.failure(collection).map_or_else(String::new, |error| format!(": {error}"));
        Error::new(ErrorCode::PartitionNotLoaded, format!("{what}{cause}"))
    };
    let figure = |name: &PartitionName| {
        let partition = record?.partitions.get(name)?;
        Some((name.clone(), Registered { percentage: partition.percent, status: partition.status }))
    };
    if !partitions.is_empty() {
        let named = |name| {
            figure(name)
                .ok_or_else(|| refuse(format!("partition '{name}' of collection {collection} is not loaded")))
        };
        return partitions.iter().map(named).collect();
    }
    let all: Vec<_> =
        record.into_iter().flat_map(|record| record.partitions.keys()).filter_map(figure).collect();
    if all.is_empty() {
        Err(refuse(format!("no partition of collection {collection} is loaded")))
    } else {
        Ok(all)
    }
}

fn of_collection(record: &LoadRecord) -> Option<Registered> {
    Some(Registered { percentage: record.average()?, status: record.status })
}
