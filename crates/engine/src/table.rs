//! Collections as DataFusion's tables. A scan prunes, asks the router, and becomes a stock Parquet scan over `seg://`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session, TableProvider},
    common::{DFSchema, DataFusionError, project_schema},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource},
        source::DataSourceExec,
    },
    error::Result,
    logical_expr::{Expr, TableProviderFilterPushDown, TableType, utils::conjunction},
    physical_optimizer::pruning::PruningPredicateBuilder,
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};
use object_store::ObjectMeta;
use pointsman_ids::feed::CollectionEntry;

use crate::{
    catalog::{Catalog, CollectionTable},
    failure::carry,
    location::{SegmentPath, store_url},
    scans::Scans,
};

/// Name of the only catalog.
pub(crate) const CATALOG: &str = "pointsman";
/// Name of the schema with all collections.
pub(crate) const SCHEMA: &str = "public";

/// Fewest partitions of a scan: with one, the scan would end up in the broker's own stage.
const MIN_PARTITIONS: usize = 2;

/// The catalog of one query: collections of one snapshot, whose scans report to one [`Scans`].
#[derive(Clone, Debug)]
pub(crate) struct QueryCatalog {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) scans: Arc<Scans>,
}

impl CatalogProviderList for QueryCatalog {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as _)
    }
}

impl CatalogProvider for QueryCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::new(self.clone()) as _)
    }
}

#[async_trait]
impl SchemaProvider for QueryCatalog {
    fn table_names(&self) -> Vec<String> {
        self.catalog.names().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let Some(table) = self.catalog.table(name) else { return Ok(None) };
        let schema = table.schema().map_err(carry)?;
        Ok(Some(Arc::new(QueryTable { table: Arc::clone(table), schema, scans: Arc::clone(&self.scans) })))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.table(name).is_some()
    }
}

/// A collection inside one query.
#[derive(Debug)]
struct QueryTable {
    table: Arc<CollectionTable>,
    schema: SchemaRef,
    scans: Arc<Scans>,
}

#[async_trait]
impl TableProvider for QueryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters prune segments here and row groups on the nodes; the engine still applies them to every row.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let asked = self.prune(session, filters);
        let segments = self.scans.route(&self.table, &asked).map_err(carry)?;
        if segments.is_empty() {
            return Ok(Arc::new(EmptyExec::new(project_schema(&self.schema, projection)?)));
        }
        let source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(session.default_table_options().parquet);
        let statistics = self.table.statistics(&self.schema, &segments);
        let config = FileScanConfigBuilder::new(store_url().map_err(carry)?, Arc::new(source))
            .with_file_groups(self.groups(&segments, session.config().target_partitions()))
            .with_statistics(Arc::unwrap_or_clone(statistics))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

impl QueryTable {
    fn prune(&self, session: &dyn Session, filters: &[Expr]) -> Vec<u32> {
        let all = || (0..u32::try_from(self.table.entry().segments.len()).unwrap_or(u32::MAX)).collect();
        let Some(filter) = conjunction(filters.iter().cloned()) else { return all() };
        let predicate = DFSchema::try_from(Arc::clone(&self.schema))
            .and_then(|schema| session.create_physical_expr(filter, &schema))
            .and_then(|filter| {
                PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema)).try_build(filter)
            });
        match predicate {
            Ok(predicate) => self.table.prune(&predicate),
            Err(error) => {
                tracing::debug!(collection = %self.table.entry().name, %error, "a filter cannot prune segments");
                all()
            }
        }
    }

    /// Spreads the segments over partitions. The split is for planning only: each node gets its own.
    fn groups(&self, segments: &[u32], target: usize) -> Vec<FileGroup> {
        let entry = self.table.entry();
        let mut groups = vec![vec![]; segments.len().min(target).max(MIN_PARTITIONS)];
        let width = groups.len();
        for (at, file) in segments.iter().filter_map(|position| file(entry, *position)).enumerate() {
            groups[at % width].push(file);
        }
        groups.into_iter().map(FileGroup::new).collect()
    }
}

/// The segment at a position as a file of the private store. Everything in it is immutable, so nodes may cache by it.
fn file(entry: &CollectionEntry, position: u32) -> Option<PartitionedFile> {
    let segment = entry.segments.get(position as usize)?;
    let path = SegmentPath::of(entry, position)?;
    let created = i64::try_from(segment.created_at).unwrap_or(i64::MAX);
    Some(PartitionedFile::from(ObjectMeta {
        location: path.object(),
        last_modified: chrono::DateTime::from_timestamp_nanos(created),
        size: segment.bytes,
        e_tag: None,
        version: None,
    }))
}
