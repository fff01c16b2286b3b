//! The questions as they come in from outside: nothing is answered before the server is healthy.

use std::{collections::BTreeMap, fmt, time::Duration};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, PartitionName, ReplicaId};

use super::{
    Form, Readiness, Registered, ReplicaProgress, ShardLeaders, Unqueryable, health_check, load_percentage,
    readiness, replica_percentages, replica_progress, shard_leaders, show_load, show_loads, show_partitions,
};
use crate::Wired;

/// Whether the server answers. Set to healthy after everything is wired, which orders questions against the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It starts.
    Initializing,
    /// It answers.
    Healthy,
    /// It ends.
    Stopping,
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initializing => "starting",
            Self::Healthy => "healthy",
            Self::Stopping => "stopping",
        })
    }
}

/// The questions behind the gate: while the server is not healthy each of them is `service_not_ready`, before anything
/// else is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// State of the server.
    pub state: ServerState,
    /// What it knows.
    pub stores: Wired<'a>,
}

impl Entry<'_> {
    fn gate(&self) -> Result<(), Error> {
        if self.state == ServerState::Healthy {
            return Ok(());
        }
        Err(Error::new(ErrorCode::ServiceNotReady, format!("the coordinator is {}; try again", self.state)))
    }

    /// What every question about a group checks before it looks at the collection.
    ///
    /// # Errors
    /// Of the gate; `service_not_ready` while stores are missing; `resource_group_not_found`.
    pub fn check(&self, group: Option<&str>) -> Result<(), Error> {
        self.gate()?;
        self.stores.loaded()?;
        self.stores.filter(group).map(drop)
    }

    /// See [`load_percentage`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn load_percentage(
        &self,
        collection: CollectionId,
        group: Option<&str>,
    ) -> Result<Option<u8>, Error> {
        self.gate()?;
        load_percentage(&self.stores, collection, group)
    }

    /// See [`replica_percentages`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn replica_percentages(
        &self,
        collection: CollectionId,
        group: Option<&str>,
    ) -> Result<BTreeMap<ReplicaId, u8>, Error> {
        self.gate()?;
        replica_percentages(&self.stores, collection, group)
    }

    /// See [`replica_progress`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn replica_progress(
        &self,
        collection: CollectionId,
        group: Option<&str>,
    ) -> Result<Vec<ReplicaProgress>, Error> {
        self.gate()?;
        replica_progress(&self.stores, collection, group)
    }

    /// See [`readiness()`]; the gate is the verdict `coordinator_not_ready` here.
    pub fn readiness(&self, collection: CollectionId, group: Option<&str>) -> Readiness {
        match self.gate() {
            Ok(()) => readiness(&self.stores, collection, group),
            Err(error) => Readiness::refused(error),
        }
    }

    /// See [`shard_leaders`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn shard_leaders(&self, collection: CollectionId, form: Form) -> Result<Vec<ShardLeaders>, Error> {
        self.gate()?;
        shard_leaders(&self.stores, collection, form)
    }

    /// See [`show_load`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn show_load(&self, collection: CollectionId) -> Result<Registered, Error> {
        self.gate()?;
        show_load(&self.stores, collection)
    }

    /// See [`show_loads`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn show_loads(&self) -> Result<Vec<(CollectionId, Registered)>, Error> {
        self.gate()?;
        show_loads(&self.stores)
    }

    /// See [`show_partitions`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn show_partitions(
        &self,
        collection: CollectionId,
        partitions: &[PartitionName],
    ) -> Result<Vec<(PartitionName, Registered)>, Error> {
        self.gate()?;
        show_partitions(&self.stores, collection, partitions)
    }

    /// See [`health_check`].
    ///
    /// # Errors
    /// As there, and of the gate.
    pub fn health_check(
        &self,
        now: WallTime,
        unqueryable_after: Duration,
    ) -> Result<Vec<Unqueryable>, Error> {
        self.gate()?;
        health_check(&self.stores, now, unqueryable_after)
    }
}
