//! Why a request is routed as it is, in lines for people.

use pointsman_ids::NodeKey;
use pointsman_instance_selector::{FailOpenGate, Fate, Rule, Standing, Verdict};
use pointsman_routing::{CandidateExplanation, RouteRequest, RoutingView, SegmentExplanation};

use super::names::Names;

/// For each requested segment what became of it and why, then its candidates with what rules them out.
pub(super) fn lines(view: &RoutingView, request: &RouteRequest<'_>, names: &Names) -> Vec<String> {
    let node = |key: &NodeKey| names.outcome(&key.cluster, &key.node);
    match view.explain(request) {
        Err(error) => vec![error.to_string()],
        Ok(segments) => segments.iter().flat_map(|segment| segment_lines(segment, &node)).collect(),
    }
}

fn segment_lines(segment: &SegmentExplanation, node: &impl Fn(&NodeKey) -> String) -> Vec<String> {
    let mut line = format!("{}: {}", segment.name, fate(segment, node));
    if let Some(error) = &segment.refused {
        line = format!("{line} ({error})");
    }
    if segment.new == Some(true) {
        line.push_str("; it is new");
    }
    if let Some(rule) = segment.rule {
        line = format!("{line}; {}", rule_words(rule, choices(segment)));
    }
    if let Some(gate) = gate_words(segment.fail_open).filter(|_| matches!(segment.fate, Fate::Unavailable(_)))
    {
        line = format!("{line}; {gate}");
    }
    let candidates = segment.candidates.iter().map(|candidate| candidate_line(candidate, node));
    [line].into_iter().chain(candidates).collect()
}

fn fate(segment: &SegmentExplanation, node: &impl Fn(&NodeKey) -> String) -> String {
    let node = segment.node.as_ref().map_or_else(|| "nobody".to_owned(), node);
    match segment.fate {
        Fate::Served(_) => format!("served by {node}"),
        Fate::FailOpen(_) => format!("fail-open: {node} is tried although it is excluded"),
        Fate::OptionalSent(_) => format!("sent along to {node}, which may skip it"),
        Fate::OptionalSkipped => "left out: its node serves nothing else in this request".to_owned(),
        Fate::New => "left out: nobody routable should serve it yet".to_owned(),
        Fate::Unavailable(cause) => format!("unavailable ({})", cause.as_str()),
        Fate::Dropped => "left out: its nodes stand in no replica group".to_owned(),
        Fate::Unknown => "unknown: no node should serve it".to_owned(),
        Fate::NotRequested => "not asked for".to_owned(),
        Fate::Refused => "refused".to_owned(),
    }
}

/// Among how many candidates the rule picked: those that can be chosen, or those that fail-open tries.
fn choices(segment: &SegmentExplanation) -> usize {
    let is_choice = |candidate: &&CandidateExplanation| match segment.fate {
        Fate::FailOpen(_) => candidate.verdict == Verdict::Excluded,
        _ => matches!(candidate.verdict, Verdict::Usable | Verdict::Optional),
    };
    segment.candidates.iter().filter(is_choice).count()
}

fn rule_words(rule: Rule, choices: usize) -> String {
    let indexed = |what: &str, index: u64| format!("{what} {index} modulo {choices}");
    match rule {
        Rule::Turn(turn) => indexed("in turn: candidate", turn),
        Rule::Fixed(hash) => indexed("fixed replica: candidate", hash),
        Rule::Replica(index) => indexed("one index per request: candidate", index),
        Rule::Ranking => format!("the first of {choices} by pool, statistics, score and name"),
        Rule::ReplicaGroup { partition, group } => {
            format!("replica group {group} of placement partition {partition} is the first that is complete")
        }
    }
}

fn gate_words(gate: FailOpenGate) -> Option<&'static str> {
    match gate {
        FailOpenGate::NotNeeded | FailOpenGate::Passed => None,
        FailOpenGate::NoCandidates => Some("no fail-open: nobody enabled has any of what is missing"),
        FailOpenGate::Off => Some("no fail-open: it is off"),
        FailOpenGate::FailClosed => Some("no fail-open: the collection is fail-closed"),
        FailOpenGate::MultiStage => Some("no fail-open: the request is multi-stage"),
        FailOpenGate::Strict => Some("no fail-open: the replica groups are strict"),
        FailOpenGate::NotForAll(_) => Some("no fail-open: not everything that is missing could be tried"),
    }
}

fn candidate_line(candidate: &CandidateExplanation, node: &impl Fn(&NodeKey) -> String) -> String {
    let standing = match candidate.standing {
        None => String::new(),
        Some(Standing::Unmeasured) => ", no statistics".to_owned(),
        Some(Standing::Measured(score)) => format!(", score {score}"),
        Some(Standing::TrialFull) => ", on trial and busy".to_owned(),
    };
    let pool = candidate.pool;
    format!("  {} (pool {pool}{standing}): {}", node(&candidate.node), verdict_words(candidate.verdict))
}

fn verdict_words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Usable => "can be chosen".to_owned(),
        Verdict::Optional => "can be chosen, has not loaded it yet".to_owned(),
        Verdict::NotAssigned => "ruled out: not assigned".to_owned(),
        Verdict::AssignedWithoutServing => "ruled out: assigned, but not to serve".to_owned(),
        Verdict::NotLoaded(None) => "ruled out: reports nothing of it".to_owned(),
        Verdict::NotLoaded(Some(state)) => {
            format!("ruled out: reports it as {}", format!("{state:?}").to_lowercase())
        }
        Verdict::OtherResourceGroup => "ruled out: another resource group".to_owned(),
        Verdict::OutForItsGroup => "ruled out: lacks a segment of the assignment group".to_owned(),
        Verdict::NotMember => "ruled out: no member of the cluster".to_owned(),
        Verdict::Disabled => "ruled out: disabled".to_owned(),
        Verdict::FailedInThisQuery => "ruled out: failed in this query".to_owned(),
        Verdict::Excluded => "ruled out: excluded by the failure detector".to_owned(),
        Verdict::OutsideReplicaGroups => "ruled out: in no replica group".to_owned(),
    }
}
