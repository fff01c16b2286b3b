//! What holds for every request, whatever the states.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_instance_selector::*;

use super::*;

/// The choices of a request that own what they point to.
#[derive(Clone, Debug)]
struct Asked {
    list: Option<Vec<u32>>,
    id: u64,
    multi_stage: bool,
    fixed_replica: Option<bool>,
    num_replica_groups: i64,
    preferred_pools: Vec<i32>,
    group: Option<GroupNumber>,
    without: NodeSet,
    scores: Option<Scores>,
    fail_open: FailOpen,
}

impl Asked {
    fn request(&self) -> Request<'_> {
        Request {
            segments: self.list.as_ref().map_or(Segments::All, |list| Segments::These(list)),
            id: self.id,
            multi_stage: self.multi_stage,
            fixed_replica: self.fixed_replica,
            num_replica_groups: self.num_replica_groups,
            preferred_pools: &self.preferred_pools,
            group: self.group,
            without: &self.without,
            scores: self.scores.as_ref(),
            fail_open: self.fail_open,
            names: SegmentNames::default(),
        }
    }
}

fn standing() -> impl Strategy<Value = Standing> {
    prop_oneof![
        Just(Standing::Unmeasured),
        Just(Standing::TrialFull),
        (0..4u8).prop_map(|score| Standing::Measured(score.into())),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let list = prop::option::of(prop::collection::vec(0..12u32, 0..14));
    let rarely = |chance| prop::bool::weighted(chance);
    let scores = prop::option::weighted(0.3, prop::collection::vec(standing(), NAMES.len()));
    let places = |out: Vec<bool>| (0..).map(NodeIndex).zip(out).filter(|(_, out)| *out).map(|(node, _)| node);
    let without = prop::collection::vec(rarely(0.1), NAMES.len());
    let fail_open = (rarely(0.8), any::<bool>(), any::<bool>());
    (
        (list, any::<u64>(), any::<bool>(), any::<Option<bool>>(), 1..4i64),
        (
            prop::collection::vec(-1..3i32, 0..3),
            prop::option::weighted(0.2, 0..2i32),
            without,
            scores,
            fail_open,
        ),
    )
        .prop_map(move |((list, id, multi_stage, fixed_replica, num_replica_groups), rest)| {
            let (preferred_pools, group, without, scores, (enabled, multi, strict)) = rest;
            Asked {
                list,
                id,
                multi_stage,
                fixed_replica,
                num_replica_groups,
                preferred_pools,
                group: group.map(GroupNumber),
                without: places(without).collect(),
                scores: scores.map(|standings| Scores::new((0..).map(NodeIndex).zip(standings))),
                fail_open: FailOpen { enabled, multi_stage: multi, strict },
            }
        })
}

/// Where every segment of a selection is; each bucket by its name.
fn buckets(selection: &Selection) -> BTreeMap<u32, Vec<&'static str>> {
    let mut buckets = BTreeMap::<u32, Vec<_>>::new();
    let mut put = |name, segments: &[u32]| {
        segments.iter().for_each(|segment| buckets.entry(*segment).or_default().push(name));
    };
    for part in &selection.parts {
        put("served", &part.segments);
        put("optional", &part.optional);
    }
    put("optional skipped", &selection.optional_skipped);
    put("new", &selection.new);
    put("unknown", &selection.unknown);
    put("dropped", &selection.dropped);
    let unavailable: Vec<_> = selection.unavailable.iter().map(|(segment, _)| *segment).collect();
    put("unavailable", &unavailable);
    buckets
}

