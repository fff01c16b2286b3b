//! Loading, loading more, and releasing a part.

use std::collections::BTreeSet;

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, PartitionName};

use super::{
    CollectionFailures, LoadChange, ReplicaRequest, check_nodes, plan_replicas, present_numbers,
    update::assign_nodes,
};
use crate::{CollectionStore, GroupWait, LoadKind, LoadRecord, LoadStatus, PartitionLoad, Stores};

/// What somebody wants to be loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadRequest {
    /// `None`: the whole collection, partitions that come later too.
    pub partitions: Option<Vec<PartitionName>>,
    /// Whether partitions that are loaded already stay when they are not named.
    pub adds: bool,
    /// Where, and how often.
    pub replicas: ReplicaRequest,
    /// What holds for a first load that says nothing of replicas.
    pub defaults: ReplicaRequest,
}

/// What a load changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// What is written.
    pub change: LoadChange,
    /// Partitions that are not loaded any more.
    pub dropped: Vec<PartitionName>,
    /// What is amiss and no reason to refuse.
    pub warning: Option<Error>,
}

/// Plans a load; `None`: the very same is registered already.
///
/// Partitions that are loaded keep percentage and status, others begin at 0. On the first load every group needs a node
/// per replica; later that is a warning.
///
/// # Errors
/// `partition_not_found`; those of [`ReplicaRequest::numbers`] and [`check_nodes`].
pub fn plan_load(
    stores: &Stores,
    store: &CollectionStore,
    request: &LoadRequest,
    group_wait: GroupWait,
) -> Result<Option<LoadPlan>, Error> {
    let collection = store.collection.id;
    let record = stores.loads.get(collection);
    let Some((kind, names)) = partitions(store, record, request)? else { return Ok(None) };
    let present = present_numbers(stores.replicas_of(collection));
    let first = record.is_none();
    let said = if first && request.replicas.is_empty() { &request.defaults } else { &request.replicas };
    // Several groups say how many replicas there are, one in each, also where fewer were left or asked for before.
    let wanted = if first || said.groups.len() > 1 {
        said.numbers(stores)?
    } else {
        said.numbers_after(stores, &present)?
    };
    let wanted = if wanted.is_empty() { said.numbers(stores)? } else { wanted };
    if let Some(record) = record.filter(|record| record.average().is_some())
        && record.kind == kind
        && (kind == LoadKind::Collection || record.partitions.keys().eq(&names))
        && present == wanted
    {
        return Ok(None);
    }
    let lacks_nodes = check_nodes(stores, &wanted);
    let warning = if first { lacks_nodes.map(|()| None)? } else { lacks_nodes.err() };
    let mut change = plan_replicas(stores, collection, &wanted, None);
    assign_nodes(stores, collection, &mut change, group_wait);
    let dropped = record.into_iter().flat_map(|record| record.partitions.keys());
    let dropped = dropped.filter(|name| !names.contains(*name)).cloned().collect();
    let number = wanted.values().fold(0_u32, |sum, number| sum.saturating_add(*number));
    let chosen = request.replicas.chooses_number() || record.is_some_and(|record| record.replicas_chosen);
    let now = WallTime(group_wait.now);
    change.records.push(registration(collection, record, kind, names, number, chosen, now));
    change.failures.push(CollectionFailures {
        codes: Default::default(),
        groups: stores
            .failed_loads
            .of(collection)
            .groups
            .into_iter()
            .filter(|(name, _)| !wanted.contains_key(name))
            .collect(),
        collection,
    });
    Ok(Some(LoadPlan { change, dropped, warning }))
}

