//! Why segments are answered for as they are.

use std::time::Duration;

use pointsman_ids::{NodeKey, Result, catalog::SelectorKind};
use pointsman_instance_selector::{Fate, Standing, Verdict};
use pointsman_routing::{CandidateExplanation, RouteRequest, RoutingView, SegmentExplanation};
use serde::Serialize;

use super::words;

/// How one segment fares in a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SegmentReason {
    /// Its position in the collection.
    #[serde(skip)]
    pub(crate) position: u32,
    /// Its name.
    pub(crate) segment: String,
    /// The cluster whose part of the collection it lies in.
    pub(crate) cluster: String,
    /// What became of it.
    pub(crate) outcome: &'static str,
    /// The node that was chosen; `None`: nobody.
    pub(crate) node: Option<String>,
    /// The rule that chose, or why nobody was chosen.
    pub(crate) rule: String,
    /// Every node that should hold it or does: candidates by name, then others.
    pub(crate) candidates: Vec<CandidateReason>,
}

/// What a node is to a segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CandidateReason {
    /// Its name.
    pub(crate) node: String,
    /// Number of its resource group when the collection last changed; `None`: in none, or disabled then.
    pub(crate) pool: Option<i32>,
    /// Name of the resource group of its replica; `None`: of none.
    pub(crate) group: Option<String>,
    /// Its score in adaptive selection; `None`: that is off, or the node has no statistics yet.
    pub(crate) score: Option<f64>,
    /// What ruled it out; `None`: nothing, it was chosen.
    pub(crate) ruled_out: Option<String>,
}

/// Explains a request, segment by segment: cluster after cluster, in the order of the request. `now` is since the start
/// of the broker's clock.
///
/// # Errors
/// Those of [`RoutingView::explain`].
pub(crate) fn reasons(
    view: &RoutingView,
    request: &RouteRequest<'_>,
    now: Duration,
) -> Result<Vec<SegmentReason>> {
    let entry = view.collection(request.collection);
    let name = |at: u32| {
        let segment = entry.and_then(|entry| entry.segments.get(at as usize));
        segment.map_or_else(|| format!("#{at}"), |segment| segment.name.to_string())
    };
    let selector = entry.map(|entry| entry.routing.selector).unwrap_or_default();
    let site = Site { view, selector, now };
    Ok(view.explain(request)?.iter().map(|segment| site.segment(segment, name)).collect())
}

/// Where a request is explained.
struct Site<'a> {
    view: &'a RoutingView,
    selector: SelectorKind,
    now: Duration,
}

impl Site<'_> {
    fn segment(&self, explained: &SegmentExplanation, name: impl Fn(u32) -> String) -> SegmentReason {
        SegmentReason {
            position: explained.segment,
            segment: explained.name.to_string(),
            cluster: explained.cluster.to_string(),
            outcome: words::outcome(explained.fate),
            node: explained.node.as_ref().map(|node| node.node.to_string()),
            rule: self.rule(explained, name),
            candidates: explained.candidates.iter().map(|one| self.candidate(explained, one)).collect(),
        }
    }

    fn rule(&self, explained: &SegmentExplanation, name: impl Fn(u32) -> String) -> String {
        if let Some(error) = &explained.refused {
            return error.message().to_owned();
        }
        let count = |may: fn(Verdict) -> bool| {
            explained.candidates.iter().filter(|candidate| may(candidate.verdict)).count()
        };
        match (explained.rule, explained.fate) {
            (Some(rule), Fate::FailOpen(_)) => {
                let among = count(|verdict| verdict == Verdict::Excluded);
                let rule = words::rule(rule, self.selector, among);
                let own = explained.node.as_ref().and_then(|node| self.excluded(node));
                let own = own.as_ref().map(|(since, evidence)| (*since, evidence.as_str()));
                match own.and_then(|own| words::ruled_out(Verdict::Excluded, Some(own))) {
                    Some(own) => format!("fail-open, {rule}; itself {own}"),
                    None => format!("fail-open, {rule}"),
                }
            }
            (Some(rule), _) if explained.node.is_some() => {
                let among = count(|verdict| matches!(verdict, Verdict::Usable | Verdict::Optional));
                words::rule(rule, self.selector, among)
            }
            _ => words::nobody(explained.fate, explained.fail_open, name),
        }
    }

    fn candidate(&self, segment: &SegmentExplanation, candidate: &CandidateExplanation) -> CandidateReason {
        let (_, group) = &candidate.group;
        CandidateReason {
            node: candidate.node.node.to_string(),
            pool: Some(candidate.pool.0).filter(|pool| *pool >= 0),
            group: group.as_ref().map(ToString::to_string),
            score: match candidate.standing {
                Some(Standing::Measured(score)) => Some(score),
                _ => None,
            },
            ruled_out: self.ruled_out(segment, candidate),
        }
    }

    fn ruled_out(&self, segment: &SegmentExplanation, candidate: &CandidateExplanation) -> Option<String> {
        if segment.node.as_ref() == Some(&candidate.node) {
            return None;
        }
        let excluded = self.excluded(&candidate.node);
        let excluded = excluded.as_ref().map(|(since, evidence)| (*since, evidence.as_str()));
        let ruled_out = words::ruled_out(candidate.verdict, excluded);
        Some(ruled_out.unwrap_or_else(|| words::passed_over(segment.rule).to_owned()))
    }

    /// For how long the node is excluded, and by what evidence.
    fn excluded(&self, node: &NodeKey) -> Option<(Duration, String)> {
        let exclusion = self.view.exclusion(node)?;
        Some((self.now.saturating_sub(exclusion.since), exclusion.evidence.clone()))
    }
}
