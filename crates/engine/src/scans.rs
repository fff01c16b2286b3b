//! What the scans of one query asked the router for, and what it chose.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_ids::{Error, ErrorCode, Result, feed::CollectionEntry};
use url::{Host, Url};

use crate::{
    catalog::CollectionTable,
    location::SegmentPath,
    router::{Part, Routed, Router, Unavailable},
};

/// Fewest tasks of a stage that scans: with one task the engine would move the scan into the broker.
const MIN_SLOTS: usize = 2;

/// All scans of one collection in one query.
#[derive(Clone, Debug)]
pub struct CollectionScan {
    /// The collection.
    pub collection: Arc<CollectionEntry>,
    /// Number of segments that statistics left out of every scan.
    pub pruned: u32,
    /// Positions of the segments that at least one scan asked for, ascending.
    pub asked: Vec<u32>,
    /// Who answers for what, by node, ascending.
    pub parts: Vec<Part>,
    /// Segments that nobody can answer for, ascending. The query runs without them.
    pub unavailable: Vec<Unavailable>,
    /// Segments of `parts` that go to an excluded node because nothing healthy holds them, ascending.
    pub fail_open: Vec<u32>,
}

/// The scans of one query while it is planned.
#[derive(Debug)]
pub(crate) struct Scans {
    router: Arc<dyn Router>,
    /// Upper stages run in the broker.
    gather: bool,
    chosen: Mutex<Chosen>,
}

#[derive(Debug, Default)]
struct Chosen {
    urls: BTreeSet<Url>,
    /// Who scans a segment.
    nodes: BTreeMap<SegmentPath, Url>,
    collections: BTreeMap<String, CollectionScan>,
    /// Made when it is first asked for after the last scan was planned.
    assignment: Option<Arc<Assignment>>,
}

/// The tasks of every stage that scans: slot `i` is task `i` is URL `i`, for all scans of the query.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) slots: Vec<Url>,
    pub(crate) segments: BTreeMap<SegmentPath, usize>,
}

impl Scans {
    pub(crate) fn new(router: Arc<dyn Router>, gather: bool) -> Self {
        Self { router, gather, chosen: Mutex::default() }
    }

    /// Whether upper stages run in the broker.
    pub(crate) fn gather(&self) -> bool {
        self.gather
    }

    /// Routes the segments of one scan and returns the positions of those that somebody answers for, ascending.
    ///
    /// # Errors
    /// The router's; `service_internal` when it chose what was not asked for or chose twice.
    pub(crate) fn route(&self, table: &CollectionTable, segments: &[u32]) -> Result<Vec<u32>> {
        let entry = table.entry();
        let routed = self.router.route(entry, segments)?;
        let served = check(entry, segments, &routed)?;
        let mut chosen = self.chosen.lock();
        chosen.assignment = None;
        for part in &routed.parts {
            chosen.urls.insert(part.url.clone());
            for segment in part.segments.iter().filter_map(|at| SegmentPath::of(entry, *at)) {
                match chosen.nodes.entry(segment) {
                    Entry::Occupied(known) if *known.get() != part.url => {
                        let name = &known.key().segment;
                        return Err(internal(format!(
                            "segment '{name}' was routed to two nodes in one query"
                        )));
                    }
                    known => drop(known.or_insert_with(|| part.url.clone())),
                }
            }
        }
        let scan =
            chosen.collections.entry(entry.name.to_string()).or_insert_with(|| CollectionScan::new(entry));
        scan.add(segments, routed);
        Ok(served)
    }

    /// The slots as they stand. Final once all scans are planned.
    pub(crate) fn assignment(&self) -> Arc<Assignment> {
        let mut chosen = self.chosen.lock();
        if let Some(known) = &chosen.assignment {
            return Arc::clone(known);
        }
        let assignment = Arc::new(Assignment::new(&chosen));
        chosen.assignment = Some(Arc::clone(&assignment));
        assignment
    }

    /// By name of the collection, ascending.
    pub(crate) fn collections(&self) -> Vec<CollectionScan> {
        self.chosen.lock().collections.values().cloned().collect()
    }

    pub(crate) fn stage_urls(&self) -> Vec<Url> {
        self.router.stage_nodes().into_iter().map(|(_, url)| url).collect()
    }

