//! Loads of segments that failed: who tried what how often, and who has no room.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, Error, NodeName, SegmentId, TargetVersion};

use crate::Stores;

/// A failure that is older than this is forgotten and the segment is tried again: what was wrong may be mended by now.
/// As long as a next target lives that cannot be promoted.
const MEMORY: Duration = Duration::from_secs(300);

/// A load of a segment that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How often the node tried it for this target.
    pub tries: u32,
    /// What went wrong last.
    pub error: Error,
    /// The newest target of the segment's collection at that time.
    pub target: TargetVersion,
    /// When it went wrong last.
    pub at: MonoTime,
}

impl Stores {
    /// Takes a node's word that a try to load a segment ended in a failure. A lack of room also means that the node gets
    /// nothing new for a while.
    pub fn note_failure(&mut self, node: &NodeName, segment: SegmentId, error: Error, now: MonoTime) {
        let collection =
            self.whereabouts.row(segment).filter(|row| row.is_described()).map(|row| row.collection());
        let target = collection.and_then(|collection| self.next_first(collection));
        let target = target.map(|target| target.version).unwrap_or_default();
        self.penalties.note(node, &error, now);
        self.whereabouts.touch(segment);
        let nodes = self.failures.entry(segment).or_default();
        let before = nodes.get(node).filter(|failure| failure.target == target);
        let tries = before.map_or(0, |failure| failure.tries).saturating_add(1);
        nodes.insert(node.clone(), Failure { tries, error, target, at: now });
    }

    /// The node holds the segment: it never failed.
    pub fn forget_failure(&mut self, node: &NodeName, segment: SegmentId) {
        if let Some(nodes) = self.failures.get_mut(&segment) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.failures.remove(&segment);
            }
        }
    }

    /// The node started anew or is forgotten: what it could not do then says nothing.
    pub fn forget_failures_of(&mut self, node: &NodeName) {
        self.penalties.forget(node.as_str());
        let whereabouts = &mut self.whereabouts;
        self.failures.retain(|segment, nodes| {
            if nodes.remove(node).is_some() {
                whereabouts.touch(*segment);
            }
            !nodes.is_empty()
        });
    }

    /// The collection is to be loaded anew: whoever asks for it has mended what was wrong, or wants to see.
    pub fn forget_failures_in(&mut self, collection: CollectionId) {
        let row = |segment: &SegmentId| self.whereabouts.row(*segment).filter(|row| row.is_described());
        let is_in = |segment: &SegmentId| row(segment).is_some_and(|row| row.collection() == collection);
        let segments: Vec<SegmentId> = self.failures.keys().copied().filter(is_in).collect();
        segments.into_iter().for_each(|segment| self.forget_failures_to_load(segment));
    }

    /// The object of a segment was put in order: its nodes may try again.
    pub fn forget_failures_to_load(&mut self, segment: SegmentId) {
        if self.failures.remove(&segment).is_some() {
            self.whereabouts.touch(segment);
        }
    }

    /// Forgets failures that are too old, and ends penalties; whether anything changed.
    pub fn expire_failures(&mut self, now: MonoTime) -> bool {
        let mut expired = !self.penalties.expire(now).is_empty();
        let whereabouts = &mut self.whereabouts;
        self.failures.retain(|segment, nodes| {
            let before = nodes.len();
            nodes.retain(|_, failure| now - failure.at < MEMORY);
            if nodes.len() < before {
                whereabouts.touch(*segment);
                expired = true;
            }
            !nodes.is_empty()
        });
        expired
    }

    /// How often a node tried in vain to load a segment of this target.
    pub fn tries(&self, target: TargetVersion, segment: SegmentId, node: &NodeName) -> u32 {
        let failure = self.failures.get(&segment).and_then(|nodes| nodes.get(node));
        failure.filter(|failure| failure.target == target).map_or(0, |failure| failure.tries)
    }

    /// Whether a node may be given segments: it takes work, and had no lack of room of late.
    pub fn takes_segments(&self, node: &str) -> bool {
        self.takes_work(node) && self.penalties.of(node).is_none()
    }
}
