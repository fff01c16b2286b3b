//! Creating, describing and dropping collections.

use std::collections::BTreeSet;

use pointsman_ids::{CollectionName, Error, catalog::Column};
use pointsman_metastore::NewCollection;
use pointsman_proto::{column_from_proto, column_to_proto, coordinator::v1 as pb};
use pointsman_query_coord::CollectionStore;

use super::{differs::differences, find, invalid, options::options, roles};
use crate::tenure::Tenure;

/// Most columns of one collection.
const MAX_COLUMNS: usize = 4096;

/// A collection as message.
pub(super) fn message(store: &CollectionStore) -> pb::Collection {
    let contents = || store.segments.values().map(|segment| &segment.segment.content);
    let partitions: BTreeSet<&str> = contents().map(|content| content.partition.as_str()).collect();
    pb::Collection {
        id: store.collection.id.0,
        name: store.collection.name.to_string(),
        columns: store.collection.columns.iter().map(column_to_proto).collect(),
        options: Some((&store.collection.options).into()),
        created_at_ns: store.collection.created_at,
        partitions: partitions.into_iter().map(str::to_owned).collect(),
        segments: store.segments.len() as u64,
        rows: contents().map(|content| content.rows).sum(),
        bytes: contents().map(|content| content.bytes).sum(),
    }
}

fn columns(
    request: Vec<pointsman_proto::common::v1::Column>,
    name: &CollectionName,
) -> Result<Vec<Column>, Error> {
    if request.is_empty() {
        return Err(invalid(format!("collection '{name}' has no columns")));
    }
    if request.len() > MAX_COLUMNS {
        return Err(invalid(format!(
            "collection '{name}' has {} columns; at most {MAX_COLUMNS}",
            request.len()
        )));
    }
    let mut seen = BTreeSet::new();
    let mut columns = Vec::with_capacity(request.len());
    for column in request {
        let column = column_from_proto(column)?;
        if !seen.insert(column.name.to_lowercase()) {
            return Err(invalid(format!("column '{}' stands twice (without regard to case)", column.name)));
        }
        columns.push(column);
    }
    Ok(columns)
}

impl Tenure {
    pub(super) async fn create_collection(
        &self,
        request: pb::CreateCollectionRequest,
    ) -> Result<pb::CreateCollectionResponse, Error> {
        let name = CollectionName::try_from(request.name)?;
        let (columns, options) =
            (columns(request.columns, &name)?, options(request.options.unwrap_or_default())?);
        roles::check(&options, &columns)?;
        let pen = self.begin_write().await?;
        if let Some(store) = self.state().stores.collection(name.as_str()) {
            let differences = differences(&store.collection, &columns, &options);
            if differences.is_empty() {
                return Ok(pb::CreateCollectionResponse { collection: Some(message(store)), created: false });
            }
            return Err(invalid(format!(
                "collection '{name}' exists and is another one: {}; alter it, take another name, or drop it first",
                differences.join("; ")
            )));
        }
        let new = NewCollection { name: name.clone(), columns, options, created_at: self.wall() };
        let created = pen.metastore.create_collection(pen.epoch, new).await;
        let store = CollectionStore::new(created.map_err(|error| self.failed(error))?);
        tracing::info!(collection = %name, id = %store.collection.id, "a collection was created");
        let response = pb::CreateCollectionResponse { collection: Some(message(&store)), created: true };
        let mut state = self.state();
        state.stores.names.insert(name, store.collection.id);
        state.stores.collections.insert(store.collection.id, store);
        self.wake();
        Ok(response)
    }

    pub(super) async fn drop_collection(&self, name: &str) -> Result<pb::DropCollectionResponse, Error> {
        let pen = self.begin_write().await?;
        let id = {
            let state = self.state();
            let id = find(&state.stores, name)?.collection.id;
            if state.stores.loads.get(id).is_some() {
                return Err(invalid(format!("collection '{name}' is loaded; release it first")));
            }
            id
        };
        pen.metastore.drop_collection(pen.epoch, id).await.map_err(|error| self.failed(error))?;
        tracing::info!(collection = name, %id, "a collection was dropped");
        let mut state = self.state();
        if let Some(store) = state.stores.collections.remove(&id) {
            state.stores.names.remove(&store.collection.name);
            state.stores.dropped.extend(store.segments);
        }
        self.wake();
        Ok(pb::DropCollectionResponse {})
    }
}