    /// Whether rows never leave this host: all workers that can take part are reached by loopback.
    pub(crate) fn stay_on_host(&self) -> bool {
        self.stage_urls().iter().chain(&self.assignment().slots).all(is_loopback)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl Assignment {
    fn new(chosen: &Chosen) -> Self {
        let mut slots: Vec<Url> = chosen.urls.iter().cloned().collect();
        let slot = |node: &Url| slots.binary_search(node).ok();
        let segments =
            chosen.nodes.iter().filter_map(|(segment, node)| Some((segment.clone(), slot(node)?))).collect();
        if let Some(first) = slots.first().cloned() {
            slots.resize(slots.len().max(MIN_SLOTS), first);
        }
        Self { slots, segments }
    }

    /// The slot that scans the segment: the first with the URL of its node.
    pub(crate) fn slot(&self, segment: &SegmentPath) -> Option<usize> {
        self.segments.get(segment).copied()
    }
}

impl CollectionScan {
    fn new(collection: &Arc<CollectionEntry>) -> Self {
        Self {
            collection: Arc::clone(collection),
            pruned: u32::try_from(collection.segments.len()).unwrap_or(u32::MAX),
            asked: vec![],
            parts: vec![],
            unavailable: vec![],
            fail_open: vec![],
        }
    }

    fn add(&mut self, asked: &[u32], routed: Routed) {
        unite(&mut self.asked, asked);
        self.place(routed);
        let asked = u32::try_from(self.asked.len()).unwrap_or(u32::MAX);
        self.pruned = u32::try_from(self.collection.segments.len()).unwrap_or(u32::MAX).saturating_sub(asked);
    }

    /// Takes segments, ascending, away from a node.
    pub(crate) fn take(&mut self, node: &Url, segments: &[u32]) {
        let stays = |segment: &u32| segments.binary_search(segment).is_err();
        for part in self.parts.iter_mut().filter(|part| part.url == *node) {
            part.segments.retain(stays);
        }
        self.parts.retain(|part| !part.segments.is_empty());
        self.fail_open.retain(stays);
    }

    /// Gives segments that no node has to the nodes that were chosen.
    pub(crate) fn place(&mut self, routed: Routed) {
        unite(&mut self.fail_open, &routed.fail_open);
        for part in routed.parts {
            match self.parts.iter_mut().find(|known| known.node == part.node) {
                Some(known) => unite(&mut known.segments, &part.segments),
                None => self.parts.push(part),
            }
        }
        self.parts.sort_by(|one, other| one.node.cmp(&other.node));
        self.unavailable.extend(routed.unavailable);
        self.unavailable.sort_by_key(|unavailable| unavailable.segment);
        self.unavailable.dedup_by_key(|unavailable| unavailable.segment);
    }
}

fn unite(into: &mut Vec<u32>, more: &[u32]) {
    into.extend_from_slice(more);
    into.sort_unstable();
    into.dedup();
}

/// The positions that have a node. What the router chose must be among what was asked for, each once.
pub(crate) fn check(entry: &CollectionEntry, asked: &[u32], routed: &Routed) -> Result<Vec<u32>> {
    let wrong = |why: &str| Err(internal(format!("routing of collection '{}': {why}", entry.name)));
    let mut served: Vec<u32> = routed.parts.iter().flat_map(|part| part.segments.iter().copied()).collect();
    served.sort_unstable();
    if served.windows(2).any(|pair| pair[0] == pair[1]) {
        return wrong("a segment has two nodes");
    }
    let asked: BTreeSet<u32> = asked.iter().copied().collect();
    if !served.iter().all(|segment| asked.contains(segment)) {
        return wrong("a segment was chosen that nobody asked for");
    }
    if routed.unavailable.iter().any(|unavailable| served.binary_search(&unavailable.segment).is_ok()) {
        return wrong("a segment is both routed and unavailable");
    }
    Ok(served)
}

fn internal(why: String) -> Error {
    Error::new(ErrorCode::ServiceInternal, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_address_or_name() {
        let is = |url: &str| is_loopback(&url.parse().expect("a URL"));
        assert!(is("http://127.0.0.1:7301") && is("http://127.1.2.3:1"));
        assert!(is("http://[::1]:7301") && is("http://localhost:7301"));
        assert!(!is("http://10.0.0.1:7301") && !is("http://[fe80::1]:7301"));
        assert!(!is("http://localhost.example.org:7301") && !is("unix:/run/worker"));
    }
}
