//! Views of leaders under change.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{NodeName, SegmentId};
use pointsman_query_coord::LeaderView;
use proptest::prelude::*;

fn hosts() -> impl Strategy<Value = BTreeMap<u64, u8>> {
    prop::collection::btree_map(0..30_u64, 0..5_u8, 0..20)
}

fn named(hosts: &BTreeMap<u64, u8>) -> impl Iterator<Item = (SegmentId, NodeName)> {
    hosts.iter().map(|(id, host)| (SegmentId(*id), NodeName::new(&format!("n{host}")).unwrap()))
}

proptest! {
    #[test]
    fn a_changed_view_is_the_one_that_is_made_anew(
        before in hosts(),
        hosted in hosts(),
        removed in prop::collection::btree_set(0..30_u64, 0..20),
    ) {
        let gone: BTreeSet<SegmentId> = removed.iter().map(|id| SegmentId(*id)).collect();
        let changed = LeaderView::new(named(&before)).changed(named(&hosted), &gone);
        let mut after = before;
        after.retain(|id, _| !removed.contains(id));
        after.extend(hosted);
        prop_assert_eq!(changed, LeaderView::new(named(&after)));
    }
}