/// What is to be loaded: everything or these partitions; `None` when all that is asked for is loaded in any case.
fn partitions(
    store: &CollectionStore,
    record: Option<&LoadRecord>,
    request: &LoadRequest,
) -> Result<Option<(LoadKind, BTreeSet<PartitionName>)>, Error> {
    let known: BTreeSet<PartitionName> = store.partitions().cloned().collect();
    let registered = || record.into_iter().flat_map(|record| record.partitions.keys().cloned());
    let Some(named) = &request.partitions else {
        let mut names = known;
        names.extend(registered());
        if names.is_empty() {
            names.extend(PartitionName::new(PartitionName::DEFAULT));
        }
        return Ok(Some((LoadKind::Collection, names)));
    };
    let is_known = |name: &PartitionName| {
        known.contains(name)
            || record.is_some_and(|record| record.partitions.contains_key(name))
            || name.as_str() == PartitionName::DEFAULT
    };
    if let Some(unknown) = named.iter().find(|name| !is_known(name)) {
        let names: Vec<&str> = known.iter().map(PartitionName::as_str).collect();
        let text = format!(
            "collection '{}' has no partition '{unknown}'; there are: {}",
            store.collection.name,
            if names.is_empty() { "none, since it has no segments".into() } else { names.join(", ") }
        );
        return Err(Error::new(ErrorCode::PartitionNotFound, text));
    }
    if request.adds && record.is_some_and(|record| record.kind == LoadKind::Collection) {
        return Ok(None);
    }
    let mut names: BTreeSet<PartitionName> = named.iter().cloned().collect();
    if request.adds {
        names.extend(registered());
    }
    Ok(Some((LoadKind::Partitions, names)))
}

fn registration(
    collection: CollectionId,
    record: Option<&LoadRecord>,
    kind: LoadKind,
    names: BTreeSet<PartitionName>,
    replicas: u32,
    replicas_chosen: bool,
    now: WallTime,
) -> LoadRecord {
    let fresh =
        PartitionLoad { status: LoadStatus::Loading, percent: 0, created_at: now.0, updated_at: now.0 };
    let loaded = |name: &PartitionName| {
        let known = record.and_then(|record| record.partitions.get(name));
        known.filter(|load| load.status == LoadStatus::Loaded).cloned()
    };
    let partitions = names.into_iter().map(|name| {
        let load = loaded(&name).unwrap_or_else(|| fresh.clone());
        (name, load)
    });
    let created_at = record.map_or(now.0, |record| record.created_at);
    LoadRecord {
        collection,
        replicas,
        kind,
        status: LoadStatus::Loading,
        percent: 0,
        created_at,
        updated_at: now.0,
        recoveries: 0,
        replicas_chosen,
        partitions: partitions.collect(),
    }
    .averaged(now)
}

/// What releasing partitions changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialRelease {
    /// None of them is loaded.
    Nothing,
    /// They are all that is loaded.
    All,
    /// Others stay.
    Some(LoadChange),
}

/// Plans the release of partitions. Of a whole collection the others stay, and what comes later is not loaded any more.
///
/// # Errors
/// `parameter_invalid` when none is named.
pub fn plan_partial_release(
    stores: &Stores,
    collection: CollectionId,
    named: &[PartitionName],
    now: WallTime,
) -> Result<PartialRelease, Error> {
    if named.is_empty() {
        let text = "name the partitions to release; without any, release the collection".to_owned();
        return Err(Error::new(ErrorCode::ParameterInvalid, text));
    }
    let Some(record) = stores.loads.get(collection) else { return Ok(PartialRelease::Nothing) };
    let mut rest = record.clone();
    rest.partitions.retain(|name, _| !named.contains(name));
    if rest.partitions.len() == record.partitions.len() {
        return Ok(PartialRelease::Nothing);
    }
    if rest.partitions.is_empty() {
        return Ok(PartialRelease::All);
    }
    let updated_at = rest.updated_at;
    let rest = LoadRecord { kind: LoadKind::Partitions, ..rest }.averaged(now);
    let rest =
        LoadRecord { updated_at: if rest.status == record.status { updated_at } else { now.0 }, ..rest };
    Ok(PartialRelease::Some(LoadChange { records: vec![rest], ..LoadChange::default() }))
}
