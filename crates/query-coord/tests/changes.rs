//! Deciding what changed comes to the same as deciding everything.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeName, ReplicaId, SegmentId, catalog::shard_name, feed::CollectionEntry};
use pointsman_query_coord::{
    Changes, Hosted, Replica, SegmentReport, SessionState, Stores, collection_change, collection_entry,
    empty_entry, place, plan_leads, rebalance, wish,
};
use proptest::prelude::*;
use world::*;

const NAMES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];

/// Something that happens to a cluster.
#[derive(Clone, Debug)]
enum Happening {
    Becomes(usize, SessionState),
    Returns(usize),
    Switched(usize, bool),
    Drained(usize, bool),
    Reports(usize, u64, Option<SegmentReport>),
    Fails(usize, u64, bool),
    Expires(u64),
    Pushed(u64),
    Dropped(u64),
    Promoted,
    Withdrawn,
    Heard(usize, bool),
    Ruled(u32, bool),
    Joined(usize, bool),
    Divided,
    Seen(u64, bool),
    Released,
    Loaded,
    Obeyed,
    Tidied,
    Led,
    Balanced,
    Decided(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    let node = 0..NAMES.len();
    let state = prop_oneof![
        3 => Just(SessionState::Live),
        1 => Just(SessionState::Lost),
        1 => Just(SessionState::Stopping),
        1 => Just(SessionState::Gone),
        1 => Just(SessionState::Awaited),
    ];
    let said = prop_oneof![
        2 => Just(Some(SegmentReport::Held)),
        1 => Just(Some(SegmentReport::Fetching)),
        1 => Just(None),
    ];
    let segment = 1..=9_u64;
    let first = prop_oneof![
        3 => (node.clone(), state).prop_map(|(node, state)| Happening::Becomes(node, state)),
        1 => node.clone().prop_map(Happening::Returns),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Happening::Switched(node, on)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, drained)| Happening::Drained(node, drained)),
        3 => (node.clone(), segment.clone(), said).prop_map(|(node, id, said)| Happening::Reports(node, id, said)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, reported)| Happening::Heard(node, reported)),
        2 => (node, segment.clone(), any::<bool>()).prop_map(|(node, id, full)| Happening::Fails(node, id, full)),
        1 => (0..600_u64).prop_map(Happening::Expires),
    ];
    let second = prop_oneof![
        2 => (6..=9_u64).prop_map(Happening::Pushed),
        2 => segment.prop_map(Happening::Dropped),
        2 => Just(Happening::Promoted),
        1 => Just(Happening::Withdrawn),
        1 => (1..=3_u32, any::<bool>()).prop_map(|(tries, drains)| Happening::Ruled(tries, drains)),
        2 => (0..NAMES.len(), any::<bool>()).prop_map(|(node, east)| Happening::Joined(node, east)),
        3 => Just(Happening::Divided),
        1 => (1..=2_u64, any::<bool>()).prop_map(|(replica, visible)| Happening::Seen(replica, visible)),
        1 => Just(Happening::Released),
        1 => Just(Happening::Loaded),
        3 => Just(Happening::Obeyed),
        2 => Just(Happening::Tidied),
        2 => Just(Happening::Led),
        1 => Just(Happening::Balanced),
        6 => prop::bool::weighted(0.1).prop_map(Happening::Decided),
    ];
    prop_oneof![first, second]
}

/// A cluster that decides what changed, with what brokers know of it.
struct Follower {
    stores: Stores,
    told: CollectionEntry,
    hosted: Hosted,
    /// What changed since brokers were told.
    untold: Changes,
    now: MonoTime,
}

impl Follower {
    fn new() -> Self {
        let mut stores = world(&[("east", &NAMES[..3]), ("west", &NAMES[3..])]);
        collection(&mut stores, 2, &[5, 5, 50, 50, 500]);
        load(&mut stores, &[("east", 1), ("west", 1)]);
        let told = empty_entry(&stores, COLLECTION).unwrap();
        Self { stores, told, hosted: Hosted::default(), untold: Changes::default(), now: MonoTime::default() }
    }

