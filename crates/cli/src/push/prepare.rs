//! From an input to a Parquet file on this machine, with everything that the catalog wants to know of it.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Context;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use pointsman_engine::ingest::{self, Inspection};
use pointsman_ids::{
    PartitionName, SegmentName, ShardName,
    catalog::{Checksum, Column, ColumnStatistics, NewSegment},
};
use pointsman_proto::coordinator::v1::Segment;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use url::Url;

use super::{
    input::{Input, Kind, Source},
    upload::Content,
};

/// A folder for files that were fetched or converted. Deleted when it is dropped.
#[derive(Debug)]
pub(super) struct Workspace(TempDir);

impl Workspace {
    /// A new folder.
    pub(super) fn new() -> anyhow::Result<Self> {
        TempDir::with_prefix("pointsman-push-").map(Self).context("making a folder for temporary files")
    }

    fn file(&self, name: &SegmentName, extension: &str) -> PathBuf {
        self.0.path().join(format!("{name}.{extension}"))
    }
}

/// A Parquet file that is ready to be uploaded.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The input as the person knows it.
    pub(super) label: String,
    /// Name of the segment.
    pub(super) name: SegmentName,
    /// The Parquet file.
    path: PathBuf,
    /// Its length.
    bytes: u64,
    /// Its columns.
    pub(super) columns: Vec<Column>,
    rows: u64,
    statistics: BTreeMap<String, ColumnStatistics>,
    checksum: Checksum,
}

impl Prepared {
    /// Path of the object. The checksum is in it, so that another content is another object.
    pub(super) fn object(&self, collection: &str) -> String {
        let [a, b, c, d, ..] = self.checksum.0;
        format!("{collection}/{}.{a:02x}{b:02x}{c:02x}{d:02x}.parquet", self.name)
    }

    /// What is uploaded.
    pub(super) fn content(&self) -> Content<'_> {
        Content { file: &self.path, bytes: self.bytes, checksum: self.checksum }
    }

    /// What the catalog is told. Without a shard, the hash of the segment's name decides.
    pub(super) fn segment(
        &self,
        collection: &str,
        partition: &PartitionName,
        shard: Option<&ShardName>,
    ) -> Segment {
        let segment = NewSegment {
            name: self.name.clone(),
            partition: partition.clone(),
            shard: shard.cloned(),
            object: self.object(collection),
            rows: self.rows,
            bytes: self.bytes,
            checksum: self.checksum,
            statistics: self.statistics.clone(),
        };
        Segment::from(&segment)
    }
}

/// Fetches, converts and inspects one input. `wanted` are the columns that a CSV file is read as, without them they are
/// inferred; and those that lists in a Parquet file become vectors by.
pub(super) async fn prepare(
    input: Input,
    wanted: Option<&[Column]>,
    workspace: &Workspace,
) -> anyhow::Result<Prepared> {
    let label = input.label();
    let fetched = matches!(input.source, Source::Url(_));
    let source = match &input.source {
        Source::File(path) => path.clone(),
        Source::Url(url) => {
            let extension = if input.kind == Kind::Csv { "csv" } else { "parquet" };
            // Not the name of a converted file.
            let path = workspace.file(&input.name, &format!("fetched.{extension}"));
            fetch(url, &path).await.with_context(|| format!("fetching {label}"))?;
            path
        }
    };
    let converted = workspace.file(&input.name, "parquet");
    let wanted = wanted.map(<[Column]>::to_vec);
    let work = move || {
        let (path, inspection) = match input.kind {
            Kind::Parquet => {
                let wanted = wanted.as_deref().unwrap_or_default();
                match ingest::vectors_from_lists(&source, wanted, &converted)? {
                    Some(inspection) => (converted, inspection),
                    None => (source.clone(), ingest::inspect_parquet(&source)?),
                }
            }
            Kind::Csv => {
                let inspection = ingest::csv_to_parquet(&source, &converted, wanted.as_deref())?;
                (converted, inspection)
            }
        };
        let (checksum, bytes) = checksum(&path)?;
        let Inspection { columns, rows, statistics } = inspection;
        anyhow::Ok((path, checksum, bytes, columns, rows, statistics))
    };
    let worked = tokio::task::spawn_blocking(work).await.context("reading was broken off")?;
    // Errors name the file; where that is a fetched one, nobody knows it.
    let worked = if fetched { worked.with_context(|| format!("reading {label}")) } else { worked };
    let (path, checksum, bytes, columns, rows, statistics) = worked?;
    Ok(Prepared { label, name: input.name, path, bytes, columns, rows, statistics, checksum })
}

/// Checksum and length of a file.
fn checksum(path: &Path) -> anyhow::Result<(Checksum, u64)> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok((Checksum(*hasher.finalize().as_bytes()), hasher.count()))
}

/// Fetches a file from the web or from an object store.
async fn fetch(url: &Url, to: &Path) -> anyhow::Result<()> {
    let mut file = tokio::fs::File::create(to).await?;
    if matches!(url.scheme(), "http" | "https") {
        let mut response = reqwest::get(url.clone()).await?.error_for_status()?;
        while let Some(bytes) = response.chunk().await? {
            file.write_all(&bytes).await?;
        }
    } else {
        let (store, path) =
            object_store::parse_url_opts(url, pointsman_settings::object_store_environment())?;
        let mut content = store.get(&path).await?.into_stream();
        while let Some(bytes) = content.try_next().await? {
            file.write_all(&bytes).await?;
        }
    }
    file.flush().await?;
    Ok(())
}
