//! `multi_stage_replica_group`: whole replica groups per placement partition, for joins without a shuffle.

use pointsman_ids::{Error, ErrorCode, Result};

use super::{
    Scope, Watch,
    chooser::Rule,
    draft::{Decide, Draft},
    scope::{Sieve, Usable},
};
use crate::{
    Candidate,
    placement::{Place, Placement},
    segment::SegmentState,
};

/// A candidate that stands in a replica group.
type Placed = (Candidate, Place);

/// The segments that go to the replica groups, each with its usable candidates that stand in one.
#[derive(Default)]
struct Wanted {
    /// Each with the end of its candidates.
    segments: Vec<(u32, usize)>,
    candidates: Vec<Placed>,
}

impl Wanted {
    fn iter(&self) -> impl Iterator<Item = (u32, &[Placed])> {
        let mut start = 0;
        self.segments.iter().map(move |(segment, end)| {
            let candidates = &self.candidates[start..*end];
            start = *end;
            (*segment, candidates)
        })
    }
}

/// Picks for every requested segment.
///
/// # Errors
/// `segments_unavailable` naming the first segment without a usable candidate, or the placement partition of which no
/// replica group can take all that it needs.
pub(super) fn pick<W: Watch>(scope: &Scope<'_>, fixed: bool, draft: &mut Draft, watch: &mut W) -> Result<()> {
    let Some(placement) = &scope.states.rules.placement else { return Ok(()) };
    let wanted = gather(scope, placement, draft)?;
    let preferred = if fixed { 0 } else { scope.request.turn() % u64::from(placement.groups()) };
    let chosen = complete_groups(scope, placement, &wanted, preferred)?;
    for (segment, candidates) in wanted.iter() {
        let stands_in_chosen = |(_, place): &&Placed| chosen[place.partition as usize] == place.group;
        let last = candidates
            .iter()
            .filter(stands_in_chosen)
            .max_by_key(|(_, place)| (place.partition, place.position));
        let Some((candidate, Place { partition, group, .. })) = last else { continue };
        if W::LOOKS {
            let partition = placement.partitions()[*partition as usize];
            watch.picked(segment, Rule::ReplicaGroup { partition, group: *group });
        }
        draft.takes(segment, *candidate);
    }
    Ok(())
}

/// The segments that some partition needs. Others are dropped, or new and nowhere.
fn gather(scope: &Scope<'_>, placement: &Placement, draft: &mut Draft) -> Result<Wanted> {
    let mut gather = Gather {
        usable: Sieve::new(scope),
        kept: Vec::new(),
        placement,
        wanted: Wanted::default(),
        missing: None,
    };
    draft.visit(scope, &mut gather);
    match gather.missing {
        None => Ok(gather.wanted),
        Some(segment) => {
            let name = scope.request.names.of(segment);
            Err(unavailable(scope, &format!("segment '{name}' has no usable replica")))
        }
    }
}

struct Gather<'a> {
    usable: Sieve<'a>,
    kept: Vec<Candidate>,
    placement: &'a Placement,
    wanted: Wanted,
    /// The first old segment without a usable candidate.
    missing: Option<u32>,
}

impl Decide for Gather<'_> {
    fn pick<'s>(&mut self, segments: impl Iterator<Item = (u32, &'s SegmentState)>, draft: &mut Draft) {
        for (segment, state) in segments {
            let usable = self.usable.of(state, &mut self.kept);
            if usable.is_empty() {
                if state.exists() && !state.is_new() {
                    self.missing.get_or_insert(segment);
                }
                draft.misses(segment, state);
                continue;
            }
            let (wanted, placement) = (&mut self.wanted, self.placement);
            let start = wanted.candidates.len();
            let stands = |candidate: &Candidate| Some((*candidate, placement.place(candidate.node())?));
            wanted.candidates.extend(usable.iter().filter_map(stands));
            let end = wanted.candidates.len();
            if start == end {
                draft.drops(segment);
            } else {
                wanted.segments.push((segment, end));
            }
        }
    }
}

/// For each partition the first group, from the preferred one and around the end, whose nodes together can take all that
/// the partition needs.
fn complete_groups(
    scope: &Scope<'_>,
    placement: &Placement,
    wanted: &Wanted,
    preferred: u64,
) -> Result<Vec<u32>> {
    let groups = placement.groups() as usize;
    let mut needed = vec![Count::default(); placement.partitions().len()];
    let mut taken = vec![Count::default(); placement.partitions().len() * groups];
    for (number, (_, candidates)) in (1..).zip(wanted.iter()) {
        for (_, place) in candidates {
            let partition = place.partition as usize;
            needed[partition].add(number);
            taken[partition * groups + place.group as usize].add(number);
        }
    }
    let choose = |(partition, needed): (usize, &Count)| {
        let order = (0..groups).map(|step| (preferred as usize + step) % groups);
        let is_complete = |group: &usize| taken[partition * groups + group].segments == needed.segments;
        let chosen = order.clone().find(is_complete).and_then(|group| u32::try_from(group).ok());
        chosen.ok_or_else(|| {
            let number = placement.partitions()[partition];
            unavailable(
                scope,
                &format!("no replica group of placement partition {number} has all of its segments"),
            )
        })
    };
    needed.iter().enumerate().map(choose).collect()
}

/// How many segments, each once however many of its candidates say so.
#[derive(Clone, Copy, Default)]
struct Count {
    segments: u32,
    /// The number of the segment that was counted last, from 1.
    last: u32,
}

impl Count {
    fn add(&mut self, segment: u32) {
        self.segments += u32::from(self.last != segment);
        self.last = segment;
    }
}

fn unavailable(scope: &Scope<'_>, what: &str) -> Error {
    let message =
        format!("collection '{}': {what}; wait until its nodes are back", scope.states.collection());
    Error::new(ErrorCode::SegmentsUnavailable, message)
}