    fn happens(&mut self, what: &Happening) {
        let stores = &mut self.stores;
        match what {
            Happening::Becomes(at, state) => {
                set(stores, NAMES[*at], *state);
                if *state == SessionState::Gone {
                    unreport_all(stores, NAMES[*at]);
                }
            }
            Happening::Returns(at) => {
                let seen = stores.observed.get_mut(NAMES[*at]).unwrap();
                seen.id.0 += 10;
                seen.state = SessionState::Live;
                unreport_all(stores, NAMES[*at]);
                stores.forget_failures_of(&node(NAMES[*at]));
            }
            Happening::Switched(at, on) => stores.nodes.get_mut(NAMES[*at]).unwrap().switched_on = *on,
            Happening::Drained(at, true) => drop(stores.leaving.drains.insert(node(NAMES[*at]), 1)),
            Happening::Drained(at, false) => drop(stores.leaving.drains.remove(NAMES[*at])),
            Happening::Reports(at, segment, Some(said)) => report(stores, NAMES[*at], *segment, *said),
            Happening::Reports(at, segment, None) => unreport(stores, NAMES[*at], *segment),
            Happening::Fails(at, segment, full) => {
                let code = if *full {
                    ErrorCode::SegmentRequestResourceFailed
                } else {
                    ErrorCode::SegmentLoadFailed
                };
                report(stores, NAMES[*at], *segment, SegmentReport::Failed);
                fail_with(stores, NAMES[*at], *segment, code, self.now);
            }
            Happening::Expires(seconds) => {
                self.now = self.now + Duration::from_secs(*seconds);
                stores.expire_failures(self.now);
            }
            Happening::Pushed(segment) => {
                let known = stores.segment(COLLECTION, SegmentId(*segment)).is_some();
                if !known && stores.loads.get(COLLECTION).is_some() {
                    push(stores, *segment, *segment * 10);
                    self.pull();
                }
            }
            Happening::Dropped(segment) => {
                if stores.collections[&COLLECTION].segments.contains_key(&SegmentId(*segment)) {
                    drop_segment(stores, *segment);
                    self.pull();
                }
            }
            Happening::Promoted => stores.targets.promote(COLLECTION),
            Happening::Withdrawn => stores.targets.remove_next(COLLECTION),
            Happening::Heard(at, reported) => {
                stores.observed.get_mut(NAMES[*at]).unwrap().reported = *reported;
            }
            Happening::Ruled(tries, drains) => {
                stores.rules.segment_load_tries = *tries;
                stores.rules.balance.drain_stopping = *drains;
            }
            Happening::Joined(at, east) => {
                stores.groups.values_mut().for_each(|group| _ = group.members.remove(NAMES[*at]));
                let joined = group(if *east { "east" } else { "west" });
                stores.groups.get_mut(&joined).unwrap().members.insert(node(NAMES[*at]));
            }
            Happening::Divided => divide(stores),
            Happening::Seen(replica, visible) => {
                if let Some(replica) = stores.replicas.get(ReplicaId(*replica)).cloned() {
                    stores.replicas.insert(Replica { query_visible: *visible, ..Replica::clone(&replica) });
                }
            }
            Happening::Released => {
                stores.loads.remove(COLLECTION);
                stores.targets.remove(COLLECTION);
                stores.replicas.remove_all(COLLECTION);
            }
            Happening::Loaded => {
                if stores.loads.get(COLLECTION).is_none() {
                    load(stores, &[("east", 1), ("west", 1)]);
                }
            }
            Happening::Obeyed => obey(stores),
            Happening::Tidied => tidy_kept(stores, &mut self.untold),
            Happening::Led => {
                self.untold.extend(&stores.changes());
                lead(stores);
            }
            Happening::Balanced => {
                self.decides(false);
                rebalance(&self.stores).apply(&mut self.stores);
            }
            Happening::Decided(frozen) => self.decides(*frozen),
        }
    }

    fn pull(&mut self) {
        if self.stores.loads.get(COLLECTION).is_some() {
            let version = self.stores.next_first(COLLECTION).map_or(1, |target| target.version.0 + 1);
            let next = whole_target(&self.stores, version);
            self.stores.targets.set_next(next);
        }
    }

