//! Why a shard was refused: what was seen of its leaders. One look tells "wait" from "nobody will come".

use std::{collections::BTreeMap, fmt::Write};

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};

use crate::{Leader, NodeView, view::Standing};

/// More leaders than a person reads.
const MOST: usize = 16;

/// What there is to see of a shard's leaders at some moment.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    /// As the coordinator listed them last.
    pub(crate) leaders: &'a [Leader],
    pub(crate) group: &'a str,
    /// Nodes that failed retriably in this request, with what they said last.
    pub(crate) out: &'a BTreeMap<NodeId, ErrorCode>,
    /// Avoided nodes, and until when.
    pub(crate) blacklisted: Option<&'a BTreeMap<NodeId, MonoTime>>,
    pub(crate) view: &'a dyn NodeView,
    pub(crate) now: MonoTime,
}

impl Seen<'_> {
    /// For people: every leader with its group and flag, and what speaks against it.
    pub(crate) fn text(&self) -> String {
        let count = self.leaders.len();
        if count == 0 {
            return "no leader is listed".to_owned();
        }
        let mut text = "listed:".to_owned();
        for (at, leader) in self.leaders.iter().take(MOST).enumerate() {
            let separator = if at == 0 { "" } else { ";" };
            // Writing into a string does not fail.
            let _ = write!(text, "{separator} {}", self.leader(leader));
        }
        if count > MOST {
            let _ = write!(text, "; and {} more", count - MOST);
        }
        text
    }

    fn leader(&self, leader: &Leader) -> String {
        let group = match &*leader.resource_group {
            "" => "of unknown group".to_owned(),
            group => format!("in '{group}'"),
        };
        let serviceable = if leader.serviceable { "serviceable" } else { "not serviceable" };
        let mut words = vec![format!("node {} {group}", leader.node), serviceable.to_owned()];
        if !leader.is_in(self.group) {
            words.push("outside the scope".to_owned());
        }
        match self.view.standing(leader.node) {
            Standing::Routable => {}
            Standing::Excluded => {
                let why =
                    self.view.why_excluded(leader.node).map(|why| format!(" ({why})")).unwrap_or_default();
                words.push(format!("excluded by the failure detector{why}"));
            }
            Standing::Disabled => words.push("disabled by an operator".to_owned()),
        }
        if let Some(code) = self.out.get(&leader.node) {
            words.push(format!("failed in this request ({})", code.name()));
        }
        if let Some(expiry) = self.blacklisted.and_then(|nodes| nodes.get(&leader.node)) {
            words.push(format!("avoided for {:.1?}", *expiry - self.now));
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::AllRoutable;

    fn leader(node: u64, group: &str, serviceable: bool) -> Leader {
        Leader { node: NodeId(node), address: "a".into(), serviceable, resource_group: group.into() }
    }

    fn seen(leaders: &[Leader]) -> String {
        let at = |seconds| MonoTime::from_start(Duration::from_secs(seconds));
        let out = BTreeMap::from([(NodeId(1), ErrorCode::NodeNotServing)]);
        let blacklisted = BTreeMap::from([(NodeId(2), at(40))]);
        let seen = Seen {
            leaders,
            group: "east",
            out: &out,
            blacklisted: Some(&blacklisted),
            view: &AllRoutable,
            now: at(15),
        };
        seen.text()
    }

    #[test]
    fn every_leader_is_told_with_what_speaks_against_it() {
        assert_eq!(seen(&[]), "no leader is listed");
        assert_eq!(
            seen(&[leader(1, "east", true), leader(2, "east", false), leader(3, "", true)]),
            "listed: node 1 in 'east', serviceable, failed in this request (node_not_serving); node 2 in 'east', not serviceable, \
             avoided for 25.0s; node 3 of unknown group, serviceable, outside the scope"
        );
        let many: Vec<Leader> = (1..=20).map(|node| leader(node, "east", true)).collect();
        assert!(seen(&many).ends_with("node 16 in 'east', serviceable; and 4 more"), "{}", seen(&many));
    }
}
