//! Registrations, replicas and current targets of loaded collections.

use async_trait::async_trait;
use pointsman_ids::{CollectionId, Epoch, GroupName, ReplicaId, SegmentId, TargetVersion};
use pointsman_query_coord::{LoadRecord, LoadStatus, Replica, Target};
use sqlx::FromRow;

use crate::{
    LoadStore, NewReplica, Result,
    catalog::{exists, not_found},
    groups,
    store::Store,
    stored::{Origin, int, json, node_names, refusal},
};

#[derive(FromRow)]
struct LoadRow {
    collection: i64,
    replicas: i64,
    status: String,
    percent: i64,
    created_at: i64,
    updated_at: i64,
}

impl LoadRow {
    fn record(&self) -> Result<LoadRecord> {
        let origin = Origin::new("loads", self.collection);
        Ok(LoadRecord {
            collection: CollectionId(origin.number("collection", self.collection)?),
            replicas: origin.number("replicas", self.replicas)?,
            status: origin.read("status", read_status(&self.status))?,
            percent: origin.number("percent", self.percent)?,
            created_at: origin.number("created_at", self.created_at)?,
            updated_at: origin.number("updated_at", self.updated_at)?,
        })
    }
}

fn status(status: LoadStatus) -> &'static str {
    match status {
        LoadStatus::Loading => "loading",
        LoadStatus::Loaded => "loaded",
    }
}

fn read_status(text: &str) -> Result<LoadStatus, String> {
    let known = [LoadStatus::Loading, LoadStatus::Loaded].into_iter().find(|known| status(*known) == text);
    known.ok_or_else(|| format!("there is no status '{text}'"))
}

#[derive(FromRow)]
struct ReplicaRow {
    id: i64,
    collection: i64,
    group_name: String,
    nodes: String,
    ro_nodes: String,
    query_visible: bool,
    finished: bool,
}

impl ReplicaRow {
    fn replica(&self) -> Result<Replica> {
        let origin = Origin::new("replicas", self.id);
        Ok(Replica {
            id: ReplicaId(origin.number("id", self.id)?),
            collection: CollectionId(origin.number("collection", self.collection)?),
            group: origin.read("group_name", GroupName::new(&self.group_name))?,
            nodes: origin.node_names("nodes", &self.nodes)?,
            ro_nodes: origin.node_names("ro_nodes", &self.ro_nodes)?,
            query_visible: self.query_visible,
            finished: self.finished,
        })
    }
}

#[derive(FromRow)]
struct TargetRow {
    collection: i64,
    version: i64,
    segments: String,
}

impl TargetRow {
    fn target(&self) -> Result<Target> {
        let origin = Origin::new("targets", self.collection);
        let segments: Vec<u64> = origin.json("segments", &self.segments)?;
        Ok(Target {
            collection: CollectionId(origin.number("collection", self.collection)?),
            version: TargetVersion(origin.number("version", self.version)?),
            segments: segments.into_iter().map(SegmentId).collect(),
        })
    }
}

#[async_trait]
impl LoadStore for Store {
    async fn loads(&self) -> Result<Vec<LoadRecord>> {
        let mut session = self.reading().await?;
        let sql = "SELECT collection, replicas, status, percent, created_at, updated_at FROM loads ORDER BY collection";
        let rows: Vec<LoadRow> = session.rows("loads", sql, &[]).await?;
        session.finish().await;
        rows.iter().map(LoadRow::record).collect()
    }

    async fn replicas(&self) -> Result<Vec<Replica>> {
        let mut session = self.reading().await?;
        let sql = "SELECT id, collection, group_name, nodes, ro_nodes, query_visible, finished FROM replicas ORDER BY id";
        let rows: Vec<ReplicaRow> = session.rows("replicas", sql, &[]).await?;
        session.finish().await;
        rows.iter().map(ReplicaRow::replica).collect()
    }

    async fn current_targets(&self) -> Result<Vec<Target>> {
        let mut session = self.reading().await?;
        let sql = "SELECT collection, version, segments FROM targets ORDER BY collection";
        let rows: Vec<TargetRow> = session.rows("targets", sql, &[]).await?;
        session.finish().await;
        rows.iter().map(TargetRow::target).collect()
    }

