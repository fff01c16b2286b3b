//! Pushing segments: files are prepared and checked, then uploaded, then entered into the catalog, each step for all
//! of them before the next.

mod input;
mod prepare;
mod replace;
mod upload;

use std::collections::BTreeSet;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use object_store::ObjectStore;
use pointsman_engine::ingest;
use pointsman_ids::{
    CollectionName, Error, ErrorClass, ErrorCode, PartitionName, ShardName, catalog::Column,
};
use pointsman_proto::{
    column_from_proto, column_to_proto,
    coordinator::v1::{CreateCollectionRequest, PushSegmentsRequest, PushSegmentsResponse, Segment},
};
use prost::Message;

pub(crate) use input::{Input, expand};
use prepare::{Prepared, Workspace};
pub(crate) use replace::{Replaced, Replacement, replace};
use upload::Uploaded;

use crate::client::{Coordinator, answer};

/// Files that are worked on at once.
const CONCURRENCY: usize = 4;
/// Segments of one call, which is whole or nothing.
const MAX_SEGMENTS: usize = 10_000;
/// Bytes of one call; below the usual limit of a gRPC message.
const MAX_BYTES: usize = 3 << 20;

/// What is pushed where.
#[derive(Debug)]
pub(crate) struct Push {
    /// Name of the collection; created when it does not exist.
    pub(crate) collection: String,
    /// Name of the partition; `None`: the default one.
    pub(crate) partition: Option<String>,
    /// Name of the shard; `None`: by hash of each segment's name.
    pub(crate) shard: Option<String>,
    /// Files, never empty.
    pub(crate) inputs: Vec<Input>,
}

/// What a push has changed.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    /// Whether the collection is new.
    pub(crate) created: bool,
    /// Segments that are new.
    pub(crate) added: u64,
    /// Segments that were there.
    pub(crate) unchanged: u64,
    /// Segments whose object was damaged or gone, and is whole again.
    pub(crate) repaired: u64,
    /// Rows of new segments; all rows of a call that added at least one.
    pub(crate) rows_added: u64,
}

impl Pushed {
    /// The error of a push that failed, with what it leaves behind.
    fn told(&self, error: Error, collection: &str) -> Error {
        if !self.created || self.added > 0 {
            return error;
        }
        error.context(format_args!(
            "collection '{collection}' was created and stays (`pointsman collection drop {collection}` takes it back)"
        ))
    }
}

/// Pushes all inputs.
///
/// # Errors
/// Names the file and what is wrong with it before anything is uploaded. When the catalog refuses, objects that this
/// call has uploaded are deleted. When the answer is lost they stay, since the push may stand; repeating it is safe.
pub(crate) async fn run(coordinator: &Coordinator, push: Push) -> anyhow::Result<Pushed> {
    let Push { collection, partition, shard, inputs } = push;
    let collection = CollectionName::new(&collection)?.to_string();
    let partition = PartitionName::new(partition.as_deref().unwrap_or(PartitionName::DEFAULT))?;
    let shard = shard.as_deref().map(ShardName::new).transpose()?;
    let store =
        pointsman_objects::open(&coordinator.about.objects, pointsman_settings::object_store_environment())?;
    let known = coordinator.collection_if_any(&collection).await?;
    let known: Option<Vec<Column>> = match &known {
        Some(known) => Some(known.columns.iter().cloned().map(column_from_proto).collect::<Result<_, _>>()?),
        None => None,
    };
    let bar = bar(inputs.len() as u64 * 2);
    let prepared = prepare_all(inputs, known.as_deref(), &bar).await?;
    let Uploads { new, repaired } = upload_all(store.as_ref(), &collection, &prepared.files, &bar).await?;
    bar.finish_and_clear();
    let mut pushed = Pushed { repaired, ..Pushed::default() };
    if known.is_none() {
        // Not before its files are there, so that a push which fails at them leaves no empty collection behind.
        match create(coordinator, &collection, &prepared.columns).await {
            Ok(created) => pushed.created = created,
            Err(error) => {
                if is_refusal(&error) {
                    upload::delete(store.as_ref(), new.iter()).await;
                }
                return Err(error.into());
            }
        }
    }

    let segments =
        prepared.files.iter().map(|file| file.segment(&collection, &partition, shard.as_ref())).collect();
    for chunk in chunks(segments) {
        let rows: u64 = chunk.iter().map(|segment| segment.rows).sum();
        let objects: Vec<String> = chunk.iter().map(|segment| segment.object.clone()).collect();
        match enter(coordinator, &collection, chunk).await {
            Ok(PushSegmentsResponse { added, unchanged }) => {
                // An object that had to be written for a segment that was there had gone.
                let written = objects.iter().filter(|object| new.contains(*object)).count() as u64;
                pushed.repaired += written.saturating_sub(added);
                pushed.added += added;
                pushed.unchanged += unchanged;
                pushed.rows_added += if added > 0 { rows } else { 0 };
            }
            Err(error) => {
                if is_refusal(&error) {
                    upload::delete(store.as_ref(), objects.iter().filter(|object| new.contains(*object)))
                        .await;
                }
                let error = coordinator.explain(error, &collection).await;
                return Err(pushed.told(error, &collection).into());
            }
        }
    }
    Ok(pushed)
}

/// Whether the catalog has surely not changed.
fn is_refusal(error: &Error) -> bool {
    error.code().class() == ErrorClass::Input || error.code() == ErrorCode::CollectionNotFound
}

