//! What a change of loads writes.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, Error as Refusal, GroupName, ReplicaId};
use pointsman_query_coord::{CollectionFailures, LoadChange, LoadRecord, NewReplica, Replica, Target};

use super::rows::{PartitionRow, kind, status};
use crate::{
    Result,
    catalog::{exists, not_found},
    groups,
    session::Session,
    stored::{self, Origin, int, node_names},
};

/// Writes the partitions of a registration in the place of those that are there, as far as they differ.
pub(super) async fn partitions(session: &mut Session, record: &LoadRecord) -> Result<()> {
    let collection = int("the collection's id", record.collection.0)?;
    let sql = "SELECT collection, name, status, percent, created_at, updated_at FROM partition_loads \
               WHERE collection = $1";
    let rows: Vec<PartitionRow> = session.rows("partition_loads", sql, &[collection.into()]).await?;
    let mut there = BTreeMap::new();
    for row in &rows {
        let (name, load) = row.load()?;
        there.insert(name, load);
    }
    for name in there.keys().filter(|name| !record.partitions.contains_key(*name)) {
        let sql = "DELETE FROM partition_loads WHERE collection = $1 AND name = $2";
        session.execute(sql, &[collection.into(), name.as_str().into()]).await?;
    }
    let sql = "INSERT INTO partition_loads (collection, name, status, percent, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (collection, name) DO UPDATE SET \
               status = excluded.status, percent = excluded.percent, created_at = excluded.created_at, \
               updated_at = excluded.updated_at";
    for (name, load) in record.partitions.iter().filter(|(name, load)| there.get(*name) != Some(*load)) {
        let values = [
            collection.into(),
            name.as_str().into(),
            status(load.status).into(),
            i64::from(load.percent).into(),
            int("the time", load.created_at)?.into(),
            int("the time", load.updated_at)?.into(),
        ];
        session.execute(sql, &values).await?;
    }
    Ok(())
}

/// Puts all failures of a collection in the place of those that are there.
pub(super) async fn failures(session: &mut Session, failures: &CollectionFailures) -> Result<()> {
    let collection = int("the collection's id", failures.collection.0)?;
    session.execute("DELETE FROM failed_loads WHERE collection = $1", &[collection.into()]).await?;
    session.execute("DELETE FROM dropped_groups WHERE collection = $1", &[collection.into()]).await?;
    let sql =
        "INSERT INTO failed_loads (collection, code, tries, message, last_at) VALUES ($1, $2, $3, $4, $5)";
    for (code, failed) in &failures.codes {
        let (tries, last_at) = (int("the count", failed.count)?, int("the time", failed.last)?);
        let text = storable(&failed.text);
        let code = i64::from(code.number()).into();
        session
            .execute(sql, &[collection.into(), code, tries.into(), text.as_str().into(), last_at.into()])
            .await?;
    }
    let sql = "INSERT INTO dropped_groups (collection, group_name, message, last_at) VALUES ($1, $2, $3, $4)";
    for (group, dropped) in &failures.groups {
        let (text, last_at) = (storable(&dropped.text), int("the time", dropped.last)?);
        session
            .execute(sql, &[collection.into(), group.as_str().into(), text.as_str().into(), last_at.into()])
            .await?;
    }
    Ok(())
}

/// A text for people that both databases can hold.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "")
}

/// Writes a registration, a new one or another; its partitions where they differ.
pub(super) async fn record(session: &mut Session, record: &LoadRecord) -> Result<()> {
    let sql = "INSERT INTO loads \
               (collection, replicas, status, percent, created_at, updated_at, kind, recoveries, replicas_chosen) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (collection) DO UPDATE SET \
               replicas = excluded.replicas, status = excluded.status, percent = excluded.percent, \
               created_at = excluded.created_at, updated_at = excluded.updated_at, kind = excluded.kind, \
               recoveries = excluded.recoveries, replicas_chosen = excluded.replicas_chosen";
    let values = [
        int("the collection's id", record.collection.0)?.into(),
        i64::from(record.replicas).into(),
        status(record.status).into(),
        i64::from(record.percent).into(),
        int("the time", record.created_at)?.into(),
        int("the time", record.updated_at)?.into(),
        kind(record.kind).into(),
        i64::from(record.recoveries).into(),
        record.replicas_chosen.into(),
    ];
    session.execute(sql, &values).await?;
    partitions(session, record).await
}

