//! The words in which a choice is explained to people.

use std::time::Duration;

use pointsman_ids::{catalog::SelectorKind, feed::CopyState};
use pointsman_instance_selector::{FailOpenGate, Fate, Rule, Verdict};

/// The word for a state of a copy.
pub(crate) fn state(state: CopyState) -> &'static str {
    match state {
        CopyState::Online => "online",
        CopyState::Consuming => "consuming",
        CopyState::Offline => "offline",
        CopyState::Error => "error",
    }
}

/// The word for what became of a segment. What stands outside all replica groups is unavailable to clients.
pub(super) fn outcome(fate: Fate) -> &'static str {
    match fate {
        Fate::Served(_) => "served",
        Fate::FailOpen(_) => "fail_open",
        Fate::OptionalSent(_) => "optional",
        Fate::OptionalSkipped => "optional_skipped",
        Fate::New => "new",
        Fate::Unavailable(_) | Fate::Dropped => "unavailable",
        Fate::Unknown => "unknown",
        Fate::NotRequested => "not_requested",
        Fate::Refused => "refused",
    }
}

/// The rule that picked among so many nodes.
pub(super) fn rule(rule: Rule, selector: SelectorKind, among: usize) -> String {
    let selector = selector.as_str();
    let place = |number: u64| match among as u64 {
        0 | 1 => "the only node that can be chosen".to_owned(),
        among => format!("node {} of {among} that can be chosen", number % among + 1),
    };
    match rule {
        Rule::Turn(turn) => format!("{selector}, turn {turn}: {}", place(turn)),
        Rule::Fixed(hash) => format!("{selector}, fixed replica: {}", place(hash)),
        Rule::Replica(index) => format!("{selector}, replica {index}: {}", place(index)),
        Rule::Ranking => format!("adaptive selection: the best of {among} that can be chosen"),
        Rule::ReplicaGroup { partition, group } => {
            format!("{selector}: replica group {group} takes placement partition {partition}")
        }
    }
}

/// Why a node that could have been chosen was not.
pub(super) fn passed_over(rule: Option<Rule>) -> &'static str {
    match rule {
        Some(Rule::Turn(_) | Rule::Replica(_)) => "not its turn",
        Some(Rule::Fixed(_)) => "another replica is fixed",
        Some(Rule::Ranking) => "ranked behind the chosen one",
        Some(Rule::ReplicaGroup { .. }) => "another node of the replica groups takes it",
        None => "not asked",
    }
}

/// Why nobody was picked.
pub(super) fn nobody(fate: Fate, gate: FailOpenGate, name: impl Fn(u32) -> String) -> String {
    let why = match fate {
        Fate::Unavailable(cause) => cause.as_str(),
        Fate::Dropped => "outside_replica_groups",
        Fate::New => return "it is new, and nobody routable should serve it yet".into(),
        Fate::OptionalSkipped => return "it is new, and its node answers for nothing else".into(),
        Fate::Unknown => return "routing does not know it".into(),
        Fate::Refused => return "the whole request is refused".into(),
        _ => return "it was not asked for".into(),
    };
    match fail_open(gate, name) {
        Some(closed) => format!("{why}; {closed}"),
        None => why.to_owned(),
    }
}

/// What kept fail-open from trying; `None`: nothing did.
fn fail_open(gate: FailOpenGate, name: impl Fn(u32) -> String) -> Option<String> {
    Some(match gate {
        FailOpenGate::NotNeeded | FailOpenGate::Passed => return None,
        FailOpenGate::NoCandidates => "there is nobody that fail-open could try".into(),
        FailOpenGate::Off => "fail-open is off".into(),
        FailOpenGate::FailClosed => "the collection never fails open".into(),
        FailOpenGate::MultiStage => "fail-open is off for requests of several stages".into(),
        FailOpenGate::Strict => "fail-open is off for strict replica groups".into(),
        FailOpenGate::NotForAll(segment) => {
            format!("fail-open tries all or none, and '{}' has nobody to try", name(segment))
        }
    })
}

/// What rules a node out; `None`: nothing does.
pub(super) fn ruled_out(verdict: Verdict, excluded: Option<(Duration, &str)>) -> Option<String> {
    Some(match verdict {
        Verdict::Usable => return None,
        Verdict::Optional => "has not loaded it yet".into(),
        Verdict::NotAssigned => "not assigned to it".into(),
        Verdict::AssignedWithoutServing => "assigned to it without serving it".into(),
        Verdict::NotLoaded(None) => "does not report it".into(),
        Verdict::NotLoaded(Some(reported)) => format!("reports it as {}", state(reported)),
        Verdict::OtherResourceGroup => "its replica is of another resource group".into(),
        Verdict::OutForItsGroup => "lacks a segment of the assignment group".into(),
        Verdict::NotMember => "no member of the cluster".into(),
        Verdict::Disabled => "disabled".into(),
        Verdict::FailedInThisQuery => "failed in this query".into(),
        Verdict::OutsideReplicaGroups => "stands in no replica group".into(),
        Verdict::Excluded => match excluded {
            Some((since, evidence)) => {
                let since = humantime::format_duration(Duration::from_secs(since.as_secs()));
                format!("excluded {since} ago: {evidence}")
            }
            None => "excluded".into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use pointsman_ids::UnavailableCause;

    use super::*;

    #[test]
    fn a_rule_tells_which_of_how_many() {
        let turn = rule(Rule::Turn(7), SelectorKind::Balanced, 2);
        assert_eq!(turn, "balanced, turn 7: node 2 of 2 that can be chosen");
        let only = rule(Rule::Replica(7), SelectorKind::ReplicaGroup, 1);
        assert_eq!(only, "replica_group, replica 7: the only node that can be chosen");
    }

    #[test]
    fn a_missing_segment_tells_why_fail_open_did_not_help() {
        let missing = Fate::Unavailable(UnavailableCause::AllExcluded);
        let name = |at: u32| format!("s{at}");
        assert_eq!(nobody(missing, FailOpenGate::Off, name), "all_excluded; fail-open is off");
        let for_all = nobody(missing, FailOpenGate::NotForAll(3), name);
        assert!(for_all.ends_with("all or none, and 's3' has nobody to try"), "{for_all}");
        assert_eq!(nobody(Fate::Dropped, FailOpenGate::NotNeeded, name), "outside_replica_groups");
    }

    #[test]
    fn an_excluded_node_is_named_with_age_and_evidence() {
        let excluded = Some((Duration::from_millis(12_345), "refused"));
        assert_eq!(ruled_out(Verdict::Excluded, excluded).as_deref(), Some("excluded 12s ago: refused"));
        assert_eq!(ruled_out(Verdict::Usable, None), None);
    }
}
