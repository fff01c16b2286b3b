//! The parts of one query, in all its attempts: who is asked for what, and what is asked for again.
//!
//! What is decided, and what counts, is the word of [`Parts`]; here stand the segments by position, as routing and the
//! engine name them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_engine::{CollectionScan, FailedPart, FailedScan, QueryError, Rerouted, Routed, Unavailable};
use pointsman_ids::{
    CollectionName, Error, NodeKey, Result, SegmentName, UnavailableCause, feed::CollectionEntry,
};
use pointsman_routing::RoutingTable;
use pointsman_scatter::{
    Attempts, Coverage, Decision, Failure, Lacking, Next, NodesOfParts, Parts, Pick, Place, RouteAgain,
    Silence,
};

use super::router::routed;
use crate::metrics::{self, PartOutcome};

#[cfg(test)]
mod tests;

/// The tries of one query.
#[derive(Debug)]
pub(super) struct Tries {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    parts: Parts,
    /// Those of the attempt that runs, by number.
    scans: Vec<Scan>,
    /// Segments for which excluded nodes were asked, in any attempt.
    tried_open: BTreeSet<(CollectionName, SegmentName)>,
    /// What was decided on the whole query while the attempt ran.
    verdict: Option<Decision>,
}

/// The segments that a scan asks for.
#[derive(Debug)]
struct Scan {
    collection: Arc<CollectionEntry>,
    /// Positions, ascending; the place of a segment is its index here.
    segments: Vec<u32>,
}

/// What a retry needs of the attempt's router.
pub(super) trait Choose {
    /// The routing table for segments of a collection without some nodes.
    ///
    /// # Errors
    /// Those of routing.
    fn choose(
        &self,
        collection: &CollectionEntry,
        segments: &[u32],
        without: &BTreeSet<NodeKey>,
    ) -> Result<RoutingTable>;

    /// Begins a call to a node.
    ///
    /// # Errors
    /// `service_too_many_requests` when the node has no place to give.
    fn begin(&self, node: &NodeKey) -> Result<()>;
}

impl Tries {
    /// The tries of a query that goes as far as `attempts` say.
    pub(super) fn new(attempts: Attempts) -> Self {
        let parts = Parts::new(attempts).moving_alone();
        let state = State { parts, scans: vec![], tried_open: BTreeSet::new(), verdict: None };
        Self { state: Mutex::new(state) }
    }

    /// The tries of the query as a whole, as they stand.
    pub(super) fn attempts(&self) -> Attempts {
        self.state.lock().parts.attempts().clone()
    }

    /// An attempt is sent, routed like this. `together` tells which segments of a scan must not be torn apart. Rows of
    /// a query that is not `single_stage` cannot be taken back.
    ///
    /// # Errors
    /// `service_internal` when a segment is asked of two nodes.
    pub(super) fn sent(
        &self,
        scans: &[CollectionScan],
        together: impl Fn(&CollectionScan) -> Vec<Option<u32>>,
        single_stage: bool,
        now: Duration,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.verdict = None;
        state.scans.clear();
        let mut picks: BTreeMap<&NodeKey, Vec<Pick>> = BTreeMap::new();
        for routed in scans {
            let scan = Scan::of(routed);
            let number = state.parts.add_scan(together(routed));
            for part in &routed.parts {
                let fail_open = |at: &u32| routed.fail_open.binary_search(at).is_ok();
                let pick =
                    |at: &u32| Some(Pick { place: scan.place(number, *at)?, fail_open: fail_open(at) });
                picks.entry(&part.node).or_default().extend(part.segments.iter().filter_map(pick));
            }
            for missing in &routed.unavailable {
                if let Some(place) = scan.place(number, missing.segment) {
                    state.parts.unroutable(place, missing.cause, missing.nodes.clone());
                    if state.tried_open.contains(&name(&scan.collection, missing.segment)) {
                        state.parts.tried_open(place);
                    }
                }
            }
            state.tried_open.extend(routed.fail_open.iter().map(|at| name(&scan.collection, *at)));
            state.scans.push(scan);
        }
        for (node, picks) in picks {
            let part = state.parts.sent(node.clone(), picks, now)?;
            if !single_stage {
                state.parts.passed_on(part);
            }
        }
        Ok(())
    }

