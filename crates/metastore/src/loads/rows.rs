//! Rows of loads, and what they mean.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, ErrorCode, GroupName, PartitionName, ReplicaId, TargetVersion};
use pointsman_query_coord::{
    CollectionFailures, DroppedGroup, FailedLoad, LoadKind, LoadRecord, LoadStatus, PartitionLoad, Replica,
    Target,
};
use sqlx::FromRow;

use crate::{
    Result,
    stored::{self, Origin},
};

#[derive(FromRow)]
pub(super) struct LoadRow {
    pub(super) collection: i64,
    replicas: i64,
    status: String,
    percent: i64,
    created_at: i64,
    updated_at: i64,
    kind: String,
    recoveries: i64,
    replicas_chosen: bool,
}

#[derive(FromRow)]
pub(super) struct PartitionRow {
    pub(super) collection: i64,
    name: String,
    status: String,
    percent: i64,
    created_at: i64,
    updated_at: i64,
}

impl PartitionRow {
    pub(super) fn load(&self) -> Result<(PartitionName, PartitionLoad)> {
        let origin = Origin::new("partition_loads", format_args!("{}/{}", self.collection, self.name));
        let load = PartitionLoad {
            status: origin.read("status", read_status(&self.status))?,
            percent: origin.number("percent", self.percent)?,
            created_at: origin.number("created_at", self.created_at)?,
            updated_at: origin.number("updated_at", self.updated_at)?,
        };
        Ok((origin.read("name", PartitionName::new(&self.name))?, load))
    }
}

impl LoadRow {
    pub(super) fn record(&self, partitions: BTreeMap<PartitionName, PartitionLoad>) -> Result<LoadRecord> {
        let origin = Origin::new("loads", self.collection);
        Ok(LoadRecord {
            collection: CollectionId(origin.number("collection", self.collection)?),
            replicas: origin.number("replicas", self.replicas)?,
            status: origin.read("status", read_status(&self.status))?,
            percent: origin.number("percent", self.percent)?,
            created_at: origin.number("created_at", self.created_at)?,
            updated_at: origin.number("updated_at", self.updated_at)?,
            kind: origin.read("kind", read_kind(&self.kind))?,
            recoveries: origin.number("recoveries", self.recoveries)?,
            replicas_chosen: self.replicas_chosen,
            partitions,
        })
    }
}

pub(super) fn kind(kind: LoadKind) -> &'static str {
    match kind {
        LoadKind::Collection => "collection",
        LoadKind::Partitions => "partitions",
    }
}

pub(super) fn read_kind(text: &str) -> Result<LoadKind, String> {
    let known = [LoadKind::Collection, LoadKind::Partitions].into_iter().find(|known| kind(*known) == text);
    known.ok_or_else(|| format!("there is no kind of load '{text}'"))
}

pub(super) fn status(status: LoadStatus) -> &'static str {
    match status {
        LoadStatus::Loading => "loading",
        LoadStatus::Loaded => "loaded",
    }
}

pub(super) fn read_status(text: &str) -> Result<LoadStatus, String> {
    let known = [LoadStatus::Loading, LoadStatus::Loaded].into_iter().find(|known| status(*known) == text);
    known.ok_or_else(|| format!("there is no status '{text}'"))
}

#[derive(FromRow)]
pub(super) struct ReplicaRow {
    id: i64,
    collection: i64,
    group_name: String,
    nodes: String,
    ro_nodes: String,
    query_visible: bool,
    finished: bool,
    waits_for_group_since: Option<i64>,
}

impl ReplicaRow {
    pub(super) fn replica(&self) -> Result<Replica> {
        let origin = Origin::new("replicas", self.id);
        Ok(Replica {
            id: ReplicaId(origin.number("id", self.id)?),
            collection: CollectionId(origin.number("collection", self.collection)?),
            group: origin.read("group_name", GroupName::new(&self.group_name))?,
            nodes: origin.node_names("nodes", &self.nodes)?,
            ro_nodes: origin.node_names("ro_nodes", &self.ro_nodes)?,
            query_visible: self.query_visible,
            finished: self.finished,
            waits_for_group_since: self
                .waits_for_group_since
                .map(|since| origin.number("waits_for_group_since", since))
                .transpose()?,
        })
    }
}

#[derive(FromRow)]
pub(super) struct TargetRow {
    collection: i64,
    version: i64,
    content: String,
}

impl TargetRow {
    pub(super) fn target(&self) -> Result<Target> {
        let origin = Origin::new("targets", self.collection);
        let collection = CollectionId(origin.number("collection", self.collection)?);
        let version = TargetVersion(origin.number("version", self.version)?);
        stored::read_target(&origin, collection, version, &self.content)
    }
}

#[derive(FromRow)]
pub(super) struct FailedRow {
    collection: i64,
    code: i64,
    tries: i64,
    message: String,
    last_at: i64,
}

#[derive(FromRow)]
pub(super) struct DroppedGroupRow {
    collection: i64,
    group_name: String,
    message: String,
    last_at: i64,
}

/// Failures by collection.
pub(super) fn failures(
    codes: Vec<FailedRow>,
    groups: Vec<DroppedGroupRow>,
) -> Result<Vec<CollectionFailures>> {
    let mut known = BTreeMap::new();
    let new = |collection| CollectionFailures { collection, codes: BTreeMap::new(), groups: BTreeMap::new() };
    for row in codes {
        let origin = Origin::new("failed_loads", format_args!("{}/{}", row.collection, row.code));
        let collection = CollectionId(origin.number("collection", row.collection)?);
        let code = ErrorCode::from_number(origin.number("code", row.code)?);
        let (count, last) = (origin.number("tries", row.tries)?, origin.number("last_at", row.last_at)?);
        let failed = FailedLoad { count, text: row.message, last };
        known.entry(collection).or_insert_with(|| new(collection)).codes.insert(code, failed);
    }
    for row in groups {
        let origin = Origin::new("dropped_groups", format_args!("{}/{}", row.collection, row.group_name));
        let collection = CollectionId(origin.number("collection", row.collection)?);
        let group = origin.read("group_name", GroupName::new(&row.group_name))?;
        let dropped = DroppedGroup { text: row.message, last: origin.number("last_at", row.last_at)? };
        known.entry(collection).or_insert_with(|| new(collection)).groups.insert(group, dropped);
    }
    Ok(known.into_values().collect())
}
