//! What an active coordinator has in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{Epoch, NodeName, SegmentId};
use pointsman_query_coord::{LossGuard, SessionState, Stores};

use crate::{desired::DesiredStates, feed::Feed, sessions::Session};

/// A part of all members; losing more of them at once makes the coordinator suspect itself.
const MASS_LOSS_LIMIT: f64 = 0.5;

/// Everything that decisions read and change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) stores: Stores,
    pub(crate) sessions: BTreeMap<NodeName, Session>,
    /// How many sessions were opened in this tenure.
    pub(crate) sessions_opened: u64,
    pub(crate) desired: DesiredStates,
    pub(crate) feed: Feed,
    pub(crate) guard: LossGuard,
    started: MonoTime,
}

impl State {
    pub(crate) fn new(epoch: Epoch, started: MonoTime) -> Self {
        Self {
            stores: Stores { awaiting: true, ..Stores::default() },
            sessions: BTreeMap::new(),
            sessions_opened: 0,
            desired: DesiredStates::new(epoch),
            feed: Feed::new(epoch),
            guard: LossGuard::default(),
            started,
        }
    }

    /// Lets leases end that were not renewed, and looks whether too many did. Whether anything changed.
    pub(crate) fn expire(&mut self, now: MonoTime, lease: Duration) -> bool {
        let (awaited, suspicious) = (self.stores.awaiting, self.guard.is_suspicious());
        self.stores.awaiting = now - self.started < lease;
        let ended = self.end_leases(now, lease);
        self.guard.update(&self.stores, now, lease, MASS_LOSS_LIMIT);
        if self.guard.is_suspicious() != suspicious {
            let suspicious = !suspicious;
            tracing::warn!(
                suspicious,
                "most members were lost at once, or are back: placement stops or goes on"
            );
        }
        ended || awaited != self.stores.awaiting || suspicious != self.guard.is_suspicious()
    }

    fn end_leases(&mut self, now: MonoTime, lease: Duration) -> bool {
        let mut ended = false;
        for (node, _) in self.sessions.iter().filter(|(_, session)| now - session.heard > lease) {
            let Some(seen) = self.stores.observed.get_mut(node) else { continue };
            match seen.state {
                SessionState::Live => {
                    tracing::warn!(%node, "the node's lease ended: it is lost");
                    seen.state = SessionState::Lost;
                    ended = true;
                }
                SessionState::Stopping => {
                    tracing::info!(%node, "the stopping node fell silent: it is gone");
                    seen.state = SessionState::Gone;
                    seen.segments.clear();
                    ended = true;
                }
                SessionState::Awaited | SessionState::Lost | SessionState::Gone => {}
            }
        }
        ended
    }

    /// Segments that no target holds and no node should.
    pub(crate) fn unused_segments(&self) -> Vec<SegmentId> {
        let targets = self.stores.current.values().chain(self.stores.next.values());
        let mut used: BTreeSet<SegmentId> =
            targets.flat_map(|target| target.segments.iter().copied()).collect();
        used.extend(self.desired.segments());
        self.stores.dropped.keys().filter(|id| !used.contains(id)).copied().collect()
    }
}
