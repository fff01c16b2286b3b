//! Revisions, and copies that follow the metastore.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, Epoch, Incarnation, SegmentId, catalog::Segment};
use pointsman_metastore::{Revision, SegmentChanges, SegmentsHeld, SharedMetastore};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    fixture::{Fixture, take},
    samples::{NOW, collection, name, segment, segments},
};

/// Somebody's copy of all segments.
#[derive(Debug, Default)]
struct Copy {
    revision: Option<Revision>,
    live: BTreeMap<SegmentId, Segment>,
    dropped: BTreeMap<SegmentId, Segment>,
}

impl Copy {
    /// Brings it up to date; whether everything had to be read. `None`: nothing had changed.
    async fn follow(&mut self, metastore: &SharedMetastore) -> Option<bool> {
        let last = self.live.keys().chain(self.dropped.keys()).max().copied().unwrap_or_default();
        let held = self.revision.clone().map(|revision| SegmentsHeld { revision, last });
        let changes = metastore.segment_changes(held.as_ref()).await.unwrap()?;
        let anew = changes.anew;
        self.apply(changes);
        Some(anew)
    }

    fn apply(&mut self, changes: SegmentChanges) {
        if changes.anew {
            self.live.clear();
            self.dropped.clear();
        }
        for (id, collection) in &changes.all_dropped {
            if let Some(segment) = self.live.remove(id) {
                assert_eq!(segment.collection, *collection);
                self.dropped.insert(*id, segment);
            }
        }
        self.dropped.retain(|id, _| changes.all_dropped.contains_key(id));
        self.live.extend(changes.live.into_iter().map(|segment| (segment.id, segment)));
        self.dropped.extend(changes.dropped.into_iter().map(|segment| (segment.id, segment)));
        assert!(self.dropped.keys().eq(changes.all_dropped.keys()));
        self.revision = Some(changes.revision);
    }

    /// It is what the metastore holds.
    async fn check(&self, metastore: &SharedMetastore, collections: &[CollectionId]) {
        let mut live = BTreeMap::new();
        for id in collections {
            live.extend(metastore.segments(*id).await.unwrap().into_iter().map(|one| (one.id, one)));
        }
        assert_eq!(self.live, live);
        let dropped = metastore.dropped_segments().await.unwrap();
        assert!(self.dropped.values().eq(&dropped));
    }
}

pub(crate) async fn every_change_makes_a_new_revision_and_nothing_else_does(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let mut last = metastore.revision().await.unwrap();
    let id = collection(&metastore, epoch, "orders").await.id;
    let mut changed = async || {
        let now = metastore.revision().await.unwrap();
        let changed = now != last;
        assert!(!changed || now.to_string().parse::<u64>().unwrap() > last.to_string().parse().unwrap());
        last = now;
        changed
    };
    assert!(changed().await);
    metastore.push_segments(epoch, id, segments(3), NOW).await.unwrap();
    assert!(changed().await);
    metastore.set_config(epoch, "a", "b").await.unwrap();
    assert!(changed().await);
    metastore.register_node(epoch, &name("n1"), Incarnation(1)).await.unwrap();
    assert!(changed().await);
    // Reads, the lease, what is refused, and what is there already.
    metastore.segments(id).await.unwrap();
    let lease = take(&metastore, "coordinator-1").await;
    metastore.renew_lease(&lease, std::time::Duration::from_secs(60)).await.unwrap();
    metastore.push_segments(lease.epoch, CollectionId(99), segments(1), NOW).await.unwrap_err();
    metastore.set_config(Epoch(0), "a", "c").await.unwrap_err();
    metastore.register_node(lease.epoch, &name("n1"), Incarnation(1)).await.unwrap();
    assert!(!changed().await);
}

pub(crate) async fn a_copy_is_brought_up_to_date_by_what_changed(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = metastore.push_segments(epoch, id, segments(5), NOW).await.unwrap().added;
    let mut copy = Copy::default();
    assert_eq!(copy.follow(&metastore).await, Some(true));
    copy.check(&metastore, &[id]).await;
    assert_eq!(copy.follow(&metastore).await, None);
    metastore.push_segments(epoch, id, vec![segment("new", 1)], NOW).await.unwrap();
    metastore.drop_segments(epoch, &[pushed[0].id, pushed[1].id]).await.unwrap();
    let held = SegmentsHeld { revision: copy.revision.clone().unwrap(), last: pushed[4].id };
    let changes = metastore.segment_changes(Some(&held)).await.unwrap().unwrap();
    let told: Vec<&str> = changes.live.iter().map(|segment| segment.content.name.as_str()).collect();
    assert_eq!((told, changes.dropped.len(), changes.anew), (vec!["new"], 0, false));
    copy.apply(changes);
    copy.check(&metastore, &[id]).await;
    metastore.purge_segments(epoch, &[pushed[0].id]).await.unwrap();
    assert_eq!(copy.follow(&metastore).await, Some(false), "it knew that the segment was dropped");
    copy.check(&metastore, &[id]).await;
    metastore.drop_collection(epoch, id).await.unwrap();
    assert_eq!(copy.follow(&metastore).await, Some(false));
    copy.check(&metastore, &[id]).await;
    assert!(copy.live.is_empty() && copy.dropped.len() == 5);
}

pub(crate) async fn what_was_dropped_and_purged_unseen_is_noticed(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = metastore.push_segments(epoch, id, segments(3), NOW).await.unwrap().added;
    let (mut seen, mut unseen) = (Copy::default(), Copy::default());
    seen.follow(&metastore).await;
    unseen.follow(&metastore).await;
    metastore.drop_segments(epoch, &[pushed[2].id]).await.unwrap();
    seen.follow(&metastore).await;
    metastore.purge_segments(epoch, &[pushed[2].id]).await.unwrap();
    assert_eq!((seen.follow(&metastore).await, unseen.follow(&metastore).await), (Some(false), Some(true)));
    seen.check(&metastore, &[id]).await;
    unseen.check(&metastore, &[id]).await;
}

/// Changes and followers at random.
pub(crate) async fn copies_that_follow_now_and_then_are_always_right(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let ids = [collection(&metastore, epoch, "a").await.id, collection(&metastore, epoch, "b").await.id];
    let mut random = StdRng::seed_from_u64(7);
    let mut copies: Vec<Copy> = (0..3).map(|_| Copy::default()).collect();
    let mut partly = 0;
    for step in 0..120 {
        let live = metastore.segments(ids[step % 2]).await.unwrap();
        let some: Vec<SegmentId> = live.choose_multiple(&mut random, 3).map(|segment| segment.id).collect();
        match random.random_range(0..4) {
            0 | 1 => {
                let push =
                    (0..random.random_range(0..6)).map(|n| segment(&format!("s{step}-{n}"), 1)).collect();
                metastore.push_segments(epoch, ids[step % 2], push, NOW).await.map(drop).unwrap();
            }
            2 => metastore.drop_segments(epoch, &some).await.unwrap(),
            _ => {
                let dropped = metastore.dropped_segments().await.unwrap();
                let some: Vec<SegmentId> = dropped.iter().take(2).map(|segment| segment.id).collect();
                metastore.purge_segments(epoch, &some).await.unwrap();
            }
        }
        for (number, copy) in copies.iter_mut().enumerate() {
            if random.random_bool([1.0, 0.3, 0.1][number]) {
                partly += usize::from(copy.follow(&metastore).await == Some(false));
                copy.check(&metastore, &ids).await;
            }
        }
    }
    assert!(partly > 60, "{partly}");
}