    async fn register_load(
        &self,
        epoch: Epoch,
        record: LoadRecord,
        replicas: Vec<NewReplica>,
    ) -> Result<Vec<Replica>> {
        let collection = int("the collection's id", record.collection.0)?;
        let (created_at, updated_at) =
            (int("the time", record.created_at)?, int("the time", record.updated_at)?);
        let mut session = self.writing(epoch).await?;
        if !exists(&mut session, collection).await? {
            return Err(session.refuse(not_found(record.collection)).await);
        }
        let sql = "INSERT INTO loads (collection, replicas, status, percent, created_at, updated_at) \
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (collection) DO NOTHING";
        let (declared, percent) = (i64::from(record.replicas), i64::from(record.percent));
        let values = [
            collection.into(),
            declared.into(),
            status(record.status).into(),
            percent.into(),
            created_at.into(),
            updated_at.into(),
        ];
        if session.execute(sql, &values).await? == 0 {
            let text = format!(
                "collection {} is registered for loading already; release it first",
                record.collection
            );
            return Err(session.refuse(refusal(text)).await);
        }
        let mut made = Vec::with_capacity(replicas.len());
        for new in replicas {
            if groups::number_of(&mut session, &new.group).await?.is_none() {
                return Err(session.refuse(groups::not_found(&new.group)).await);
            }
            let id = session.new_numbers("replica", 1).await?;
            let sql = "INSERT INTO replicas (id, collection, group_name, nodes, ro_nodes, query_visible, finished) \
                       VALUES ($1, $2, $3, $4, '[]', TRUE, FALSE)";
            let nodes = node_names(&new.nodes)?;
            session
                .execute(
                    sql,
                    &[id.into(), collection.into(), new.group.as_str().into(), nodes.as_str().into()],
                )
                .await?;
            made.push(Replica {
                id: ReplicaId(Origin::new("counters", "replica").number("last", id)?),
                collection: record.collection,
                group: new.group,
                nodes: new.nodes.into_iter().collect(),
                ro_nodes: Default::default(),
                query_visible: true,
                finished: false,
            });
        }
        session.commit().await?;
        Ok(made)
    }

    async fn update_load(&self, epoch: Epoch, record: &LoadRecord) -> Result<()> {
        let (collection, updated_at) =
            (int("the collection's id", record.collection.0)?, int("the time", record.updated_at)?);
        let mut session = self.writing(epoch).await?;
        let sql = "UPDATE loads SET status = $2, percent = $3, updated_at = $4 WHERE collection = $1";
        let percent = i64::from(record.percent);
        session
            .execute(
                sql,
                &[collection.into(), status(record.status).into(), percent.into(), updated_at.into()],
            )
            .await?;
        session.commit().await
    }

    async fn update_replicas(&self, epoch: Epoch, replicas: &[Replica]) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        let sql = "UPDATE replicas SET group_name = $2, nodes = $3, ro_nodes = $4, query_visible = $5, finished = $6 \
                   WHERE id = $1";
        for replica in replicas {
            let (nodes, ro_nodes) = (node_names(&replica.nodes)?, node_names(&replica.ro_nodes)?);
            let values = [
                int("the replica's id", replica.id.0)?.into(),
                replica.group.as_str().into(),
                nodes.as_str().into(),
                ro_nodes.as_str().into(),
                replica.query_visible.into(),
                replica.finished.into(),
            ];
            session.execute(sql, &values).await?;
        }
        session.commit().await
    }

    async fn promote(&self, epoch: Epoch, target: &Target) -> Result<()> {
        let (collection, version) =
            (int("the collection's id", target.collection.0)?, int("the version", target.version.0)?);
        let segments = json(&target.segments.iter().map(|segment| segment.0).collect::<Vec<_>>())?;
        let mut session = self.writing(epoch).await?;
        // Without a registration there is nothing to promote: the collection was released meanwhile.
        let sql = "INSERT INTO targets (collection, version, segments) \
                   SELECT collection, $2, $3 FROM loads WHERE collection = $1 \
                   ON CONFLICT (collection) DO UPDATE SET version = excluded.version, segments = excluded.segments";
        session.execute(sql, &[collection.into(), version.into(), segments.as_str().into()]).await?;
        session.commit().await
    }

    async fn release_load(&self, epoch: Epoch, collection: CollectionId) -> Result<()> {
        let collection = int("the collection's id", collection.0)?;
        let mut session = self.writing(epoch).await?;
        for sql in [
            "DELETE FROM targets WHERE collection = $1",
            "DELETE FROM replicas WHERE collection = $1",
            "DELETE FROM loads WHERE collection = $1",
        ] {
            session.execute(sql, &[collection.into()]).await?;
        }
        session.commit().await
    }
}
