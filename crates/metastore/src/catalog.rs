//! Collections, and the catalog's trait; segments are next door.

use async_trait::async_trait;
use pointsman_ids::{
    CollectionId, CollectionName, Epoch, Error as Refusal, ErrorCode, SegmentId,
    catalog::{Collection, CollectionOptions, NewSegment, Segment},
};
use sqlx::FromRow;

use crate::{
    CatalogStore, NewCollection, PushOutcome, Result, segments,
    session::Session,
    store::Store,
    stored::{self, Origin, int, refusal},
};

const TABLE: &str = "collections";

#[derive(FromRow)]
struct CollectionRow {
    id: i64,
    name: String,
    columns: String,
    options: String,
    created_at: i64,
}

impl CollectionRow {
    fn collection(&self) -> Result<Collection> {
        let origin = Origin::new(TABLE, self.id);
        Ok(Collection {
            id: CollectionId(origin.number("id", self.id)?),
            name: origin.read("name", CollectionName::new(&self.name))?,
            columns: stored::read_columns(&origin, &self.columns)?,
            options: stored::read_options(&origin, &self.options)?,
            created_at: origin.number("created_at", self.created_at)?,
        })
    }
}

#[async_trait]
impl CatalogStore for Store {
    async fn collections(&self) -> Result<Vec<Collection>> {
        let mut session = self.reading().await?;
        let sql = "SELECT id, name, columns, options, created_at FROM collections ORDER BY name";
        let rows: Vec<CollectionRow> = session.rows(TABLE, sql, &[]).await?;
        session.finish().await;
        rows.iter().map(CollectionRow::collection).collect()
    }

    async fn segments(&self, collection: CollectionId) -> Result<Vec<Segment>> {
        segments::live(self, collection).await
    }

    async fn dropped_segments(&self) -> Result<Vec<Segment>> {
        segments::dropped(self).await
    }

    async fn create_collection(&self, epoch: Epoch, new: NewCollection) -> Result<Collection> {
        if new.columns.is_empty() {
            return Err(refusal(format!("collection '{}' has no column", new.name)));
        }
        let created_at = int("the time", new.created_at)?;
        let (columns, options) = (stored::columns(&new.columns)?, stored::options(&new.options)?);
        let mut session = self.writing(epoch).await?;
        let sql = "SELECT id FROM collections WHERE name = $1";
        if session.row::<(i64,)>(TABLE, sql, &[new.name.as_str().into()]).await?.is_some() {
            let text = format!("there is a collection '{}' already", new.name);
            return Err(session.refuse(refusal(text)).await);
        }
        let id = session.new_numbers("collection", 1).await?;
        let sql =
            "INSERT INTO collections (id, name, columns, options, created_at) VALUES ($1, $2, $3, $4, $5)";
        let name = new.name.as_str().into();
        session
            .execute(
                sql,
                &[id.into(), name, columns.as_str().into(), options.as_str().into(), created_at.into()],
            )
            .await?;
        let id = CollectionId(Origin::new("counters", "collection").number("last", id)?);
        session.commit().await?;
        Ok(Collection {
            id,
            name: new.name,
            columns: new.columns,
            options: new.options,
            created_at: new.created_at,
        })
    }

    async fn set_options(
        &self,
        epoch: Epoch,
        collection: CollectionId,
        options: &CollectionOptions,
    ) -> Result<()> {
        let (id, options) = (int("the collection's id", collection.0)?, stored::options(options)?);
        let mut session = self.writing(epoch).await?;
        let sql = "UPDATE collections SET options = $2 WHERE id = $1";
        if session.execute(sql, &[id.into(), options.as_str().into()]).await? == 0 {
            return Err(session.refuse(not_found(collection)).await);
        }
        session.commit().await
    }

    async fn drop_collection(&self, epoch: Epoch, collection: CollectionId) -> Result<()> {
        let collection = int("the collection's id", collection.0)?;
        let mut session = self.writing(epoch).await?;
        session.execute("DELETE FROM collections WHERE id = $1", &[collection.into()]).await?;
        let sql = "UPDATE segments SET dropped = TRUE, dropped_at = (SELECT last + 1 FROM counters WHERE kind = 'revision') \
                   WHERE collection = $1 AND NOT dropped";
        session.execute(sql, &[collection.into()]).await?;
        session.commit().await
    }

    async fn push_segments(
        &self,
        epoch: Epoch,
        collection: CollectionId,
        segments: Vec<NewSegment>,
        created_at: u64,
    ) -> Result<PushOutcome> {
        segments::push::push(self, epoch, collection, segments, created_at).await
    }

    async fn replace_segments(
        &self,
        epoch: Epoch,
        collection: CollectionId,
        old: &[SegmentId],
        new: Vec<NewSegment>,
        created_at: u64,
    ) -> Result<Vec<Segment>> {
        segments::push::replace(self, epoch, collection, old, new, created_at).await
    }

    async fn drop_segments(&self, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
        segments::drop_some(self, epoch, segments).await
    }

    async fn purge_segments(&self, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
        segments::purge(self, epoch, segments).await
    }
}

/// Whether the catalog has a collection.
pub(crate) async fn exists(session: &mut Session, collection: i64) -> Result<bool> {
    let sql = "SELECT id FROM collections WHERE id = $1";
    Ok(session.row::<(i64,)>(TABLE, sql, &[collection.into()]).await?.is_some())
}

pub(crate) fn not_found(collection: CollectionId) -> Refusal {
    Refusal::new(ErrorCode::CollectionNotFound, format!("there is no collection with id {collection}"))
}