    /// Decides what changed, tells it, and compares that with deciding everything.
    fn decides(&mut self, frozen: bool) {
        let stores = &mut self.stores;
        stores.leads = plan_leads(stores);
        self.untold.extend(&stores.changes());
        let changes = std::mem::take(&mut self.untold);
        place(stores, &changes, frozen);
        let mut all = stores.changes();
        all.extend(&changes);
        wish(stores, &all);
        all.extend(&stores.changes());
        self.hosted.update(stores, &all);
        if let Some(change) = all.of(COLLECTION) {
            let change = collection_change(stores, &self.told, change).unwrap();
            self.told = self.told.apply(&change).unwrap();
        }
        self.compare(frozen);
    }

    fn compare(&self, frozen: bool) {
        let mut whole = self.stores.clone();
        let mut everything = Changes::default();
        everything.note_all(COLLECTION);
        place(&mut whole, &everything, frozen);
        assert_eq!(all_places(&whole), all_places(&self.stores), "places");
        assert_eq!(wish(&mut whole, &everything), [], "wishes");
        let entry = collection_entry(&whole, COLLECTION).unwrap().unwrap();
        assert_eq!(named(&self.told), named(&entry), "what brokers know");
        let hosts = hosted(&self.stores);
        for (replica, shard) in
            whole.replicas.iter().flat_map(|replica| (0..2).map(move |at| (replica, shard_name(at))))
        {
            assert_eq!(self.hosted.of(replica, &shard), hosts.of(replica, &shard), "hosts of {shard}");
        }
        self.compare_sums();
    }

    fn compare_sums(&self) {
        let stores = &self.stores;
        let rows = (1..=9).filter_map(|segment| stores.whereabouts.row(SegmentId(segment)));
        let mut weights: BTreeMap<&NodeName, u64> = BTreeMap::new();
        for row in rows {
            for slot in row.slots().filter(|slot| slot.is_placed()) {
                *weights.entry(stores.whereabouts.name(slot.node()).unwrap()).or_default() += row.weight();
            }
        }
        for name in stores.whereabouts.names() {
            let node = stores.whereabouts.index(name.as_str()).unwrap();
            let expected = weights.get(name).copied().unwrap_or_default();
            assert_eq!(stores.placement.rows_on(COLLECTION, node), (expected, expected), "rows on {name}");
        }
        stores.replicas.iter().for_each(|replica| self.compare_coming(replica));
    }

    fn compare_coming(&self, replica: &Replica) {
        let stores = &self.stores;
        let there = |segment: &SegmentId| {
            let row = stores.whereabouts.row(*segment).unwrap();
            row.slots().filter(|slot| slot.is_placed() && slot.holds()).any(|slot| {
                let node = stores.whereabouts.name(slot.node()).unwrap().as_str();
                replica.contains(node) && stores.is_known(node)
            })
        };
        let coming: BTreeSet<SegmentId> = stores.placement.coming_to(replica).collect();
        let expected: BTreeSet<SegmentId> =
            stores.wanted(COLLECTION).into_iter().filter(|segment| !there(segment)).collect();
        assert_eq!(coming, expected, "what is on its way to {:?}", replica.id);
    }
}

/// Drops what nodes should not hold; what changed until then is kept in mind.
fn tidy_kept(stores: &mut Stores, untold: &mut Changes) {
    untold.extend(&stores.changes());
    tidy(stores);
}

/// An entry in which segments name their partition and shard, since lists of names may be in another order.
fn named(entry: &CollectionEntry) -> impl PartialEq + std::fmt::Debug + use<> {
    let segments: Vec<_> = entry
        .segments
        .iter()
        .map(|segment| {
            let partition = entry.partitions[usize::try_from(segment.partition).unwrap()].clone();
            let shard = entry.shards[usize::try_from(segment.shard).unwrap()].clone();
            (segment.id, segment.name.clone(), partition, shard, segment.copies.clone())
        })
        .collect();
    let leaders: BTreeMap<_, _> = entry.shards.iter().cloned().zip(entry.leaders.clone()).collect();
    (segments, leaders, entry.load.clone(), entry.replicas.clone(), entry.finished_groups.clone())
}

proptest! {
    #[test]
    fn what_changed_is_all_that_has_to_be_decided(happenings in prop::collection::vec(happening(), 0..40)) {
        let mut follower = Follower::new();
        for what in &happenings {
            follower.happens(what);
        }
        follower.decides(false);
    }
}
