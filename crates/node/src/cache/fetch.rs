//! One segment from the object store into its file.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use object_store::{GetResultPayload, ObjectStoreExt, path::Path};
use pointsman_ids::{Error, ErrorCode};
use tokio::{sync::mpsc, time::timeout};

use super::{
    Source,
    files::{self, Folder},
    segment::Wanted,
};

/// Chunks between network and disk: enough to keep both busy, and at most some MiB per fetch.
const CHUNKS: usize = 8;
/// A store that sends nothing for so long has hung up.
const STALL: Duration = Duration::from_secs(60);

/// Fetches a segment: written under a temporary name while length and checksum are computed, renamed when both are
/// right. Cancelled or failed, it leaves nothing behind.
///
/// # Errors
/// `segment_not_found` when there is no such object, `segment_request_resource_failed` when the disk is full, else
/// `segment_load_failed`. All name the segment.
pub(crate) async fn fetch(source: Source, folder: Folder, segment: Arc<Wanted>) -> Result<(), Error> {
    let refused = |error: object_store::Error| refused(&segment, &source, &error);
    let path = Path::parse(&segment.object).map_err(|error| refused(error.into()))?;
    let answer =
        timeout(STALL, source.store.get(&path)).await.map_err(|_| stalled(&segment))?.map_err(refused)?;
    if answer.meta.size != segment.bytes {
        return Err(files::wrong_length(&segment, "the object", answer.meta.size));
    }
    if let GetResultPayload::File(object, _) = answer.payload {
        return blocking(move || {
            let mut file = folder.begin(&segment)?;
            file.write_all_of(object)?;
            file.finish()
        })
        .await;
    }
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let stream =
        answer.into_stream().map(|chunk| chunk.map_err(|error| self::refused(&segment, &source, &error)));
    let writer = {
        let segment = Arc::clone(&segment);
        blocking(move || files::write_chunks(&folder, &segment, chunks))
    };
    let (sent, written) = tokio::join!(send(stream, sender, &segment), writer);
    // A writer that failed stops the sender; a sender that failed makes the writer see too few bytes.
    sent.and(written)
}

async fn send(
    stream: impl Stream<Item = Result<Bytes, Error>>,
    chunks: mpsc::Sender<Bytes>,
    segment: &Wanted,
) -> Result<(), Error> {
    futures::pin_mut!(stream);
    while let Some(chunk) = timeout(STALL, stream.next()).await.map_err(|_| stalled(segment))? {
        if chunks.send(chunk?).await.is_err() {
            return Ok(()); // The writer has failed and says why.
        }
    }
    Ok(())
}

/// Runs what blocks where that is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| {
        Err(Error::new(ErrorCode::ServiceInternal, format!("a file task ended: {error}")))
    })
}

fn refused(segment: &Wanted, source: &Source, error: &object_store::Error) -> Error {
    if let object_store::Error::NotFound { .. } = error {
        let text = format!(
            "{segment}: there is no object '{}' in {}; push the segment anew",
            segment.object, source.root
        );
        return Error::new(ErrorCode::SegmentNotFound, text);
    }
    let why = pointsman_telemetry::chain(error);
    let text =
        format!("{segment}: the object '{}' cannot be read from {}: {why}", segment.object, source.root);
    Error::new(ErrorCode::SegmentLoadFailed, text)
}

fn stalled(segment: &Wanted) -> Error {
    let text =
        format!("{segment}: the object store sent nothing of '{}' for {} s", segment.object, STALL.as_secs());
    Error::new(ErrorCode::SegmentLoadFailed, text)
}
