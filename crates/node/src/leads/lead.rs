//! One shard that is led.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use imbl::OrdMap;
use pointsman_ids::SegmentId;
use pointsman_proto::node::v1 as pb;

/// Segments with the number of the node that holds each. A clone shares everything.
pub(crate) type Hosts = OrdMap<SegmentId, u64>;

/// What a leader answers for: the coordinator has synced it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    target_version: u64,
    /// Segments with their rows.
    listed: OrdMap<SegmentId, u64>,
    rows: u64,
    partitions: Vec<String>,
}

impl View {
    fn new(view: &pb::View) -> Self {
        let listed: OrdMap<SegmentId, u64> =
            view.segments.iter().map(|id| SegmentId(*id)).zip(view.rows.iter().copied()).collect();
        let rows = listed.values().sum();
        Self { target_version: view.target_version, listed, rows, partitions: view.partitions.clone() }
    }
}

/// How a lead stands at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeadState {
    /// Name of the collection, for people.
    pub(crate) collection: String,
    /// The replica for which it leads.
    pub(crate) replica: u64,
    /// Version of the lead.
    pub(crate) version: u64,
    /// Segments of the shard that can be reached, and where.
    pub(crate) reach: Hosts,
    view: Option<View>,
    /// Of the view's segments, how many can be reached.
    present: usize,
    /// Rows of those.
    rows: u64,
    by_host: ByHost,
}

/// The view's segments by the node that holds each: gathered when a request needs it first, and told by the rest.
#[derive(Debug, Default)]
struct ByHost(OnceLock<BTreeMap<u64, Vec<SegmentId>>>);

impl Clone for ByHost {
    /// What is cloned is about to change.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for ByHost {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ByHost {}

impl LeadState {
    fn new(version: u64) -> Self {
        let (collection, replica) = (String::new(), 0);
        let (reach, by_host) = (Hosts::new(), ByHost::default());
        Self { collection, replica, version, reach, view: None, present: 0, rows: 0, by_host }
    }

    /// The target that the view is from; 0: there is no view yet.
    pub(crate) fn target_version(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.target_version)
    }

    /// Number of segments that the view lists.
    pub(crate) fn listed(&self) -> usize {
        self.view.as_ref().map_or(0, |view| view.listed.len())
    }

    /// Names of the partitions that the view's target covers.
    pub(crate) fn partitions(&self) -> &[String] {
        self.view.as_ref().map_or(&[], |view| &view.partitions)
    }

    /// How much of the view's rows can be reached, 0 to 1: 1 if it lists no segment, 0 if none of its rows is there.
    pub(crate) fn loaded_ratio(&self) -> f64 {
        let Some(view) = &self.view else { return 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people; what decides is counted")]
        match (self.present == view.listed.len(), self.rows) {
            (true, _) => 1.0,
            (false, 0) => 0.0,
            (false, rows) => rows as f64 / view.rows as f64,
        }
    }

    /// Whether it can answer for its shard: its view is synced, and every segment of it can be reached. Segments without
    /// rows count, too: they are part of what is answered for.
    pub(crate) fn is_serviceable(&self) -> bool {
        self.view.as_ref().is_some_and(|view| self.present == view.listed.len())
    }

    /// The segments of the view that can be reached, by the number of the node that holds each.
    pub(crate) fn by_host(&self) -> &BTreeMap<u64, Vec<SegmentId>> {
        self.by_host.0.get_or_init(|| {
            let mut by_host: BTreeMap<u64, Vec<SegmentId>> = BTreeMap::new();
            let listed = self.view.iter().flat_map(|view| view.listed.keys());
            for (segment, host) in listed.filter_map(|segment| Some((*segment, *self.reach.get(segment)?))) {
                by_host.entry(host).or_default().push(segment);
            }
            by_host
        })
    }

    /// Of the view's segments, how many can be reached.
    pub(crate) fn present(&self) -> usize {
        self.present
    }

    /// Takes a view, in the place of the one that it has.
    fn sync(&mut self, view: &pb::View) {
        self.by_host = ByHost::default();
        let view = View::new(view);
        let present = view.listed.iter().filter(|(id, _)| self.reach.contains_key(*id));
        (self.present, self.rows) = present.fold((0, 0), |(count, sum), (_, rows)| (count + 1, sum + rows));
        self.view = Some(view);
    }

    /// A segment can be reached there, or not at all.
    fn reach(&mut self, segment: SegmentId, host: Option<u64>) {
        self.by_host = ByHost::default();
        let was = match host {
            Some(host) => self.reach.insert(segment, host).is_some(),
            None => self.reach.remove(&segment).is_some(),
        };
        let Some(rows) = self.view.as_ref().and_then(|view| view.listed.get(&segment)) else { return };
        match (was, host.is_some()) {
            (false, true) => (self.present, self.rows) = (self.present + 1, self.rows + rows),
            (true, false) => (self.present, self.rows) = (self.present - 1, self.rows - rows),
            _ => {}
        }
    }
}

/// A lead with what the coordinator said of it.
#[derive(Debug)]
pub(crate) struct Lead {
    /// Who holds what, by the coordinator's word.
    told: Hosts,
    /// What came of it.
    pub(crate) state: LeadState,
}

impl Lead {
    pub(crate) fn new() -> Self {
        Self { told: Hosts::new(), state: LeadState::new(0) }
    }

    /// Takes a change, or with `whole` all that there is to say of it. `holds` says what this node, of number `own`,
    /// holds.
    pub(crate) fn change(
        &mut self,
        change: &pb::DesiredLead,
        whole: bool,
        own: u64,
        holds: &BTreeSet<SegmentId>,
    ) {
        self.state.collection.clone_from(&change.collection);
        (self.state.replica, self.state.version) = (change.replica_id, change.version);
        let hosts = || change.segments.iter().map(|id| SegmentId(*id)).zip(change.hosts.iter().copied());
        if whole {
            let named: BTreeSet<SegmentId> = hosts().map(|(segment, _)| segment).collect();
            let gone: Vec<SegmentId> = self.told.keys().filter(|id| !named.contains(*id)).copied().collect();
            gone.into_iter().for_each(|segment| self.forget(segment));
        }
        change.removed.iter().for_each(|id| self.forget(SegmentId(*id)));
        for (segment, host) in hosts() {
            self.told.insert(segment, host);
            self.state.reach(segment, Some(host).filter(|host| *host != own || holds.contains(&segment)));
        }
        if let Some(view) = &change.view {
            self.state.sync(view);
        }
    }

    fn forget(&mut self, segment: SegmentId) {
        self.told.remove(&segment);
        self.state.reach(segment, None);
    }

    /// This node, of number `own`, holds a segment now or does not any more.
    pub(crate) fn hold(&mut self, segment: SegmentId, holds: bool, own: u64) {
        if self.told.get(&segment) == Some(&own) {
            self.state.reach(segment, Some(own).filter(|_| holds));
        }
    }
}
