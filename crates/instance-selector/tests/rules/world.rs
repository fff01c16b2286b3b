//! A small cluster in few words.
//!
//! A segment is written as its copies: `n1` is assigned and observed online, `n2=on/err` names both states
//! (`on`, `con`, `off`, `err`, `-` for none), `n3@7` belongs to the resource group 7.

use std::{collections::BTreeMap, collections::BTreeSet, time::Duration};

use pointsman_ids::{
    GroupNumber,
    catalog::{RoutingOptions, SelectorKind},
    feed::CopyState,
};
use pointsman_instance_selector::*;

pub(crate) const WINDOW: Duration = Duration::from_secs(300);

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) table: NodeTable,
    pub(crate) members: BTreeMap<NodeIndex, Membership>,
    pub(crate) unhealthy: BTreeSet<String>,
}

/// A segment that owns its copies.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) promoted: bool,
    pub(crate) age: Duration,
    pub(crate) copies: Vec<CopyInput>,
}

impl Piece {
    pub(crate) fn input(&self) -> SegmentInput<'_> {
        SegmentInput { promoted: self.promoted, age: self.age, copies: &self.copies }
    }

    pub(crate) fn aged(self, age: Duration) -> Self {
        Self { age, ..self }
    }

    pub(crate) fn promoted(self) -> Self {
        Self { promoted: true, ..self }
    }
}

impl World {
    /// Enabled nodes without a pool.
    pub(crate) fn of(names: &str) -> Self {
        let mut world = Self::default();
        for name in names.split_whitespace() {
            let node = world.node(name);
            world.members.insert(node, Membership { enabled: true, pool: GroupNumber::NONE });
        }
        world
    }

    pub(crate) fn node(&mut self, name: &str) -> NodeIndex {
        self.table.intern(&name.parse().unwrap())
    }

    pub(crate) fn disable(mut self, name: &str) -> Self {
        let node = self.node(name);
        self.members.get_mut(&node).unwrap().enabled = false;
        self
    }

    pub(crate) fn pool(mut self, name: &str, pool: i32) -> Self {
        let node = self.node(name);
        self.members.get_mut(&node).unwrap().pool = GroupNumber(pool);
        self
    }

    pub(crate) fn exclude(mut self, names: &str) -> Self {
        self.unhealthy.extend(names.split_whitespace().map(str::to_owned));
        self
    }

    pub(crate) fn nodes(&self) -> Nodes {
        let members = self.members.iter().map(|(node, membership)| (*node, *membership));
        Nodes::new(self.table.clone(), members, |name| self.unhealthy.contains(name.as_str()))
    }

    /// A segment of an hour's age.
    pub(crate) fn piece(&mut self, text: &str) -> Piece {
        let copies = text.split_whitespace().map(|copy| self.copy(copy)).collect();
        Piece { promoted: false, age: seconds(3600), copies }
    }

    fn copy(&mut self, text: &str) -> CopyInput {
        let (name, states) = text.split_once('=').unwrap_or((text, "on/on"));
        let (assigned, observed) = states.split_once('/').unwrap();
        let (name, group) = name.split_once('@').unwrap_or((name, "-1"));
        CopyInput {
            node: self.node(name),
            group: GroupNumber(group.parse().unwrap()),
            assigned: state(assigned),
            observed: state(observed),
        }
    }

    /// States of segments that are all of an hour's age.
    pub(crate) fn states(&mut self, selector: SelectorKind, pieces: &[&str]) -> States {
        let pieces: Vec<_> = pieces.iter().map(|text| self.piece(text)).collect();
        self.build(&routing(selector), &pieces).unwrap()
    }

    pub(crate) fn build(
        &self,
        routing: &RoutingOptions,
        pieces: &[Piece],
    ) -> Result<States, pointsman_ids::Error> {
        let settings = self.settings("t", routing);
        States::build(&settings, &self.nodes(), pieces.iter().map(Piece::input), Duration::ZERO)
    }

    pub(crate) fn settings<'a>(&self, name: &str, routing: &'a RoutingOptions) -> StatesSettings<'a> {
        let place = |name: &pointsman_ids::NodeName| self.table.find(name).unwrap();
        let group = |group: &Vec<_>| group.iter().map(place).collect();
        let groups = |groups: &Vec<_>| groups.iter().map(group).collect();
        StatesSettings {
            collection: name.parse().unwrap(),
            routing,
            replica_groups: routing.replica_groups.iter().map(|(at, all)| (*at, groups(all))).collect(),
            new_segment_window: WINDOW,
            adaptive: false,
        }
    }

    /// What is served, as in `0>n1 1>n2`.
    pub(crate) fn served(&self, selection: &Selection) -> String {
        self.text(
            selection.parts.iter().flat_map(|part| part.segments.iter().map(move |at| (*at, part.node))),
        )
    }

    /// What is sent as optional work.
    pub(crate) fn optional(&self, selection: &Selection) -> String {
        self.text(
            selection.parts.iter().flat_map(|part| part.optional.iter().map(move |at| (*at, part.node))),
        )
    }

    fn text(&self, picks: impl Iterator<Item = (u32, NodeIndex)>) -> String {
        let picks: BTreeMap<_, _> = picks.collect();
        let name = |node: &NodeIndex| self.table.name(*node).unwrap();
        picks.iter().map(|(at, node)| format!("{at}>{}", name(node))).collect::<Vec<_>>().join(" ")
    }

    /// Names of a segment's candidates; those that are not online in brackets.
    pub(crate) fn candidates(&self, states: &States, at: u32) -> String {
        let name = |candidate: Candidate| {
            let name = self.table.name(candidate.node()).unwrap();
            if candidate.is_online() { name.to_string() } else { format!("({name})") }
        };
        states.segment(at).unwrap().candidates().map(name).collect::<Vec<_>>().join(" ")
    }
}

fn state(text: &str) -> Option<CopyState> {
    match text {
        "on" => Some(CopyState::Online),
        "con" => Some(CopyState::Consuming),
        "off" => Some(CopyState::Offline),
        "err" => Some(CopyState::Error),
        "-" => None,
        _ => panic!("'{text}' is no state"),
    }
}

pub(crate) fn routing(selector: SelectorKind) -> RoutingOptions {
    RoutingOptions { selector, ..RoutingOptions::default() }
}

/// Replica groups as in `n1,n2|n3,n4` for each partition.
pub(crate) fn staged(partitions: &[(u32, &str)]) -> RoutingOptions {
    let nodes = |group: &str| group.split(',').map(|name| name.parse().unwrap()).collect();
    let groups = |text: &str| text.split('|').map(nodes).collect();
    RoutingOptions {
        selector: SelectorKind::MultiStageReplicaGroup,
        replica_groups: partitions.iter().map(|(at, text)| (*at, groups(text))).collect(),
        ..RoutingOptions::default()
    }
}