/// The candidates of a segment that a request may choose.
fn usable(states: &States, nodes: &Nodes, request: &Request<'_>, at: u32) -> Vec<Candidate> {
    let usable = |candidate: &Candidate| {
        nodes.is_routable(candidate.node())
            && !request.without.contains(candidate.node())
            && request.group.is_none_or(|group| group == candidate.group())
    };
    states.segment(at).into_iter().flat_map(|segment| segment.candidates()).filter(usable).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn every_selection_keeps_the_promises(
        world in world(),
        options in options(),
        pieces in prop::collection::vec(piece(), 0..10),
        asked in asked(),
    ) {
        let nodes = world.nodes();
        let states = world.build(&options, &pieces).unwrap();
        let request = asked.request();
        let outcome = select(&states, &nodes, &request);
        prop_assert_eq!(&outcome, &select(&states, &nodes, &request), "same input, same output");
        let explained = explain(&states, &nodes, &request);
        prop_assert_eq!(explained.selection(), outcome.as_ref(), "explained is what is done");
        let Ok(selection) = outcome else {
            prop_assert_eq!(options.selector, SelectorKind::MultiStageReplicaGroup);
            return Ok(());
        };

        // Each requested segment is in exactly one place.
        let universe = (0..10).filter(|at| states.segment(*at).is_some());
        let requested: BTreeSet<u32> = asked.list.clone().map_or(universe.collect(), |list| list.into_iter().collect());
        let buckets = buckets(&selection);
        prop_assert_eq!(buckets.keys().copied().collect::<BTreeSet<_>>(), requested);
        for (segment, names) in &buckets {
            prop_assert_eq!(names.len(), 1, "{} is {:?}", segment, names);
        }

        let fail_open: BTreeSet<_> = selection.fail_open.iter().copied().collect();
        for part in &selection.parts {
            prop_assert!(!part.segments.is_empty(), "nobody is asked for optional work alone");
            prop_assert!(nodes.is_enabled(part.node), "never a disabled node");
            prop_assert!(!request.without.contains(part.node), "never one that failed in this query");
            for segment in part.segments.iter().chain(&part.optional) {
                let usable = usable(&states, &nodes, &request, *segment);
                if fail_open.contains(segment) {
                    prop_assert!(usable.is_empty(), "a healthy candidate is never passed over");
                    prop_assert!(nodes.is_unhealthy(part.node));
                    prop_assert!(!states.segment(*segment).unwrap().is_new());
                } else {
                    prop_assert!(usable.iter().any(|candidate| candidate.node() == part.node));
                }
                let mut all = states.segment(*segment).unwrap().candidates();
                let candidate = all.find(|candidate| candidate.node() == part.node).unwrap();
                prop_assert_eq!(candidate.is_online(), part.segments.contains(segment));
            }
        }

        // All or nothing, behind the switches.
        prop_assert!(fail_open.is_empty() || selection.unavailable.is_empty());
        prop_assert_eq!(!fail_open.is_empty(), selection.fail_open_gate == FailOpenGate::Passed);
        prop_assert!(fail_open.is_empty() || asked.fail_open.enabled && !options.fail_closed);
        prop_assert_eq!(selection.fail_open_eligible, selection.fail_open_gate.is_eligible());
        for (segment, _) in &selection.unavailable {
            prop_assert!(usable(&states, &nodes, &request, *segment).is_empty());
        }

        // Every pick is counted once.
        let optional: usize = selection.parts.iter().map(|part| part.optional.len()).sum();
        let picks = selection.served() + optional + selection.optional_skipped.len();
        let counted = if options.selector == SelectorKind::MultiStageReplicaGroup { 0 } else { picks };
        prop_assert_eq!(selection.pools.iter().map(|(_, count)| count).sum::<u64>(), counted as u64);

        // The explained rule leads to the pick.
        for segment in buckets.keys() {
            let explanation = explained.segment(*segment, &[]);
            let chosen: Vec<_> = explanation.nodes.iter().filter(|node| match explanation.fate {
                Fate::FailOpen(_) => node.verdict == Verdict::Excluded,
                _ => matches!(node.verdict, Verdict::Usable | Verdict::Optional),
            }).map(|node| node.node).collect();
            if let (Fate::Served(node) | Fate::FailOpen(node) | Fate::OptionalSent(node), Some(rule)) = (explanation.fate, explanation.rule) {
                prop_assert!(chosen.contains(&node));
                if let Rule::Turn(index) | Rule::Fixed(index) | Rule::Replica(index) = rule {
                    let index = usize::try_from(index % chosen.len() as u64).unwrap();
                    prop_assert_eq!(node, chosen[index]);
                }
            }
        }
    }

    #[test]
    fn strict_replicas_are_never_mixed(
        world in world(),
        pieces in prop::collection::vec(piece(), 0..10),
        id in any::<u64>(),
        fixed_replica in any::<Option<bool>>(),
    ) {
        let nodes = world.nodes();
        let states = world.build(&crate::world::routing(SelectorKind::StrictReplicaGroup), &pieces).unwrap();
        let fail_open = FailOpen { enabled: true, strict: true, multi_stage: true };
        let request = Request { fixed_replica, fail_open, ..Request::all(id) };
        let selection = select(&states, &nodes, &request).unwrap();
        let mut readers = BTreeMap::<u32, BTreeSet<NodeIndex>>::new();
        for part in &selection.parts {
            for segment in part.segments.iter().map(|at| states.segment(*at).unwrap()).filter(|one| !one.is_new()) {
                readers.entry(segment.assignment_group().unwrap()).or_default().insert(part.node);
            }
        }
        prop_assert!(readers.values().all(|nodes| nodes.len() == 1), "{:?}", readers);
    }
}
