//! Dropped segments: their objects are deleted when no target holds them and no node should, then they are forgotten.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use pointsman_ids::{Error, SegmentId};

use crate::{backoff::Backoff, state::State, tenure::Tenure};

/// Segments that are cleared away in one round.
const BATCH: usize = 64;
/// Objects that are deleted at once.
const AT_ONCE: usize = 8;

/// A dropped segment with its object; `None` when a segment of the catalog has the same object, which stays.
type Garbage = (SegmentId, Option<String>);

impl Tenure {
    /// Clears away a few dropped segments, if there are any. What fails is tried again after a pause.
    pub(crate) async fn collect_garbage(&self, backoff: &mut Backoff) {
        let now = self.now();
        if self.state().unused_segments().is_empty() || !self.may_write() || !backoff.is_over(now) {
            return;
        }
        match self.clear_away().await {
            Ok(count) => tracing::info!(segments = count, "dropped segments were cleared away"),
            Err(error) => {
                let pause = backoff.fail(self.now());
                tracing::warn!(%error, ?pause, "dropped segments could not be cleared away; trying again");
            }
        }
    }

    /// Deletes under the pen, so that no push can name an object while it goes.
    async fn clear_away(&self) -> Result<usize, Error> {
        let pen = self.begin_write().await?;
        let garbage = self.state().garbage();
        let objects: Vec<String> = garbage.iter().filter_map(|(_, object)| object.clone()).collect();
        let deleted = stream::iter(objects).map(async |object| self.objects().delete(&object).await);
        let results: Vec<Result<(), Error>> = deleted.buffer_unordered(AT_ONCE).collect().await;
        results.into_iter().collect::<Result<Vec<()>, Error>>()?;
        let ids: Vec<SegmentId> = garbage.into_iter().map(|(id, _)| id).collect();
        pen.metastore.purge_segments(pen.epoch, &ids).await.map_err(|error| self.failed(error))?;
        let mut state = self.state();
        for id in &ids {
            state.stores.dropped.remove(id);
            state.stores.failures.remove(id);
        }
        Ok(ids.len())
    }
}

impl State {
    fn garbage(&self) -> Vec<Garbage> {
        let unused: Vec<SegmentId> = self.unused_segments().into_iter().take(BATCH).collect();
        let used = |id: &SegmentId| !unused.contains(id);
        let live = self.stores.collections.values().flat_map(|store| store.segments.values());
        let dropped = self.stores.dropped.iter().filter(|(id, _)| used(id)).map(|(_, segment)| segment);
        let kept: BTreeSet<&str> =
            live.chain(dropped).map(|segment| segment.segment.content.object.as_str()).collect();
        let object = |id: &SegmentId| {
            let object = &self.stores.dropped.get(id)?.segment.content.object;
            Some((*id, (!kept.contains(object.as_str())).then(|| object.clone())))
        };
        unused.iter().filter_map(object).collect()
    }
}
