//! Where the segments of one query are, and where they were before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::UnavailableCause;
use url::Url;

use super::leg::Leg;
use crate::{
    failure::QueryError,
    location::SegmentPath,
    router::{FailedPart, FailedScan, Routed, Unavailable},
    scans::{CollectionScan, check},
};

/// The routing of one query while it runs. Several stages may scan the same segment: all of them follow one way.
#[derive(Debug)]
pub(super) struct Moves {
    scans: Arc<Vec<CollectionScan>>,
    /// For each segment that was routed again: where it went, time after time; `None`: nobody answers for it.
    ways: BTreeMap<SegmentPath, Vec<Option<Url>>>,
}

impl Moves {
    pub(super) fn new(scans: Arc<Vec<CollectionScan>>) -> Self {
        Self { scans, ways: BTreeMap::new() }
    }

    /// The routing as it stands.
    pub(super) fn scans(&self) -> &Arc<Vec<CollectionScan>> {
        &self.scans
    }

    /// What of a failed leg has to be routed again; `None`: other stages saw to all of it.
    pub(super) fn open(&self, leg: &Leg, error: QueryError) -> Option<FailedPart> {
        let lacking = match &error {
            QueryError::NotLoaded { segments, .. } => lacking(leg, segments),
            _ => BTreeSet::new(),
        };
        let is_open = |segment: &SegmentPath| {
            leg.segments.contains(segment) && self.ways.get(segment).map_or(0, Vec::len) == leg.hop
        };
        let scans = self.scans.iter().filter_map(|scan| {
            let parts = scan.parts.iter().filter(|part| part.url == leg.url);
            let path = |at: &u32| SegmentPath::of(&scan.collection, *at);
            let segments = parts.flat_map(|part| part.segments.iter().copied());
            let segments: Vec<u32> =
                segments.filter(|at| path(at).is_some_and(|path| is_open(&path))).collect();
            let lacks = |at: &&u32| path(at).is_some_and(|path| lacking.contains(&path));
            let lacking = segments.iter().filter(lacks).copied().collect();
            let collection = Arc::clone(&scan.collection);
            (!segments.is_empty()).then_some(FailedScan { collection, segments, lacking })
        });
        let scans: Vec<_> = scans.collect();
        (!scans.is_empty()).then(|| FailedPart { node: leg.url.clone(), error, scans })
    }

    /// Notes where the segments of a failed part go; `false`, with nothing noted, when the choice leaves segments out.
    pub(super) fn record(&mut self, failed: &FailedPart, routed: Vec<Routed>) -> bool {
        let is_whole = |(scan, routed): (&FailedScan, &Routed)| {
            let served = check(&scan.collection, &scan.segments, routed);
            served.is_ok_and(|served| served.len() + routed.unavailable.len() == scan.segments.len())
        };
        if routed.len() != failed.scans.len() || !failed.scans.iter().zip(&routed).all(is_whole) {
            return false;
        }
        for (scan, routed) in failed.scans.iter().zip(routed) {
            self.go(scan, &routed);
            let known = Arc::make_mut(&mut self.scans);
            let known = known.iter_mut().find(|known| known.collection.name == scan.collection.name);
            if let Some(known) = known {
                known.take(&failed.node, &scan.segments);
                known.place(routed);
            }
        }
        true
    }

    /// Notes that nobody answers in time for the segments of a leg.
    pub(super) fn silent(&mut self, leg: &Leg) {
        let Some(open) = self.open(leg, QueryError::Cancelled) else { return };
        let routed = open.scans.iter().map(|scan| {
            let known = self.scans.iter().filter(|known| known.collection.name == scan.collection.name);
            let parts = known.flat_map(|known| &known.parts);
            let nodes: Vec<_> =
                parts.filter(|part| part.url == leg.url).map(|part| part.node.clone()).collect();
            let silent = |at: &u32| Unavailable {
                segment: *at,
                cause: UnavailableCause::NodeSilent,
                nodes: nodes.clone(),
            };
            Routed { unavailable: scan.segments.iter().map(silent).collect(), ..Routed::default() }
        });
        let routed = routed.collect();
        self.record(&open, routed);
    }

    fn go(&mut self, scan: &FailedScan, routed: &Routed) {
        let served =
            routed.parts.iter().flat_map(|part| part.segments.iter().map(|at| (*at, Some(part.url.clone()))));
        let unavailable = routed.unavailable.iter().map(|unavailable| (unavailable.segment, None));
        for (at, to) in served.chain(unavailable) {
            if let Some(path) = SegmentPath::of(&scan.collection, at) {
                self.ways.entry(path).or_default().push(to);
            }
        }
    }

    /// Who takes over a failed leg; `None` when somebody's segments have no way.
    pub(super) fn successors(&self, leg: &Leg) -> Option<BTreeMap<Url, BTreeSet<SegmentPath>>> {
        let mut successors: BTreeMap<Url, BTreeSet<SegmentPath>> = BTreeMap::new();
        for segment in &leg.segments {
            if let Some(url) = self.ways.get(segment)?.get(leg.hop)? {
                successors.entry(url.clone()).or_default().insert(segment.clone());
            }
        }
        Some(successors)
    }
}

/// The segments of a leg that its node lacks. A report that names none of them, or one that was not asked for, proves
/// nothing but that something is missing: then all count.
fn lacking(leg: &Leg, reported: &[SegmentPath]) -> BTreeSet<SegmentPath> {
    let reported: BTreeSet<SegmentPath> = reported.iter().cloned().collect();
    if reported.is_empty() || !reported.is_subset(&leg.segments) { leg.segments.clone() } else { reported }
}
