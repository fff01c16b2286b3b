//! Whether every loaded collection can be queried.

use std::time::Duration;

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error};

use super::leaders;
use crate::Wired;

/// A collection that has not been queryable for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unqueryable {
    /// The collection.
    pub collection: CollectionId,
    /// Why.
    pub error: Error,
}

/// Collections whose leaders the strict form refuses although all replicas count, also those that queries cannot see,
/// and whose registration has not been updated for at least `unqueryable_after`; by number.
///
/// # Errors
/// `service_not_ready` while stores are missing.
pub fn health_check(
    stores: &Wired<'_>,
    now: WallTime,
    unqueryable_after: Duration,
) -> Result<Vec<Unqueryable>, Error> {
    let (loaded, nodes) = (stores.loaded()?, stores.nodes()?);
    let idle = |updated_at: u64| Duration::from_nanos(now.0.saturating_sub(updated_at));
    let registered = loaded.registrations.iter().filter(|record| record.average().is_some());
    let quiet = registered.filter(|record| idle(record.updated_at) >= unqueryable_after);
    let failing = quiet.filter_map(|record| {
        let error = leaders::check_all_replicas(loaded, nodes, record).err()?;
        Some(Unqueryable { collection: record.collection, error })
    });
    Ok(failing.collect())
}