    /// A part failed while its rows could still be thrown away: where do its segments go?
    pub(super) fn reroute(
        &self,
        failed: &FailedPart,
        node: &NodeKey,
        error: Error,
        router: &impl Choose,
        now: Duration,
    ) -> Rerouted {
        let mut state = self.state.lock();
        let Some(places) = state.places(&failed.scans) else { return Rerouted::Whole };
        let Some(part) = state.parts.part_of(node, &places) else { return Rerouted::Whole };
        metrics::parts(PartOutcome::Failed, 1);
        let failure = match &failed.error {
            QueryError::NotLoaded { .. } => {
                Failure::NotLoaded { error, lacking: state.lacking(&failed.scans) }
            }
            _ => Failure::Node(error),
        };
        let next = state.parts.failed(part, failure, now);
        let Some(again) = state.follow(next) else { return Rerouted::Whole };
        if !again.is_empty() {
            metrics::part_rerouted(&failed.error);
        }
        match state.route(again, router, now) {
            Some(routed) => Rerouted::Parts(state.whole(&failed.scans, routed)),
            None => Rerouted::Whole,
        }
    }

    /// What was decided on the whole query while the attempt ran, once.
    pub(super) fn verdict(&self) -> Option<Decision> {
        self.state.lock().verdict.take()
    }

    /// The attempt failed as a whole because of these nodes; without any, because the routing lags.
    pub(super) fn broke(&self, nodes: Vec<NodeKey>, error: &Error, now: Duration) -> Decision {
        metrics::parts(PartOutcome::Failed, nodes.len());
        let nodes = nodes.into_iter().map(|node| (node, error.clone()));
        self.state.lock().parts.broke(nodes, error.clone(), now)
    }

    /// All rows have come.
    pub(super) fn all_ended(&self) {
        let mut state = self.state.lock();
        state.parts.all_ended();
        metrics::parts(PartOutcome::Answered, state.parts.nodes().answered.len());
    }

    /// The deadline has passed. Nodes that are routed to and are not `running` have answered.
    pub(super) fn time_is_up(&self, scans: &[CollectionScan], running: &BTreeSet<NodeKey>) -> Silence {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut asked: BTreeMap<&NodeKey, BTreeSet<Place>> = BTreeMap::new();
        for routed in scans {
            let Some((number, scan)) = state.scan(&routed.collection) else { continue };
            for part in routed.parts.iter().filter(|part| !running.contains(&part.node)) {
                let places = part.segments.iter().filter_map(|at| scan.place(number, *at));
                asked.entry(&part.node).or_default().extend(places);
            }
        }
        let answered = asked.len();
        for (node, places) in asked {
            if let Some(part) = state.parts.part_of(node, &places) {
                state.parts.ended(part);
            }
        }
        let silence = state.parts.time_is_up();
        metrics::parts(PartOutcome::Answered, answered);
        metrics::parts(PartOutcome::Silent, silence.nodes.len());
        silence
    }

    /// Whom the answer rests on.
    pub(super) fn nodes(&self) -> NodesOfParts {
        self.state.lock().parts.nodes()
    }

    /// Nodes that failed in this attempt and left segments that nobody answers for, with how.
    pub(super) fn not_made_good(&self) -> BTreeMap<NodeKey, Error> {
        let state = self.state.lock();
        let failed = state.parts.not_made_good();
        failed.into_iter().map(|(node, error)| (node.clone(), error.clone())).collect()
    }

    /// Adds what is known of segments and nodes to a report.
    pub(super) fn cover(&self, coverage: &mut Coverage) {
        let state = self.state.lock();
        let name = |place: Place| {
            let scan = &state.scans[place.scan];
            name(&scan.collection, scan.segments[place.at])
        };
        state.parts.cover(coverage, name);
    }

    /// Whether an excluded node was asked for a segment, in any attempt.
    pub(super) fn was_tried_open(&self, collection: &CollectionEntry, at: u32) -> bool {
        self.state.lock().tried_open.contains(&name(collection, at))
    }
}

impl Scan {
    fn of(routed: &CollectionScan) -> Self {
        let served = routed.parts.iter().flat_map(|part| part.segments.iter().copied());
        let mut segments: Vec<u32> =
            served.chain(routed.unavailable.iter().map(|missing| missing.segment)).collect();
        segments.sort_unstable();
        segments.dedup();
        Self { collection: Arc::clone(&routed.collection), segments }
    }

    fn place(&self, number: usize, position: u32) -> Option<Place> {
        let at = self.segments.binary_search(&position).ok()?;
        Some(Place { scan: number, at })
    }
}

impl State {
    fn scan(&self, collection: &CollectionEntry) -> Option<(usize, &Scan)> {
        self.scans.iter().enumerate().find(|(_, scan)| scan.collection.name == collection.name)
    }

    /// The places of all segments of a failed part; `None`: it is of another attempt.
    fn places(&self, scans: &[FailedScan]) -> Option<BTreeSet<Place>> {
        let of_scan = |failed: &FailedScan| {
            let (number, scan) = self.scan(&failed.collection)?;
            let place = |at: &u32| scan.place(number, *at);
            failed.segments.iter().map(place).collect::<Option<Vec<_>>>()
        };
        let places = scans.iter().map(of_scan).collect::<Option<Vec<_>>>()?;
        Some(places.into_iter().flatten().collect())
    }

