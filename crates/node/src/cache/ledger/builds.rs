//! Which indexes are to be built next, and which no more.

use std::{sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::SegmentId;

use super::{Action, Ledger, Outcome, entry::Phase, room::Room};
use crate::cache::{index::IndexName, segment::Wanted};

impl Ledger {
    /// Indexes that are being built and that nobody wants any more: they are to be called off.
    pub(crate) fn pointless_builds(&self) -> Vec<(SegmentId, IndexName)> {
        let entries = self.entries.iter().flat_map(|(id, entry)| {
            entry.indexes.building(entry.unwanted_since.is_none()).map(|name| (*id, name))
        });
        entries.collect()
    }

    /// Indexes that are missing, one of a segment at a time.
    pub(super) fn builds(
        &mut self,
        now: MonoTime,
        mut retry_after: impl FnMut(u32) -> Duration,
        actions: &mut Vec<Action>,
    ) {
        let building = self.entries.values().map(|entry| entry.indexes.building(false).count()).sum();
        let mut slots = self.limits.builds.saturating_sub(building);
        for (id, segment, name, bytes) in self.unbuilt(now) {
            if slots == 0 {
                break;
            }
            match self.make_room(bytes, &format_args!("an index of {segment}")) {
                Room::Enough => {
                    if let Some(entry) = self.entries.get_mut(&id) {
                        entry.indexes.build(name, bytes);
                        actions.push(Action::Build(segment, name));
                        slots -= 1;
                    }
                }
                Room::Soon => {}
                Room::None(error) => {
                    let retry_after = retry_after(self.tries(id) + 1);
                    let failed = Outcome::Failed { error, retry_after };
                    self.finish(&Action::Build(segment, name), failed, now);
                }
            }
        }
    }

    /// What is to be built: first for segments that cannot be served without.
    fn unbuilt(&self, now: MonoTime) -> Vec<(SegmentId, Arc<Wanted>, IndexName, u64)> {
        let held = self.entries.iter().filter(|(_, entry)| {
            entry.unwanted_since.is_none()
                && matches!(entry.phase, Phase::Held | Phase::Verifying { served: true })
        });
        let unbuilt = held.filter_map(|(id, entry)| {
            let segment = entry.segment.as_ref()?;
            let (name, bytes) = entry.indexes.to_build(now, segment.rows)?;
            Some((entry.complete, (*id, Arc::clone(segment), name, bytes)))
        });
        let mut unbuilt: Vec<_> = unbuilt.collect();
        unbuilt.sort_by_key(|(complete, (id, ..))| (*complete, *id));
        unbuilt.into_iter().map(|(_, build)| build).collect()
    }
}
