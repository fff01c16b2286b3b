//! States that changed step by step are those of the rules, and those that are built from nothing.

use std::collections::BTreeSet;

use pointsman_ids::feed::CopyState;
use pointsman_instance_selector::{NodeIndex, Nodes, SegmentInput};

use super::*;
use crate::world::WINDOW;
use pointsman_instance_selector::{Edit, States};

/// What the rules say of a segment: the feed's word on it, and what history made of it.
#[derive(Clone, Debug)]
struct Told {
    piece: Piece,
    /// The end of its youth while it is new; `None`: it is old, or not in the universe.
    young_until: Option<Duration>,
}

impl Told {
    /// A segment as it comes in, or is described anew; it may be new until `young_until`.
    fn new(piece: Piece, young_until: Option<Duration>, now: Duration) -> Self {
        let new = !piece.promoted && exists(&piece) && settling(&piece);
        Self { piece, young_until: young_until.filter(|end| new && now <= *end) }
    }
}

fn serves(state: Option<CopyState>) -> bool {
    matches!(state, Some(CopyState::Online | CopyState::Consuming))
}

fn exists(piece: &Piece) -> bool {
    piece.promoted || !nodes_where(piece, |copy| serves(copy.assigned)).is_empty()
}

fn nodes_where(piece: &Piece, is: impl Fn(&CopyInput) -> bool) -> BTreeSet<NodeIndex> {
    piece.copies.iter().filter(|copy| is(copy)).map(|copy| copy.node).collect()
}

/// What nodes are seen in: the best of what is said of each.
fn seen(piece: &Piece, state: CopyState) -> BTreeSet<NodeIndex> {
    let online = nodes_where(piece, |copy| serves(copy.observed));
    let error = &nodes_where(piece, |copy| copy.observed == Some(CopyState::Error)) - &online;
    let offline = nodes_where(piece, |copy| copy.observed == Some(CopyState::Offline));
    match state {
        CopyState::Online | CopyState::Consuming => online,
        CopyState::Offline => &(&offline - &online) - &error,
        CopyState::Error => error,
    }
}

fn settling(piece: &Piece) -> bool {
    if piece.copies.iter().all(|copy| copy.observed.is_none()) {
        return true;
    }
    let wanted = nodes_where(piece, |copy| serves(copy.assigned));
    let missing = &(&wanted - &seen(piece, CopyState::Online)) - &seen(piece, CopyState::Error);
    wanted.is_disjoint(&seen(piece, CopyState::Error)) && !missing.is_empty()
}

/// The candidates of a segment by the rules, in words; `None`: it does not exist.
fn candidates(all: &[Told], at: usize, consistent: bool, nodes: &Nodes) -> Option<Vec<String>> {
    let Told { piece, young_until } = &all[at];
    let assigned = |piece: &Piece| nodes_where(piece, |copy| copy.assigned.is_some());
    let wanted = nodes_where(piece, |copy| serves(copy.assigned));
    let loaded =
        |piece: &Piece| &nodes_where(piece, |copy| serves(copy.assigned)) & &seen(piece, CopyState::Online);
    let mut chosen = match (young_until, consistent) {
        (None, _) => loaded(piece),
        (Some(_), false) => wanted,
        (Some(_), true) => assigned(piece),
    };
    if consistent {
        let same =
            all.iter().filter(|other| exists(&other.piece) && assigned(&other.piece) == assigned(piece));
        for old in same.filter(|other| other.young_until.is_none()) {
            chosen = &chosen & &loaded(&old.piece);
        }
    }
    let mut chosen: Vec<_> = chosen.into_iter().collect();
    chosen.sort_by_key(|node| nodes.name(*node).unwrap().clone());
    let words = |node: &NodeIndex| format!("{} {}", nodes.name(*node).unwrap(), loaded(piece).contains(node));
    exists(piece).then(|| chosen.iter().map(words).collect())
}

