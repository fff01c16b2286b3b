//! Changes of states, at the cost of what changes.

use std::time::Duration;

use pointsman_ids::{Error, ErrorCode, Result};

use crate::{
    Candidate, Edit, Nodes, States,
    segment::{NO_GROUP, SegmentState},
    sighting::Sightings,
};

impl States {
    /// The states after some edits, applied in order. The pools of all candidates are those of `nodes` from now on, and
    /// new segments are looked at again: one whose youth is over becomes old. Costs in proportion to the edits and the
    /// nodes, and now and then, when a segment's youth has ended, to the segments.
    ///
    /// `now` is on the clock of [`States::build`], and `nodes` know all places that the edits name.
    ///
    /// # Errors
    /// `service_internal` naming the collection and the position when an edit points beyond the end; these states stand.
    pub fn change<'a>(
        &self,
        nodes: &Nodes,
        edits: impl IntoIterator<Item = Edit<'a>>,
        now: Duration,
    ) -> Result<Self> {
        let mut next = Self { pools: nodes.pools().clone(), ..self.clone() };
        let mut sightings = Sightings::default();
        for edit in edits {
            next.apply(&edit, now, nodes, &mut sightings)?;
        }
        next.end_youths(now);
        Ok(next)
    }

    fn apply(
        &mut self,
        edit: &Edit<'_>,
        now: Duration,
        nodes: &Nodes,
        sightings: &mut Sightings,
    ) -> Result<()> {
        let newcomer = Some(now.saturating_add(self.rules.window));
        match edit {
            Edit::Set { at, segment } => {
                let former = self.at(*at)?;
                // What was old stays old while it is part of the universe; what comes back to it has not been seen.
                let young_until = if former.exists() { former.young_until() } else { newcomer };
                self.leave(&former);
                let state = self.enter(segment, young_until, now, nodes, sightings);
                self.segments.set(*at as usize, state);
            }
            Edit::Insert { at, segment } => {
                if *at as usize > self.segments.len() {
                    return Err(self.beyond(*at));
                }
                let state = self.enter(segment, newcomer, now, nodes, sightings);
                self.segments.insert(*at as usize, state);
            }
            Edit::Remove { at } => {
                let former = self.at(*at)?;
                self.leave(&former);
                self.segments.remove(*at as usize);
            }
        }
        Ok(())
    }

    fn at(&self, at: u32) -> Result<SegmentState> {
        self.segments.get(at as usize).cloned().ok_or_else(|| self.beyond(at))
    }

    fn beyond(&self, at: u32) -> Error {
        let (collection, len) = (self.collection(), self.len());
        let message = format!(
            "collection '{collection}': a change names segment {at} of {len}; read the collection anew"
        );
        Error::new(ErrorCode::ServiceInternal, message)
    }

    fn leave(&mut self, state: &SegmentState) {
        self.count_out(state);
        if state.group() != NO_GROUP {
            self.groups.leave(state.group());
        }
    }

    /// Makes new segments old whose youth is over.
    fn end_youths(&mut self, now: Duration) {
        if self.new == 0 {
            self.young_until = None;
        }
        if self.young_until.is_none_or(|first| now <= first) {
            return;
        }
        let ends =
            self.segments.iter().enumerate().filter_map(|(at, state)| Some((at, state.young_until()?)));
        let (over, young): (Vec<_>, Vec<_>) = ends.partition(|(_, end)| *end < now);
        self.young_until = young.into_iter().map(|(_, end)| end).min();
        for (at, _) in over {
            let Some(state) = self.segments.get(at).cloned() else { continue };
            let loaded: Vec<Candidate> =
                state.candidates().iter().copied().filter(|candidate| candidate.is_online()).collect();
            let old = SegmentState::new(None, state.expected() as usize, state.group(), &loaded);
            self.count_out(&state);
            self.count_in(&old);
            self.segments.set(at, old);
        }
    }
}
