//! What an active coordinator has in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, Epoch, NodeName, SegmentId};
use pointsman_query_coord::{CarriedCounts, Changes, LossGuard, SessionState, Stores, Tasks};
use pointsman_settings::CoordinatorSettings;
use tokio::sync::Notify;

use crate::{
    balance::Rounds,
    cadence::{Cadence, Due},
    desired::DesiredStates,
    feed::Feed,
    leads::DesiredLeads,
    leaving::Leavers,
    rules::Rules,
    sessions::Session,
};

/// Everything that decisions read and change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) stores: Stores,
    pub(crate) sessions: BTreeMap<NodeName, Session>,
    /// How many sessions were opened in this tenure.
    pub(crate) sessions_opened: u64,
    pub(crate) desired: DesiredStates,
    pub(crate) leads: DesiredLeads,
    /// What the progress observer remembers.
    pub(crate) carried: CarriedCounts,
    pub(crate) feed: Feed,
    /// Collections whose shard leaders brokers are to ask for again, since they were told last.
    pub(crate) leader_drops: BTreeSet<CollectionId>,
    pub(crate) guard: LossGuard,
    pub(crate) rounds: Rounds,
    pub(crate) cadence: Cadence,
    /// Observers that look now.
    pub(crate) due: Due,
    /// Work that nodes were given.
    pub(crate) tasks: Tasks,
    pub(crate) leavers: Leavers,
    /// Wakes the group observer: nodes, groups or members changed.
    pub(crate) group_news: Arc<Notify>,
    pub(crate) rules: Rules,
    /// Loads that were there at the start were taken up.
    pub(crate) recovered: bool,
    /// Collections of which failures are known that are not written yet.
    pub(crate) unsaved_failures: BTreeSet<CollectionId>,
    /// Loads that stand still, with the time when that was said last.
    pub(crate) stalled: BTreeMap<CollectionId, MonoTime>,
    /// What changed since things were placed last.
    unplaced: Changes,
    /// What changed since nodes and brokers were told.
    untold: Changes,
    /// Since when nodes are waited for that were not heard in this tenure; `None`: no more.
    waiting_since: Option<MonoTime>,
}

impl State {
    pub(crate) fn new(epoch: Epoch, started: MonoTime) -> Self {
        Self {
            stores: Stores { awaiting: true, ..Stores::default() },
            sessions: BTreeMap::new(),
            sessions_opened: 0,
            desired: DesiredStates::new(epoch),
            leads: DesiredLeads::new(epoch),
            carried: CarriedCounts::default(),
            feed: Feed::new(epoch),
            leader_drops: BTreeSet::new(),
            guard: LossGuard::default(),
            rounds: Rounds::default(),
            cadence: Cadence::default(),
            due: Due::ON_DEMAND,
            tasks: Tasks::default(),
            leavers: Leavers::default(),
            group_news: Arc::default(),
            rules: Rules::default(),
            recovered: false,
            unsaved_failures: BTreeSet::new(),
            stalled: BTreeMap::new(),
            unplaced: Changes::default(),
            untold: Changes::default(),
            waiting_since: Some(started),
        }
    }

    /// Finds what changed, for each of those who ask for it.
    fn note_changes(&mut self) {
        let changes = self.stores.changes();
        self.unplaced.extend(&changes);
        self.untold.extend(&changes);
    }

    /// What changed since things were placed last. It counts as placed.
    pub(crate) fn take_unplaced(&mut self) -> Changes {
        self.note_changes();
        std::mem::take(&mut self.unplaced)
    }

    /// What changed since nodes and brokers were told. It counts as told.
    pub(crate) fn take_untold(&mut self) -> Changes {
        self.note_changes();
        std::mem::take(&mut self.untold)
    }

    /// Lets leases end that were not renewed, and looks whether too many did. Whether anything changed.
    pub(crate) fn expire(&mut self, now: MonoTime, settings: &CoordinatorSettings) -> bool {
        let lease = settings.node_lease_ttl;
        let (awaited, suspicious) = (self.stores.awaiting, self.guard.is_suspicious());
        let over = self.waiting_since.is_none_or(|since| now - since >= lease);
        self.stores.awaiting = !over;
        let ended = self.end_leases(now, lease);
        self.guard.update(&self.stores, now, lease, settings.mass_loss_limit);
        if over && self.waiting_since.is_some() {
            self.stop_waiting(suspicious, now);
        }
        if self.guard.is_suspicious() != suspicious {
            let suspicious = !suspicious;
            tracing::warn!(
                suspicious,
                "most members were lost at once, or are back: placement stops or goes on"
            );
        }
        let forgotten = self.stores.expire_failures(now);
        ended || forgotten || awaited != self.stores.awaiting || suspicious != self.guard.is_suspicious()
    }

    /// Nodes that were never heard count as lost from now on. As long as it may be that nobody can be heard here, brokers
    /// keep what they have of them; once most are back, the rest have the time of a lease for it as well.
    fn stop_waiting(&mut self, was_suspicious: bool, now: MonoTime) {
        self.waiting_since = match (self.guard.is_suspicious(), was_suspicious) {
            (true, _) => self.waiting_since,
            (false, true) => Some(now),
            (false, false) => None,
        };
        self.stores.awaiting = self.waiting_since.is_some();
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
                    self.stores.clear_reports(node);
                    self.stores.distribution.remove_node(node);
                    ended = true;
                }
                SessionState::Awaited | SessionState::Lost | SessionState::Gone => {}
            }
        }
        ended
    }

    /// Segments that no target holds and no node should. Brokers are told first that they are out.
    pub(crate) fn unused_segments(&self) -> Vec<SegmentId> {
        if !self.untold.is_empty() {
            return Vec::new();
        }
        let used = |id: &SegmentId| {
            let row = self.stores.whereabouts.row(*id);
            let wanted = row.is_some_and(|row| row.is_wanted() || row.slots().any(|slot| slot.is_wished()));
            wanted || self.desired.is_leaving(*id)
        };
        self.stores.dropped.keys().filter(|id| !used(id)).copied().collect()
    }
}
