//! The node's segments as an object store that reads nothing else.

use std::{
    any::Any,
    fmt,
    fs::File,
    io::{Read, Seek, SeekFrom},
    ops::Range,
    path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{common::exec_datafusion_err, execution::object_store::ObjectStoreRegistry};
use futures::stream::{self, BoxStream, StreamExt};
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use pointsman_ids::SegmentId;
use url::Url;

use crate::{
    failure::{LIST_END, NOT_LOADED},
    location::{SegmentPath, is_segments},
};

/// What a node holds.
pub trait SegmentStore: Send + Sync + fmt::Debug {
    /// The segment's local file; `None` when the node does not hold it. Called on the way of queries: never waits for
    /// the network.
    fn open(&self, segment: SegmentId) -> Option<SegmentFile>;

    /// One of some files, this segment's among them, could not be read or decoded: the store should check it. Called
    /// on the way of queries, possibly often for one segment: never blocks. Does nothing unless implemented.
    fn suspect(&self, _segment: SegmentId) {}
}

/// A segment's local file.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Kept for as long as a query may read the file, so that it is not evicted under it; `None`: needs no guard.
    pub hold: Option<Arc<dyn Any + Send + Sync>>,
}

/// The error for segments that the node does not hold.
pub(crate) fn not_loaded<'a>(segments: impl IntoIterator<Item = &'a SegmentPath>) -> String {
    let names = segments.into_iter().map(SegmentPath::to_string).collect::<Vec<_>>().join(",");
    format!("{NOT_LOADED}{names}{LIST_END}")
}

/// The store behind `seg://local`. Reads ranges of local files; everything else is refused.
#[derive(Debug)]
pub(crate) struct Segments {
    store: Arc<dyn SegmentStore>,
}

impl Segments {
    pub(crate) fn new(store: Arc<dyn SegmentStore>) -> Self {
        Self { store }
    }

    fn open(&self, location: &Path) -> Result<SegmentFile> {
        let path = SegmentPath::read(location.as_ref());
        let path = path.ok_or_else(|| generic(format!("'{location}' is not the path of a segment")))?;
        self.store.open(path.id).ok_or_else(|| generic(not_loaded([&path])))
    }
}

impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("segments")
    }
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "segments", source: source.into() }
}

fn read_only<T>() -> Result<T> {
    Err(Error::NotSupported { source: "segments are read by name and range only".into() })
}

/// Reads one range of an open file.
fn read(file: &mut File, range: &Range<u64>) -> std::io::Result<Bytes> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(std::io::Error::other)?;
    let mut bytes = Vec::with_capacity(length);
    file.seek(SeekFrom::Start(range.start))?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() != length {
        let have = bytes.len();
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            format!("the file ends {} bytes early", length - have),
        ));
    }
    Ok(bytes.into())
}

#[async_trait]
impl ObjectStore for Segments {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let segment = self.open(location)?;
        let range = match &options.range {
            Some(range) => range.as_range(segment.bytes).map_err(generic)?,
            None => 0..segment.bytes,
        };
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: segment.bytes,
            e_tag: None,
            version: None,
        };
        let path = segment.path;
        let opened = tokio::task::spawn_blocking({
            let path = path.clone();
            move || File::open(path)
        });
        let file = opened.await?.map_err(|error| generic(format!("{}: {error}", path.display())))?;
        Ok(GetResult {
            payload: GetResultPayload::File(file, path),
            meta,
            range,
            attributes: Attributes::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let segment = self.open(location)?;
        let ranges = ranges.to_vec();
        tokio::task::spawn_blocking(move || {
            let failed = |error| generic(format!("{}: {error}", segment.path.display()));
            let mut file = File::open(&segment.path).map_err(failed)?;
            ranges.iter().map(|range| read(&mut file, range).map_err(failed)).collect()
        })
        .await?
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([read_only()]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([read_only()]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        read_only()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}

/// A registry that knows the segments' store and takes no other.
#[derive(Debug)]
pub(crate) struct OnlySegments(pub(crate) Arc<Segments>);

impl ObjectStoreRegistry for OnlySegments {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        if is_segments(url) { Ok(Arc::clone(&self.0) as _) } else { Err(nothing(url)) }
    }
}

/// A registry without any store: the broker's.
#[derive(Debug)]
pub(crate) struct NoStores;

impl ObjectStoreRegistry for NoStores {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        Err(nothing(url))
    }
}

fn nothing(url: &Url) -> datafusion::error::DataFusionError {
    exec_datafusion_err!("nothing is read from {url} here")
}
