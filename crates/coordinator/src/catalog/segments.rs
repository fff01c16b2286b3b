//! Pushing, listing and dropping segments.

use std::{collections::BTreeSet, ops::Bound};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use pointsman_ids::{
    CollectionId, Error, ErrorCode, SegmentId, SegmentName, ShardName,
    catalog::{NewSegment, shard_name},
};
use pointsman_proto::{coordinator::v1 as pb, segment_to_proto};
use pointsman_query_coord::CollectionStore;

use super::{find, invalid};
use crate::tenure::Tenure;

/// Most segments of one push.
pub(super) const MAX_PUSH: usize = 100_000;
/// Segments on a page, at most.
const MAX_PAGE: u32 = 1000;
/// Objects that are looked at together.
const CHECKS_AT_ONCE: usize = 32;

/// The shard of a segment that names none: FNV-1a (64 bit) of its name, modulo the number of shards. The rule is for
/// ever, so that pushers may compute it too.
pub(crate) fn shard_of(name: &SegmentName, shards: u32) -> ShardName {
    let hash = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    shard_name(u32::try_from(hash % u64::from(shards.max(1))).unwrap_or(0))
}

/// A page of a collection's segments, by name.
pub(super) fn page(store: &CollectionStore, request: &pb::ListSegmentsRequest) -> pb::ListSegmentsResponse {
    let limit = match request.limit {
        0 => MAX_PAGE,
        limit => limit.min(MAX_PAGE),
    };
    let from = match request.after.as_str() {
        "" => Bound::Unbounded,
        after => Bound::Excluded(after),
    };
    let mut rest = store.names.range::<str, _>((from, Bound::Unbounded));
    let found = rest.by_ref().take(usize::try_from(limit).unwrap_or(usize::MAX));
    let segments =
        found.filter_map(|(_, id)| store.segments.get(id)).map(|s| segment_to_proto(&s.whole())).collect();
    pb::ListSegmentsResponse { segments, more: rest.next().is_some() }
}

/// Checks a push against the collection and gives every segment its shard.
pub(super) fn prepare(store: &CollectionStore, request: Vec<pb::Segment>) -> Result<Vec<NewSegment>, Error> {
    if request.is_empty() {
        return Err(Error::new(ErrorCode::ParameterMissing, "a push names at least one segment"));
    }
    if request.len() > MAX_PUSH {
        let text = format!("{} segments in one push are too many; at most {MAX_PUSH}", request.len());
        return Err(Error::new(ErrorCode::ParameterTooLarge, text));
    }
    let shards: BTreeSet<ShardName> = store.shards().collect();
    let columns: BTreeSet<&str> =
        store.collection.columns.iter().map(|column| column.name.as_str()).collect();
    let mut names = BTreeSet::new();
    let mut segments = Vec::with_capacity(request.len());
    for message in request {
        let mut segment = NewSegment::try_from(message)?;
        let refuse = |what: String| Err(invalid(format!("segment '{}': {what}", segment.name)));
        if !names.insert(segment.name.clone()) {
            return refuse("it stands twice in this push".into());
        }
        if let Some(unknown) = segment.shard.as_ref().filter(|shard| !shards.contains(*shard)) {
            return refuse(format!(
                "the collection has no shard '{unknown}'; it has {} from shard-0",
                shards.len()
            ));
        }
        if let Some(unknown) = segment.statistics.keys().find(|column| !columns.contains(column.as_str())) {
            return refuse(format!("statistics of column '{unknown}', which the collection does not have"));
        }
        if let Some(former) = store.by_name(segment.name.as_str()).map(|found| &found.segment.content)
            && former.checksum != segment.checksum
        {
            return refuse(format!(
                "it is there with checksum {}, the push says {}; drop it first or take another name",
                former.checksum, segment.checksum
            ));
        }
        let shard =
            segment.shard.take().unwrap_or_else(|| shard_of(&segment.name, store.collection.options.shards));
        segment.shard = Some(shard);
        segments.push(segment);
    }
    Ok(segments)
}

