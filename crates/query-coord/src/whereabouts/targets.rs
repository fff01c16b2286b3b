//! What targets list.

use std::collections::BTreeSet;

use pointsman_ids::{CollectionId, SegmentId, ShardName};

use super::{Whereabouts, row::Listed};
use crate::{CatalogSegment, Target};

/// The current and the next target of a collection.
pub(crate) type Both<'a> = (Option<&'a Target>, Option<&'a Target>);

impl Whereabouts {
    /// Notes that other targets are there now. Costs one pass over the numbers of segments, and more only for those of
    /// which something changed.
    pub(crate) fn retarget<'a>(
        &mut self,
        collection: CollectionId,
        before: Both<'_>,
        after: Both<'_>,
        catalog: impl Fn(SegmentId) -> Option<&'a CatalogSegment>,
    ) {
        let all = [before.0, before.1, after.0, after.1];
        let shards: BTreeSet<&ShardName> =
            all.iter().flatten().flat_map(|target| target.shards.iter().map(|shard| &shard.name)).collect();
        for shard in shards {
            let segments = |target: &Option<_>| segments_of(*target, shard);
            merge(all.each_ref().map(segments), |segment, [was_current, was_next, is_current, is_next]| {
                let before = Listed { current: was_current, wanted: was_current || was_next };
                let after = Listed { current: is_current, wanted: is_current || is_next };
                if before != after {
                    self.list(collection, segment, after, &catalog);
                }
            });
        }
    }

    fn list<'a>(
        &mut self,
        collection: CollectionId,
        segment: SegmentId,
        listed: Listed,
        catalog: &impl Fn(SegmentId) -> Option<&'a CatalogSegment>,
    ) {
        let row = self.rows.row(segment);
        row.listed = listed;
        if listed.wanted && !row.is_described() {
            row.describe(collection, catalog(segment));
        }
        let is_empty = row.is_empty();
        self.note(segment, Some(collection));
        if is_empty {
            self.remove(segment);
        } else if listed.wanted {
            self.unwanted.entry(collection).or_default().remove(&segment);
        } else {
            self.unwanted.entry(collection).or_default().insert(segment);
        }
    }
}

fn segments_of<'a>(target: Option<&'a Target>, shard: &ShardName) -> &'a [SegmentId] {
    target.and_then(|target| target.shard(shard.as_str())).map_or(&[], |shard| &shard.segments)
}

/// Every number of four ascending lists, once, with which of them have it.
fn merge(mut lists: [&[SegmentId]; 4], mut each: impl FnMut(SegmentId, [bool; 4])) {
    while let Some(least) = lists.iter().filter_map(|list| list.first()).min().copied() {
        let has = lists.map(|list| list.first() == Some(&least));
        each(least, has);
        for list in lists.iter_mut().filter(|list| list.first() == Some(&least)) {
            *list = list.get(1..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::TargetVersion;

    use super::*;
    use crate::TargetSegment;

    fn target(ids: &[u64]) -> Target {
        let shard = |id: u64| if id.is_multiple_of(2) { "even" } else { "odd" };
        let segment = |id: &u64| TargetSegment {
            id: SegmentId(*id),
            partition: "default".parse().unwrap(),
            shard: shard(*id).parse().unwrap(),
        };
        Target::new(CollectionId(1), TargetVersion(1), [], [], ids.iter().map(segment))
    }

    /// Segments with something new: wanted, current.
    fn news(whereabouts: &mut Whereabouts, before: Both<'_>, after: Both<'_>) -> Vec<(u64, bool, bool)> {
        whereabouts.retarget(CollectionId(1), before, after, |_| None);
        let news: Vec<SegmentId> = whereabouts.take_news().map(|(_, segment)| segment).collect();
        let told = |id: &SegmentId| {
            let row = whereabouts.row(*id);
            (id.0, row.is_some_and(|row| row.is_wanted()), row.is_some_and(|row| row.is_current()))
        };
        news.iter().map(told).collect()
    }

    #[test]
    fn only_what_comes_and_goes_is_news() {
        let mut whereabouts = Whereabouts::default();
        let (first, second) = (target(&[1, 2, 3]), target(&[2, 3, 4]));
        let (none, one, two) = (None, Some(&first), Some(&second));
        let loaded = news(&mut whereabouts, (none, none), (none, one));
        assert_eq!(loaded, [(1, true, false), (2, true, false), (3, true, false)]);
        let promoted = news(&mut whereabouts, (none, one), (one, none));
        assert_eq!(promoted, [(1, true, true), (2, true, true), (3, true, true)]);
        assert_eq!(news(&mut whereabouts, (one, none), (one, two)), [(4, true, false)]);
        assert_eq!(news(&mut whereabouts, (one, two), (two, none)), [(1, false, false), (4, true, true)]);
        assert!(whereabouts.row(SegmentId(1)).is_none(), "nobody has to do with it");
        let released = news(&mut whereabouts, (two, none), (none, none));
        assert_eq!(released.len(), 3);
    }
}