    fn lacking(&self, scans: &[FailedScan]) -> Lacking {
        let of_scan = |failed: &FailedScan| {
            let (number, scan) = self.scan(&failed.collection)?;
            Some(failed.lacking.iter().filter_map(|at| scan.place(number, *at)).collect::<Vec<_>>())
        };
        Lacking::These(scans.iter().filter_map(of_scan).flatten().collect())
    }

    /// What is to be routed again; `None`: the part is not made good, and the verdict says what that means.
    fn follow(&mut self, next: Next) -> Option<Vec<RouteAgain>> {
        match next {
            Next::GoOn { again, .. } => return Some(again),
            Next::StartOver => self.verdict = Some(Decision::Again),
            Next::GiveUp(error) => self.verdict = Some(Decision::GiveUp(error)),
            Next::Ignored => {}
        }
        None
    }

    /// Routes until every segment has a node that takes it, or nobody; by number of the scan.
    fn route(
        &mut self,
        mut open: Vec<RouteAgain>,
        router: &impl Choose,
        now: Duration,
    ) -> Option<BTreeMap<usize, Vec<Routed>>> {
        let mut chosen: BTreeMap<usize, Vec<Routed>> = BTreeMap::new();
        while let Some(RouteAgain { scan: number, segments, without }) = open.pop() {
            let scan = self.scans.get(number)?;
            let collection = Arc::clone(&scan.collection);
            let positions: Vec<u32> =
                segments.iter().filter_map(|at| scan.segments.get(*at).copied()).collect();
            // Where nothing can be chosen, nobody answers.
            let table = router.choose(&collection, &positions, &without).ok();
            let mut routed = table.map(routed).unwrap_or_default();
            let mut taken = vec![];
            for part in std::mem::take(&mut routed.parts) {
                let scan = self.scans.get(number)?;
                let pick = |at: &u32| {
                    let fail_open = routed.fail_open.binary_search(at).is_ok();
                    Some(Pick { place: scan.place(number, *at)?, fail_open })
                };
                let picks: Vec<Pick> = part.segments.iter().filter_map(pick).collect();
                let sent = self.parts.sent(part.node.clone(), picks, now).ok()?;
                match router.begin(&part.node) {
                    Ok(()) => taken.push(part),
                    Err(full) => {
                        let next = self.parts.failed(sent, Failure::Node(full), now);
                        open.extend(self.follow(next)?);
                    }
                }
            }
            self.tried_open.extend(routed.fail_open.iter().map(|at| name(&collection, *at)));
            routed.parts = taken;
            chosen.entry(number).or_default().push(routed);
        }
        Some(chosen)
    }

    /// The choice in the engine's form, scan by scan. Who has no node has used up its retries.
    fn whole(&mut self, scans: &[FailedScan], mut chosen: BTreeMap<usize, Vec<Routed>>) -> Vec<Routed> {
        let whole = |failed: &FailedScan| {
            let Some((number, scan)) = self.scan(&failed.collection) else { return Routed::default() };
            let mut routed = Routed::default();
            for more in chosen.remove(&number).unwrap_or_default() {
                routed.parts.extend(more.parts);
                routed.fail_open.extend(more.fail_open);
            }
            routed.fail_open.sort_unstable();
            let served: BTreeSet<u32> = routed.parts.iter().flat_map(|part| part.segments.clone()).collect();
            routed.fail_open.retain(|at| served.contains(at));
            let left = failed.segments.iter().filter(|at| !served.contains(at));
            let unavailable = |at: &u32| {
                let nodes = scan.place(number, *at).map(|place| self.parts.nodes_concerned(place));
                let nodes = nodes.unwrap_or_default();
                Unavailable { segment: *at, cause: UnavailableCause::RetriesUsedUp, nodes }
            };
            routed.unavailable = left.map(unavailable).collect();
            routed
        };
        let whole: Vec<Routed> = scans.iter().map(whole).collect();
        for (failed, routed) in scans.iter().zip(&whole) {
            let Some((number, scan)) = self.scan(&failed.collection) else { continue };
            let missing = routed.unavailable.iter();
            let missing: Vec<Place> =
                missing.filter_map(|missing| scan.place(number, missing.segment)).collect();
            for place in missing {
                self.parts.unroutable(place, UnavailableCause::RetriesUsedUp, vec![]);
            }
        }
        whole
    }
}

fn name(collection: &CollectionEntry, at: u32) -> (CollectionName, SegmentName) {
    (collection.name.clone(), collection.segments[at as usize].name.clone())
}