impl Tenure {
    pub(super) async fn push_segments(
        &self,
        request: pb::PushSegmentsRequest,
    ) -> Result<pb::PushSegmentsResponse, Error> {
        let pen = self.begin_write().await?;
        let (collection, segments, again) = {
            let state = self.state();
            let store = find(&state.stores, &request.collection)?;
            let segments = prepare(store, request.segments)?;
            let known = segments.iter().filter_map(|segment| store.by_name(segment.name.as_str()));
            let again: Vec<SegmentId> = known.map(|known| known.segment.id).collect();
            (store.collection.id, segments, again)
        };
        // Under the pen, so that no object is cleared away between the look and the write.
        self.check_objects(collection, &segments).await?;
        let pushed = pen.metastore.push_segments(pen.epoch, collection, segments, self.wall()).await;
        let pushed = pushed.map_err(|error| self.failed(error))?;
        let (added, unchanged) = (pushed.added.len() as u64, pushed.unchanged);
        tracing::info!(collection = request.collection, added, unchanged, "segments were pushed");
        let mut state = self.state();
        if let Some(store) = state.stores.collections.get_mut(&collection) {
            pushed.added.into_iter().for_each(|segment| store.insert(segment));
        }
        // Pushing the same again puts objects in order that were damaged or gone.
        again.into_iter().for_each(|segment| state.stores.forget_failures_to_load(segment));
        drop(state);
        self.wake();
        Ok(pb::PushSegmentsResponse { added, unchanged })
    }

    /// Checks that the objects of new segments are there with the right length.
    pub(super) async fn check_objects(
        &self,
        collection: CollectionId,
        segments: &[NewSegment],
    ) -> Result<(), Error> {
        let fresh: Vec<(String, u64, SegmentName)> = {
            let state = self.state();
            let store = state.stores.collections.get(&collection);
            let known =
                |segment: &NewSegment| store.is_some_and(|s| s.by_name(segment.name.as_str()).is_some());
            let fresh = segments.iter().filter(|segment| !known(segment));
            fresh.map(|segment| (segment.object.clone(), segment.bytes, segment.name.clone())).collect()
        };
        let checks = stream::iter(fresh).map(|(object, bytes, name)| async move {
            let checked = self.objects().check(&object, bytes).await;
            checked.map_err(|error| error.context(format_args!("segment '{name}'")))
        });
        checks.buffer_unordered(CHECKS_AT_ONCE).try_collect().await
    }

    pub(super) async fn drop_segments(
        &self,
        request: &pb::DropSegmentsRequest,
    ) -> Result<pb::DropSegmentsResponse, Error> {
        let pen = self.begin_write().await?;
        let (collection, ids) = {
            let state = self.state();
            let store = find(&state.stores, &request.collection)?;
            let ids: BTreeSet<SegmentId> =
                request.names.iter().map(|name| id_of(store, name)).collect::<Result<_, _>>()?;
            (store.collection.id, ids.into_iter().collect::<Vec<_>>())
        };
        pen.metastore.drop_segments(pen.epoch, &ids).await.map_err(|error| self.failed(error))?;
        tracing::info!(collection = request.collection, segments = ids.len(), "segments were dropped");
        let mut state = self.state();
        for id in &ids {
            let store = state.stores.collections.get_mut(&collection);
            if let Some(segment) = store.and_then(|store| store.remove(*id)) {
                state.stores.dropped.insert(*id, segment);
            }
        }
        self.wake();
        Ok(pb::DropSegmentsResponse { dropped: ids.len() as u64 })
    }
}

fn id_of(store: &CollectionStore, name: &str) -> Result<SegmentId, Error> {
    let found = store.by_name(name).map(|segment| segment.segment.id);
    found.ok_or_else(|| {
        let (name, collection) = (name.escape_debug(), &store.collection.name);
        Error::new(ErrorCode::SegmentNotFound, format!("collection '{collection}' has no segment '{name}'"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_without_a_shard_goes_by_the_hash_of_its_name_for_ever() {
        let shard = |name: &str, shards| shard_of(&SegmentName::new(name).unwrap(), shards).to_string();
        // Values of FNV-1a: "a" is 0xaf63dc4c8601ec8c, "foobar" is 0x85944171f73967e8.
        assert_eq!(shard("a", 16), "shard-12");
        assert_eq!(shard("foobar", 16), "shard-8");
        assert_eq!(shard("foobar", 1), "shard-0");
    }
}
