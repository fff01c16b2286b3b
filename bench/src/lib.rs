//! What benchmarks and tests compare with: plain DataFusion in one process, over the same Parquet files.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let plain = pointsman_bench::Plain::open("pointsman-data/objects".as_ref(), 2).await?;
//! let rows = plain.query("SELECT count(*) FROM lineitem").await?;
//! # Ok(())
//! # }
//! ```

use std::{fs, path::Path};

use anyhow::Context;
use arrow::{
    array::RecordBatch,
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

/// An engine in this process whose tables are the folders of an object store.
#[derive(Clone)]
pub struct Plain {
    context: SessionContext,
}

impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

impl Plain {
    /// Takes every folder below `objects` as a table of that name, and runs queries on `cores` partitions.
    ///
    /// # Errors
    /// A folder cannot be read, or holds files that are no Parquet or differ in their columns.
    pub async fn open(objects: &Path, cores: usize) -> anyhow::Result<Self> {
        let config = SessionConfig::new().with_target_partitions(cores).with_information_schema(true);
        let context = SessionContext::new_with_config(config);
        for entry in fs::read_dir(objects).with_context(|| format!("cannot list {}", objects.display()))? {
            let path = entry?.path();
            let (Some(name), true) = (path.file_name().and_then(|name| name.to_str()), path.is_dir()) else {
                continue;
            };
            let folder = path.to_str().context("a path that is no text")?;
            context.register_parquet(name, folder, ParquetReadOptions::default()).await?;
        }
        Ok(Self { context })
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// The engine's own.
    pub async fn query(&self, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        Ok(self.context.sql(sql).await?.collect().await?)
    }

    /// Runs a statement and gives its values as text; a missing one is empty.
    ///
    /// # Errors
    /// The engine's own.
    pub async fn rows(&self, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
        let mut rows = Vec::new();
        for batch in self.query(sql).await? {
            let options = FormatOptions::default();
            let columns: Vec<ArrayFormatter<'_>> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<_, _>>()?;
            rows.extend(
                (0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()),
            );
        }
        Ok(rows)
    }
}