pub(super) async fn replica(session: &mut Session, replica: &Replica) -> Result<()> {
    let sql = "UPDATE replicas SET group_name = $2, nodes = $3, ro_nodes = $4, query_visible = $5, finished = $6, \
               waits_for_group_since = $7 WHERE id = $1";
    let (nodes, ro_nodes) = (node_names(&replica.nodes)?, node_names(&replica.ro_nodes)?);
    let values = [
        int("the replica's id", replica.id.0)?.into(),
        replica.group.as_str().into(),
        nodes.as_str().into(),
        ro_nodes.as_str().into(),
        replica.query_visible.into(),
        replica.finished.into(),
        replica.waits_for_group_since.map(|since| int("the time", since)).transpose()?.into(),
    ];
    session.execute(sql, &values).await.map(drop)
}

pub(super) async fn create(session: &mut Session, new: &NewReplica) -> Result<Replica> {
    let id = session.new_numbers("replica", 1).await?;
    let sql = "INSERT INTO replicas \
               (id, collection, group_name, nodes, ro_nodes, query_visible, finished, waits_for_group_since) \
               VALUES ($1, $2, $3, $4, '[]', $5, FALSE, $6)";
    let nodes = node_names(&new.nodes)?;
    let values = [
        id.into(),
        int("the collection's id", new.collection.0)?.into(),
        new.group.as_str().into(),
        nodes.as_str().into(),
        new.query_visible.into(),
        new.waits_for_group_since.map(|since| int("the time", since)).transpose()?.into(),
    ];
    session.execute(sql, &values).await?;
    Ok(Replica {
        id: ReplicaId(Origin::new("counters", "replica").number("last", id)?),
        collection: new.collection,
        group: new.group.clone(),
        nodes: new.nodes.iter().cloned().collect(),
        ro_nodes: Default::default(),
        query_visible: new.query_visible,
        finished: false,
        waits_for_group_since: new.waits_for_group_since,
    })
}

pub(super) async fn target(session: &mut Session, target: &Target) -> Result<()> {
    let (collection, version) =
        (int("the collection's id", target.collection.0)?, int("the version", target.version.0)?);
    let content = stored::target(target)?;
    // Without a registration there is nothing to promote: the collection was released meanwhile.
    let sql = "INSERT INTO targets (collection, version, content) \
               SELECT collection, $2, $3 FROM loads WHERE collection = $1 \
               ON CONFLICT (collection) DO UPDATE SET version = excluded.version, content = excluded.content";
    session.execute(sql, &[collection.into(), version.into(), content.as_str().into()]).await.map(drop)
}

pub(super) async fn release(session: &mut Session, collection: CollectionId) -> Result<()> {
    let collection = int("the collection's id", collection.0)?;
    for sql in [
        "DELETE FROM targets WHERE collection = $1",
        "DELETE FROM replicas WHERE collection = $1",
        "DELETE FROM partition_loads WHERE collection = $1",
        "DELETE FROM loads WHERE collection = $1",
    ] {
        session.execute(sql, &[collection.into()]).await?;
    }
    Ok(())
}

/// What a change needs and is not there.
pub(super) async fn lacking(session: &mut Session, change: &LoadChange) -> Result<Option<Refusal>> {
    for record in &change.records {
        if !exists(session, int("the collection's id", record.collection.0)?).await? {
            return Ok(Some(not_found(record.collection)));
        }
    }
    let moved = change.replicas.iter().map(|replica| &replica.group);
    let named: BTreeSet<&GroupName> = change.created.iter().map(|new| &new.group).chain(moved).collect();
    for group in named {
        if groups::number_of(session, group).await?.is_none() {
            return Ok(Some(groups::not_found(group)));
        }
    }
    Ok(None)
}
