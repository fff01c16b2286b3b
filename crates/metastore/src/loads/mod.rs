//! Registrations, replicas, current targets and failures of loads.

mod rows;
mod write;

use std::collections::BTreeMap;

use async_trait::async_trait;
use pointsman_ids::{Epoch, PartitionName};
use pointsman_query_coord::{CollectionFailures, LoadChange, LoadRecord, PartitionLoad, Replica, Target};

use self::rows::{DroppedGroupRow, FailedRow, LoadRow, PartitionRow, ReplicaRow, TargetRow};
use crate::{LoadStore, Result, store::Store, stored::int};

#[async_trait]
impl LoadStore for Store {
    async fn loads(&self) -> Result<Vec<LoadRecord>> {
        let mut session = self.reading().await?;
        let sql = "SELECT collection, replicas, status, percent, created_at, updated_at, kind, recoveries, replicas_chosen \
                   FROM loads ORDER BY collection";
        let rows: Vec<LoadRow> = session.rows("loads", sql, &[]).await?;
        let sql = "SELECT collection, name, status, percent, created_at, updated_at FROM partition_loads \
                   ORDER BY collection, name";
        let partition_rows: Vec<PartitionRow> = session.rows("partition_loads", sql, &[]).await?;
        session.finish().await;
        let mut partitions = BTreeMap::<i64, BTreeMap<PartitionName, PartitionLoad>>::new();
        for row in &partition_rows {
            let (name, load) = row.load()?;
            partitions.entry(row.collection).or_default().insert(name, load);
        }
        rows.iter().map(|row| row.record(partitions.remove(&row.collection).unwrap_or_default())).collect()
    }

    async fn replicas(&self) -> Result<Vec<Replica>> {
        let mut session = self.reading().await?;
        let sql = "SELECT id, collection, group_name, nodes, ro_nodes, query_visible, finished, waits_for_group_since \
                   FROM replicas ORDER BY id";
        let rows: Vec<ReplicaRow> = session.rows("replicas", sql, &[]).await?;
        session.finish().await;
        rows.iter().map(ReplicaRow::replica).collect()
    }

    async fn current_targets(&self) -> Result<Vec<Target>> {
        let mut session = self.reading().await?;
        let sql = "SELECT collection, version, content FROM targets ORDER BY collection";
        let rows: Vec<TargetRow> = session.rows("targets", sql, &[]).await?;
        session.finish().await;
        rows.iter().map(TargetRow::target).collect()
    }

    async fn failed_loads(&self) -> Result<Vec<CollectionFailures>> {
        let mut session = self.reading().await?;
        let sql =
            "SELECT collection, code, tries, message, last_at FROM failed_loads ORDER BY collection, code";
        let codes: Vec<FailedRow> = session.rows("failed_loads", sql, &[]).await?;
        let sql = "SELECT collection, group_name, message, last_at FROM dropped_groups \
                   ORDER BY collection, group_name";
        let groups: Vec<DroppedGroupRow> = session.rows("dropped_groups", sql, &[]).await?;
        session.finish().await;
        rows::failures(codes, groups)
    }

    async fn change_loads(&self, epoch: Epoch, change: &LoadChange) -> Result<Vec<Replica>> {
        let mut session = self.writing(epoch).await?;
        for collection in &change.released {
            write::release(&mut session, *collection).await?;
        }
        if let Some(refusal) = write::lacking(&mut session, change).await? {
            return Err(session.refuse(refusal).await);
        }
        for record in &change.records {
            write::record(&mut session, record).await?;
        }
        let mut created = Vec::with_capacity(change.created.len());
        for new in &change.created {
            created.push(write::create(&mut session, new).await?);
        }
        for replica in &change.replicas {
            write::replica(&mut session, replica).await?;
        }
        for (_, id) in &change.removed {
            let id = int("the replica's id", id.0)?;
            session.execute("DELETE FROM replicas WHERE id = $1", &[id.into()]).await?;
        }
        for target in &change.targets {
            write::target(&mut session, target).await?;
        }
        for failures in &change.failures {
            write::failures(&mut session, failures).await?;
        }
        session.commit().await?;
        Ok(created)
    }
}