/// Files that are ready to be uploaded, and their columns.
struct AllPrepared {
    files: Vec<Prepared>,
    columns: Vec<Column>,
    /// Deleted when this is dropped.
    _workspace: Workspace,
}

/// Prepares every file and checks it against the collection; without one, against the first file.
async fn prepare_all(
    inputs: Vec<Input>,
    known: Option<&[Column]>,
    bar: &ProgressBar,
) -> anyhow::Result<AllPrepared> {
    let workspace = Workspace::new()?;
    let mut inputs = inputs.into_iter();
    let mut files = Vec::with_capacity(inputs.len());
    let columns = match known {
        Some(known) => known.to_vec(),
        None => {
            let first = inputs.next().context("there is nothing to push")?;
            let first = prepare::prepare(first, None, &workspace).await?;
            bar.inc(1);
            let columns = first.columns.clone();
            files.push(first);
            columns
        }
    };
    let rest = stream::iter(inputs).map(|input| prepare::prepare(input, Some(&columns), &workspace));
    let mut rest = rest.buffered(CONCURRENCY);
    while let Some(file) = rest.try_next().await? {
        ingest::check_columns(&columns, &file.columns).map_err(|error| error.context(&file.label))?;
        bar.inc(1);
        files.push(file);
    }
    drop(rest);
    Ok(AllPrepared { files, columns, _workspace: workspace })
}

async fn create(coordinator: &Coordinator, collection: &str, columns: &[Column]) -> Result<bool, Error> {
    let request = CreateCollectionRequest {
        name: collection.to_owned(),
        columns: columns.iter().map(column_to_proto).collect(),
        options: None,
    };
    let call = async |active: &Coordinator| answer(active.catalog().create_collection(request.clone()).await);
    Ok(coordinator.persist(call).await?.created)
}

/// What uploading has changed in the object store.
#[derive(Debug, Default)]
struct Uploads {
    /// Objects that were not there before.
    new: BTreeSet<String>,
    /// How many were there, but damaged.
    repaired: u64,
}

/// Uploads every file. On failure it takes new objects back.
async fn upload_all(
    store: &dyn ObjectStore,
    collection: &str,
    files: &[Prepared],
    bar: &ProgressBar,
) -> anyhow::Result<Uploads> {
    let each = stream::iter(files).map(|file| async move {
        let object = file.object(collection);
        let uploaded = upload::upload(store, &object, file.content()).await;
        let uploaded = uploaded.with_context(|| format!("uploading {} as {object}", file.label))?;
        Ok::<_, anyhow::Error>((object, uploaded))
    });
    let mut each = each.buffer_unordered(CONCURRENCY);
    let mut uploads = Uploads::default();
    let mut failure = None;
    while let Some(result) = each.next().await {
        bar.inc(1);
        match result {
            Ok((object, Uploaded::New)) => {
                uploads.new.insert(object);
            }
            Ok((_, Uploaded::Repaired)) => uploads.repaired += 1,
            Ok((_, Uploaded::Unchanged)) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(uploads),
        Some(error) => {
            upload::delete(store, uploads.new.iter()).await;
            Err(error)
        }
    }
}

async fn enter(
    coordinator: &Coordinator,
    collection: &str,
    segments: Vec<Segment>,
) -> Result<PushSegmentsResponse, Error> {
    let request = PushSegmentsRequest { collection: collection.to_owned(), segments };
    coordinator.persist(async |active| answer(active.catalog().push_segments(request.clone()).await)).await
}

/// As few calls as the limits allow.
fn chunks(segments: Vec<Segment>) -> Vec<Vec<Segment>> {
    let mut chunks: Vec<Vec<Segment>> = Vec::new();
    let mut bytes = 0;
    for segment in segments {
        let size = segment.encoded_len();
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < MAX_SEGMENTS && bytes + size <= MAX_BYTES => {
                bytes += size;
                chunk.push(segment);
            }
            _ => {
                bytes = size;
                chunks.push(vec![segment]);
            }
        }
    }
    chunks
}

/// Each file counts twice: prepared, and uploaded. Nothing is drawn for a file or two, or off a terminal.
fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("pushing {bar:30.green} {percent} %, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_stay_below_both_limits() {
        let small = |index: usize| Segment { name: format!("s{index}"), ..Segment::default() };
        let sizes = |chunks: Vec<Vec<Segment>>| chunks.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(chunks((0..10_001).map(small).collect())), [10_000, 1]);
        let large = |_| Segment { name: "x".repeat(1 << 20), ..Segment::default() };
        assert_eq!(sizes(chunks((0..5).map(large).collect())), [2, 2, 1]);
        assert_eq!(sizes(chunks(vec![])), [] as [usize; 0]);
    }

    #[test]
    fn an_error_tells_of_a_collection_that_the_push_leaves_empty() {
        let told = |created, added| {
            let pushed = Pushed { created, added, ..Pushed::default() };
            pushed.told(Error::new(ErrorCode::ParameterInvalid, "refused"), "t").to_string()
        };
        assert!(
            told(true, 0).contains("`pointsman collection drop t`") && told(true, 0).ends_with(": refused")
        );
        assert_eq!((told(true, 1), told(false, 0)), ("refused".into(), "refused".into()));
    }

    #[test]
    fn only_a_refusal_takes_objects_back() {
        assert!(is_refusal(&Error::new(ErrorCode::ParameterInvalid, "another checksum")));
        assert!(!is_refusal(&Error::new(ErrorCode::NodeNotAvailable, "broken pipe")));
        assert!(!is_refusal(&Error::new(ErrorCode::DeadlineExceeded, "late")));
    }
}