/// What states say of every segment, as the rules put it, and a few figures.
fn told(states: &States, nodes: &Nodes) -> Vec<Option<(Option<Duration>, Vec<String>)>> {
    (0..u32::try_from(states.len()).unwrap())
        .map(|at| {
            let segment = states.segment(at)?;
            let words = |candidate: pointsman_instance_selector::Candidate| {
                format!("{} {}", nodes.name(candidate.node()).unwrap(), candidate.is_online())
            };
            Some((segment.young_until(), segment.candidates().map(words).collect()))
        })
        .collect()
}

/// A random step: an edit at a random place, or none.
#[derive(Clone, Debug)]
enum Step {
    Set(prop::sample::Index, Piece),
    Insert(prop::sample::Index, Piece),
    Remove(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        3 => (place(), piece()).prop_map(|(at, piece)| Step::Set(at, piece)),
        1 => (place(), piece()).prop_map(|(at, piece)| Step::Insert(at, piece)),
        1 => place().prop_map(Step::Remove),
    ]
}

fn at(index: usize) -> u32 {
    u32::try_from(index).unwrap()
}

proptest! {
    #[test]
    fn changed_states_are_those_of_the_rules_and_of_a_build_from_nothing(
        world in world(),
        options in options(),
        pieces in prop::collection::vec(piece(), 0..8),
        changes in prop::collection::vec((0..200u64, prop::collection::vec(step(), 0..5)), 0..6),
    ) {
        let nodes = world.nodes();
        let settings = world.settings("t", &options);
        let mut now = Duration::from_secs(1000);
        let mut states = States::build(&settings, &nodes, pieces.iter().map(Piece::input), now).unwrap();
        let young = |piece: &Piece, now: Duration| WINDOW.checked_sub(piece.age).map(|left| now + left);
        let mut all: Vec<_> =
            pieces.into_iter().map(|piece| Told::new(piece.clone(), young(&piece, now), now)).collect();
        let consistent = options.consistent_replicas || options.selector == SelectorKind::StrictReplicaGroup;

        for (wait, steps) in changes {
            now += Duration::from_secs(wait);
            let newcomer = Some(now + WINDOW);
            let mut edits: Vec<(u32, Option<Piece>, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(place, piece) => {
                        let place = place.index(all.len() + 1);
                        edits.push((at(place), Some(piece.clone()), true));
                        all.insert(place, Told::new(piece, newcomer, now));
                    }
                    Step::Set(place, piece) if !all.is_empty() => {
                        let place = place.index(all.len());
                        edits.push((at(place), Some(piece.clone()), false));
                        let before = &all[place];
                        let youth = if exists(&before.piece) { before.young_until } else { newcomer };
                        all[place] = Told::new(piece, youth, now);
                    }
                    Step::Remove(place) if !all.is_empty() => {
                        let place = place.index(all.len());
                        edits.push((at(place), None, false));
                        all.remove(place);
                    }
                    _ => {}
                }
            }
            let edits = edits.iter().map(|(at, piece, insert)| match (piece, insert) {
                (Some(piece), true) => Edit::Insert { at: *at, segment: piece.input() },
                (Some(piece), false) => Edit::Set { at: *at, segment: piece.input() },
                (None, _) => Edit::Remove { at: *at },
            });
            states = states.change(&nodes, edits, now).unwrap();
            for told in &mut all {
                told.young_until = told.young_until.filter(|end| now <= *end);
            }

            let rules: Vec<_> = all.iter().enumerate().map(|(at, one)| {
                Some((one.young_until, candidates(&all, at, consistent, &nodes)?))
            }).collect();
            prop_assert_eq!(&told(&states, &nodes), &rules);

            // From nothing, with the ages that history left. What is old is older than the window.
            let inputs = all.iter().map(|one| SegmentInput {
                age: one.young_until.map_or(WINDOW * 2, |end| WINDOW - (end - now)),
                ..one.piece.input()
            });
            let built = States::build(&settings, &nodes, inputs, now).unwrap();
            prop_assert_eq!(&told(&built, &nodes), &rules);
            prop_assert_eq!(built.health(&nodes), states.health(&nodes));
            let everything = pointsman_instance_selector::Request::all(7);
            let choose = |states| pointsman_instance_selector::select(states, &nodes, &everything);
            prop_assert_eq!(choose(&built), choose(&states));
        }
    }
}
