//! Why a request is routed as it is.

use std::{collections::BTreeSet, ops::Range};

use pointsman_ids::{ClusterName, Error, GroupName, GroupNumber, NodeKey, SegmentName};
use pointsman_instance_selector::{
    CopyInput, Explained, FailOpenGate, Fate, NodeVerdict, Rule, Standing, Verdict, explain,
};

use crate::{
    RouteRequest, RoutingView,
    inputs::group,
    part::Part,
    route::{Located, check},
    split::{Requested, Split},
};

/// How one requested segment fared.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentExplanation {
    /// Its position in the collection.
    pub segment: u32,
    /// Its name.
    pub name: SegmentName,
    /// The cluster whose part of the collection it lies in.
    pub cluster: ClusterName,
    /// Whether it is new; `None`: no node should serve it, or nobody could be chosen in its cluster.
    pub new: Option<bool>,
    /// What became of it.
    pub fate: Fate,
    /// Who answers for it, is tried, or gets it along; `None`: nobody.
    pub node: Option<NodeKey>,
    /// The rule that picked; `None`: there was no pick.
    pub rule: Option<Rule>,
    /// Its candidates by name, then other nodes that hold it or are assigned to it.
    pub candidates: Vec<CandidateExplanation>,
    /// How far fail-open came in its cluster.
    pub fail_open: FailOpenGate,
    /// Why its whole part could not be chosen; `None`: it could.
    pub refused: Option<Error>,
}

/// What a node is to a segment in one request.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateExplanation {
    /// Who.
    pub node: NodeKey,
    /// The number and, where the feed tells it, the name of its replica's resource group.
    pub group: (GroupNumber, Option<GroupName>),
    /// Its pool when the collection last changed; [`GroupNumber::NONE`]: in none, or not enabled then.
    pub pool: GroupNumber,
    /// Its standing in adaptive selection; `None`: that is off.
    pub standing: Option<Standing>,
    /// Whether it can be chosen, or what rules it out.
    pub verdict: Verdict,
}

impl RoutingView {
    /// How each requested segment fares in a request: the selection is made exactly as by [`RoutingView::route`], and
    /// counts nowhere. Cluster after cluster, each in the order of the request. A part that cannot be chosen explains
    /// each of its segments by its error.
    ///
    /// # Errors
    /// `collection_not_loaded` when no running cluster has the collection; `resource_group_not_found`;
    /// `parameter_invalid` for options that make no sense.
    pub fn explain(&self, request: &RouteRequest<'_>) -> Result<Vec<SegmentExplanation>, Error> {
        let spanning = self.spanning(request.collection)?;
        let parts = self.located(request.collection, spanning);
        check(request, &parts)?;
        let entries: Vec<_> = parts.iter().map(|part| part.routed.entry()).collect();
        let wanted = Split::new(request.segments, spanning, &entries);
        let mut explanations = vec![];
        for (located, requested) in parts.iter().zip(&wanted.parts) {
            let whole: Range<u32> = 0..located.span.len;
            let positions: Vec<u32> = match requested {
                Requested::All => whole.collect(),
                Requested::These(positions) => {
                    let mut seen = BTreeSet::new();
                    positions.iter().copied().filter(|at| seen.insert(*at)).collect()
                }
            };
            match Part::new(self, located.cluster, located.routed, request, requested) {
                Ok(part) => part.with(|request| {
                    let explained = explain(part.states, &part.cluster.nodes, request);
                    let segment = |at: &u32| located.explain(&explained, *at);
                    explanations.extend(positions.iter().filter_map(segment));
                }),
                Err(error) => {
                    explanations.extend(positions.iter().filter_map(|at| located.refusal(*at, Some(&error))));
                }
            }
        }
        Ok(explanations)
    }
}

impl Located<'_> {
    fn explain(&self, explained: &Explained<'_>, at: u32) -> Option<SegmentExplanation> {
        let explanation = explained.segment(at, &self.copies(at));
        // Under a sampler the rest of the collection is not asked for.
        if explanation.fate == Fate::NotRequested {
            return None;
        }
        let node = match explanation.fate {
            Fate::Served(node) | Fate::FailOpen(node) | Fate::OptionalSent(node) => self.cluster.key_of(node),
            _ => None,
        };
        Some(SegmentExplanation {
            new: explanation.new,
            fate: explanation.fate,
            node,
            rule: explanation.rule,
            candidates: explanation.nodes.iter().filter_map(|verdict| self.candidate(verdict)).collect(),
            fail_open: explanation.fail_open,
            ..self.refusal(at, explained.selection().err())?
        })
    }

    /// A segment of a part that cannot be chosen.
    fn refusal(&self, at: u32, error: Option<&Error>) -> Option<SegmentExplanation> {
        Some(SegmentExplanation {
            segment: self.span.start.saturating_add(at),
            name: self.routed.entry().segments.get(at as usize)?.name.clone(),
            cluster: self.cluster.name.clone(),
            new: None,
            fate: Fate::Refused,
            node: None,
            rule: None,
            candidates: vec![],
            fail_open: FailOpenGate::default(),
            refused: error.cloned(),
        })
    }

    fn candidate(&self, verdict: &NodeVerdict) -> Option<CandidateExplanation> {
        let groups = &self.cluster.snapshot.groups;
        let known = groups.iter().find(|group| group.number == verdict.group);
        Some(CandidateExplanation {
            node: self.cluster.key_of(verdict.node)?,
            group: (verdict.group, known.map(|group| group.name.clone())),
            pool: verdict.pool,
            standing: verdict.standing,
            verdict: verdict.verdict,
        })
    }

    fn copies(&self, at: u32) -> Vec<CopyInput> {
        let entry = self.routed.entry();
        let copies = entry.segments.get(at as usize).map_or(&[][..], |segment| &segment.copies);
        let read = |copy: &pointsman_ids::feed::CopyEntry| {
            Some(CopyInput {
                node: self.cluster.names.place(copy.node)?,
                group: group(&entry.replicas, copy),
                assigned: copy.assigned,
                observed: copy.observed,
            })
        };
        copies.iter().filter_map(read).collect()
    }
}
