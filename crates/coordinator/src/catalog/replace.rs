//! Replacing segments: old ones out and new ones in, so that queries see either all of the old or all of the new.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_clock::WallTime;
use pointsman_ids::{
    CollectionId, Error, ErrorCode, PartitionName, SegmentId,
    catalog::{NewSegment, Segment},
};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{
    CatalogSegment, CollectionStore, LoadChange, LoadRecord, Pulled, Stores, joined_by, pull,
};

use super::{
    find, invalid,
    segments::{MAX_PUSH, prepare},
};
use crate::{state::State, tenure::Tenure};

/// Names in one message.
const TOLD: usize = 10;

/// What a request comes to.
#[derive(Debug)]
enum Planned {
    /// All of the new ones are there, and none of the old ones.
    Done(CollectionId),
    /// There is something to do.
    Change(Replacement),
}

/// A replacement that makes sense.
#[derive(Debug)]
struct Replacement {
    collection: CollectionId,
    old: Vec<SegmentId>,
    new: Vec<NewSegment>,
    /// The load with partitions that come in. They have to be registered before their segments are there: a target in
    /// between would have neither the old nor the new ones.
    joined: Option<LoadRecord>,
}

impl Tenure {
    pub(super) async fn replace_segments(
        &self,
        request: pb::ReplaceSegmentsRequest,
    ) -> Result<pb::ReplaceSegmentsResponse, Error> {
        if request.check_only {
            let planned = plan(&self.state().stores, request, WallTime(self.wall()))?;
            let replaced = matches!(planned, Planned::Change(_));
            return Ok(pb::ReplaceSegmentsResponse { replaced, target_version: 0 });
        }
        let (name, pen) = (request.collection.clone(), self.begin_write().await?);
        let planned = plan(&self.state().stores, request, WallTime(self.wall()))?;
        let Replacement { collection, old, new, joined } = match planned {
            Planned::Change(replacement) => replacement,
            Planned::Done(collection) => {
                let target_version = self.state().newest_target(collection, WallTime(self.wall()));
                return Ok(pb::ReplaceSegmentsResponse { replaced: false, target_version });
            }
        };
        // Under the pen, so that no object is cleared away between the look and the write.
        self.check_objects(collection, &new).await?;
        self.change_loads(&pen, LoadChange { records: Vec::from_iter(joined), ..LoadChange::default() })
            .await?;
        let added = pen.metastore.replace_segments(pen.epoch, collection, &old, new, self.wall()).await;
        let added = added.map_err(|error| self.failed(error))?;
        tracing::info!(collection = name, out = old.len(), added = added.len(), "segments were replaced");
        let target_version = self.state().replace(collection, &old, added, WallTime(self.wall()));
        self.wake();
        Ok(pb::ReplaceSegmentsResponse { replaced: true, target_version })
    }
}

impl State {
    /// Lets a replacement take effect that was written: old and new change places at once, and so they do in the next
    /// target, whose version is returned; 0 when there is none. One that was pulled before has not all of it.
    fn replace(
        &mut self,
        collection: CollectionId,
        old: &[SegmentId],
        added: Vec<Segment>,
        now: WallTime,
    ) -> u64 {
        let stores = &mut self.stores;
        let Some(store) = stores.collections.get_mut(&collection) else { return 0 };
        added.into_iter().for_each(|segment| store.insert(segment));
        let out = old.iter().filter_map(|id| Some((*id, store.remove(*id)?)));
        stores.dropped.extend(out);
        if stores.loads.get(collection).is_none() {
            return 0;
        }
        stores.targets.remove_next(collection);
        self.newest_target(collection, now)
    }

    /// The version of the target with what the catalog has now; 0 when nothing is loaded. A next target that would bring
    /// nothing new is withdrawn: nobody may wait for it.
    fn newest_target(&mut self, collection: CollectionId, now: WallTime) -> u64 {
        let stores = &mut self.stores;
        match pull(stores, collection, now, self.rules.next_target_max_age) {
            Pulled::Next(next) => stores.targets.set_next(next),
            Pulled::Nothing => stores.targets.remove_next(collection),
            Pulled::Unchanged => {}
        }
        stores.next_first(collection).map_or(0, |target| target.version.0)
    }
}

