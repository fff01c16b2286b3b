//! What every question checks first, and the words of the errors.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName};

use crate::{Distribution, KnownNodes, Registrations, Replica, Replicas, Targets, Wired};

/// The stores that every question about what is loaded reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded<'a> {
    pub(super) registrations: &'a Registrations,
    pub(super) replicas: &'a Replicas,
    pub(super) targets: &'a Targets,
    pub(super) distribution: &'a Distribution,
}

impl<'a> Wired<'a> {
    /// All of them, or `service_not_ready`.
    pub(super) fn loaded(&self) -> Result<Loaded<'a>, Error> {
        Ok(Loaded {
            registrations: self.registrations()?,
            replicas: there(self.replicas, "replicas")?,
            targets: there(self.targets, "targets")?,
            distribution: there(self.distribution, "reports of shard leaders")?,
        })
    }

    /// Registrations, or `service_not_ready`.
    pub(super) fn registrations(&self) -> Result<&'a Registrations, Error> {
        there(self.registrations, "registrations of loads")
    }

    /// Nodes, or `service_not_ready`.
    pub(super) fn nodes(&self) -> Result<&'a KnownNodes, Error> {
        there(self.nodes, "nodes")
    }

    /// The group to filter by. Without a name the store of groups is not consulted and need not be there.
    ///
    /// # Errors
    /// `service_not_ready` without that store; `resource_group_not_found` naming the groups that there are.
    pub(super) fn filter<'g>(&self, group: Option<&'g str>) -> Result<Option<&'g str>, Error> {
        let Some(name) = group.filter(|name| !name.is_empty()) else { return Ok(None) };
        let groups = there(self.groups, "resource groups")?;
        if name == GroupName::DEFAULT || groups.contains(name) {
            return Ok(Some(name));
        }
        let default = GroupName::default_group();
        let known: BTreeSet<&str> = groups.iter().chain([&default]).map(GroupName::as_str).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let text = format!("there is no resource group '{}'; there are: {known}", name.escape_debug());
        Err(Error::new(ErrorCode::ResourceGroupNotFound, text))
    }

    /// The recorded failure of a collection that is not registered, always worded as not loaded: the recorded code
    /// could make a failure for good look retriable. `None`: no failure is known.
    pub(super) fn failure(&self, collection: CollectionId) -> Option<Error> {
        let (_, failed) = self.failed_loads?.get(collection)?;
        let text = format!("collection {collection} is not loaded, its load failed: {}", failed.text);
        Some(Error::new(ErrorCode::CollectionNotLoaded, text))
    }

    /// The error for a collection that is not registered, with the recorded failure if there is one.
    pub(super) fn not_loaded(&self, collection: CollectionId) -> Error {
        let plain =
            || Error::new(ErrorCode::CollectionNotLoaded, format!("collection {collection} is not loaded"));
        self.failure(collection).unwrap_or_else(plain)
    }
}

impl<'a> Loaded<'a> {
    /// Replicas of a collection, visible or not, of one group if it is named; in the order of their creation.
    pub(super) fn replicas_in(&self, collection: CollectionId, group: Option<&str>) -> Vec<&'a Replica> {
        let all = self.replicas.of(collection).iter().map(Arc::as_ref);
        all.filter(|replica| group.is_none_or(|group| replica.group.as_str() == group)).collect()
    }
}

fn there<T>(store: Option<T>, what: &str) -> Result<T, Error> {
    let missing = || {
        let text = format!("the coordinator is starting: its {what} are not there yet; try again");
        Error::new(ErrorCode::ServiceNotReady, text)
    };
    store.ok_or_else(missing)
}