/// Checks a request against what there is.
fn plan(stores: &Stores, request: pb::ReplaceSegmentsRequest, now: WallTime) -> Result<Planned, Error> {
    let store = find(stores, &request.collection)?;
    let collection = store.collection.id;
    let (old, new) = (names(&request)?, request.new);
    let known: BTreeMap<&str, &CatalogSegment> =
        old.iter().filter_map(|name| Some((name.as_str(), store.by_name(name)?))).collect();
    let there = |segment: &&pb::Segment| store.by_name(&segment.name).is_some();
    let is_same = |segment: &pb::Segment| {
        let known = store.by_name(&segment.name).map(|known| &known.segment.content.checksum);
        known.is_some_and(|checksum| checksum.to_string() == segment.checksum)
    };
    if known.is_empty() && new.iter().all(is_same) {
        return Ok(Planned::Done(collection));
    }
    let unknown = old.iter().filter(|name| !known.contains_key(name.as_str()));
    let unknown: Vec<&str> = unknown.map(String::as_str).collect();
    if !unknown.is_empty() {
        let text = format!("collection '{}' has no {}", store.collection.name, told(&unknown));
        return Err(Error::new(ErrorCode::SegmentNotFound, text));
    }
    let taken: Vec<&str> = new.iter().filter(there).map(|segment| segment.name.as_str()).collect();
    if !taken.is_empty() {
        let text = format!(
            "collection '{}' has {} already; new segments take names of their own",
            store.collection.name,
            told(&taken)
        );
        return Err(invalid(text));
    }
    let partitions: BTreeSet<&PartitionName> =
        known.values().map(|known| &known.segment.content.partition).collect();
    let new = prepare(store, placed(new, &partitions)?)?;
    check_loaded(stores, store, &partitions, &new)?;
    let joined = joined_by(stores, collection, new.iter().map(|segment| &segment.partition), now);
    let old = known.values().map(|known| known.segment.id).collect();
    Ok(Planned::Change(Replacement { collection, old, new, joined }))
}

/// Names of the old ones, when both sides are named, and no name twice.
fn names(request: &pb::ReplaceSegmentsRequest) -> Result<BTreeSet<String>, Error> {
    let pb::ReplaceSegmentsRequest { old, new, .. } = request;
    if old.is_empty() || new.is_empty() {
        let text = "a replacement names at least one old and one new segment; use a push or a drop otherwise";
        return Err(Error::new(ErrorCode::ParameterMissing, text));
    }
    if old.len() > MAX_PUSH {
        let text = format!("{} old segments in one replacement are too many; at most {MAX_PUSH}", old.len());
        return Err(Error::new(ErrorCode::ParameterTooLarge, text));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = old.iter().find(|name| !names.insert((*name).clone())) {
        return Err(invalid(format!("segment '{}' is to go twice", twice.escape_debug())));
    }
    let both = new.iter().map(|segment| segment.name.as_str()).filter(|name| names.contains(*name));
    let both: Vec<&str> = both.collect();
    if both.is_empty() {
        return Ok(names);
    }
    Err(invalid(format!("{} is both old and new; new segments take names of their own", told(&both))))
}

/// New segments, each with its partition: that of the old ones where none is said.
fn placed(
    mut new: Vec<pb::Segment>,
    partitions: &BTreeSet<&PartitionName>,
) -> Result<Vec<pb::Segment>, Error> {
    for segment in new.iter_mut().filter(|segment| segment.partition.is_empty()) {
        let mut of_old = partitions.iter();
        match (of_old.next(), of_old.next()) {
            (Some(one), None) => segment.partition = one.to_string(),
            _ => {
                let names: Vec<&str> = partitions.iter().map(|name| name.as_str()).collect();
                let text = format!(
                    "the old segments lie in partitions {}; say which the new ones go to",
                    names.join(", ")
                );
                return Err(invalid(text));
            }
        }
    }
    Ok(new)
}

/// What is loaded must not vanish: where partitions are loaded one by one, new segments go to one that is.
fn check_loaded(
    stores: &Stores,
    store: &CollectionStore,
    old: &BTreeSet<&PartitionName>,
    new: &[NewSegment],
) -> Result<(), Error> {
    let Some(record) = stores.loads.get(store.collection.id) else { return Ok(()) };
    let is_loaded = |name: &PartitionName| {
        record.kind == pointsman_query_coord::LoadKind::Collection || record.partitions.contains_key(name)
    };
    let lost = new.iter().find(|segment| !is_loaded(&segment.partition));
    match lost.filter(|_| old.iter().any(|name| is_loaded(name))) {
        None => Ok(()),
        Some(segment) => Err(invalid(format!(
            "segment '{}' would go to partition '{}', which is not loaded, while what it replaces is; load the partition first",
            segment.name, segment.partition
        ))),
    }
}

/// `segments 'a', 'b' and 3 more`.
fn told(names: &[&str]) -> String {
    let quoted = names.iter().take(TOLD).map(|name| format!("'{}'", name.escape_debug()));
    let listed = quoted.collect::<Vec<_>>().join(", ");
    let word = if names.len() == 1 { "segment" } else { "segments" };
    match names.len().saturating_sub(TOLD) {
        0 => format!("{word} {listed}"),
        more => format!("{word} {listed} and {more} more"),
    }
}
