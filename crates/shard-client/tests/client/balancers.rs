//! Balancers by themselves.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};
use pointsman_shard_client::{
    Balancer, Cost, Leader, Policy, Settings,
    balancer::{LookAside, RoundRobin, WeightedRoundRobin},
};

use crate::world::at;

fn leaders(nodes: &[u64]) -> Vec<Leader> {
    let leader = |node: &u64| Leader {
        node: NodeId(*node),
        address: "a".into(),
        serviceable: true,
        resource_group: "".into(),
    };
    nodes.iter().map(leader).collect()
}

fn register(balancer: &dyn Balancer, nodes: &[u64]) {
    let leaders = leaders(nodes);
    balancer.register(&leaders.iter().collect::<Vec<_>>());
}

fn picks(balancer: &dyn Balancer, nodes: &[u64], count: usize) -> Vec<u64> {
    let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
    (0..count).map(|_| balancer.pick(&nodes, 1, at(0)).unwrap().0).collect()
}

fn known(balancer: &dyn Balancer, now: MonoTime) -> Vec<(u64, bool, bool, i64)> {
    let reports = balancer.report(now).into_iter();
    reports.map(|report| (report.node.0, report.known, report.unavailable, report.executing)).collect()
}

/// One round of checks in which every node fails, or every one passes.
fn check(balancer: &dyn Balancer, now: MonoTime, is_healthy: bool) -> usize {
    let due = balancer.start_checks(now);
    due.iter().for_each(|(node, _)| balancer.checked(*node, is_healthy));
    due.len()
}

#[test]
fn round_robin_raises_its_counter_before_it_counts() {
    let balancer = RoundRobin::default();
    assert_eq!(picks(&balancer, &[1, 2, 3], 4), [2, 3, 1, 2]);
    assert_eq!(balancer.pick(&[], 1, at(0)).unwrap_err().code(), ErrorCode::NodeNotAvailable);
}

#[test]
fn weights_share_out_the_turns_and_none_is_an_error() {
    let balancer = WeightedRoundRobin::default();
    balancer.set_weights([(NodeId(1), 2), (NodeId(2), 0), (NodeId(3), -1)]);
    assert_eq!(picks(&balancer, &[1, 2, 3, 4], 6), [1, 4, 1, 1, 4, 1]);
    balancer.set_weights([(NodeId(1), 0)]);
    let nobody = balancer.pick(&[NodeId(1)], 1, at(0)).unwrap_err();
    assert_eq!(nobody.code(), ErrorCode::NodeNotAvailable);
    // One that knows no weights is offered the nodes of positive weight.
    let look_aside = LookAside::new(&Settings::default());
    let weighted = [(NodeId(1), 0), (NodeId(2), 5), (NodeId(3), -1)];
    assert_eq!(look_aside.pick_weighted(&weighted, 1, at(0)).unwrap(), NodeId(2));
    let huge = [(NodeId(1), i64::MAX), (NodeId(2), i64::MAX), (NodeId(3), i64::MAX)];
    assert!(RoundRobin::default().pick_weighted(&huge, 1, at(0)).is_ok());
}

#[test]
fn an_unknown_policy_means_look_aside() {
    assert_eq!(Policy::from_word("round_robin"), Policy::RoundRobin);
    assert_eq!(Policy::from_word("fastest"), Policy::LookAside);
}

#[test]
fn a_forgotten_node_comes_back_as_one_that_has_yet_to_pass_a_check() {
    let balancer = LookAside::new(&Settings::default());
    register(&balancer, &[1, 2]);
    assert_eq!(picks(&balancer, &[1], 1), [1]);
    for second in 1..=10 {
        assert_eq!(check(&balancer, at(second * 1000), false), 2);
        let unavailable = second >= 3;
        let is_known = second < 10;
        let expected = (1, is_known, unavailable && is_known, 1);
        assert_eq!(known(&balancer, at(0))[0], expected, "after {second} checks");
    }
    // What still executes stays in the books, and no more checks are due.
    assert_eq!(check(&balancer, at(11_000), true), 0);
    register(&balancer, &[1]);
    assert_eq!(known(&balancer, at(0))[0], (1, true, true, 1));
    let refused = balancer.pick(&[NodeId(1)], 1, at(0)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ServiceUnavailable);
    assert_eq!(check(&balancer, at(12_000), true), 1);
    assert_eq!(picks(&balancer, &[1], 1), [1]);
    balancer.cancel(NodeId(1), 2);
    assert_eq!(known(&balancer, at(0))[0], (1, true, false, 0));
}

#[test]
fn work_is_taken_back_from_a_node_that_nobody_registered() {
    let balancer = LookAside::new(&Settings::default());
    balancer.cancel(NodeId(1), 2);
    assert_eq!(known(&balancer, at(0)), [(1, false, false, -2)]);
}

#[test]
fn a_node_has_one_check_at_a_time_and_a_young_answer_spares_it() {
    let balancer = LookAside::new(&Settings::default());
    register(&balancer, &[1]);
    assert_eq!(balancer.start_checks(at(1000)).len(), 1);
    assert_eq!(balancer.start_checks(at(2000)).len(), 0);
    balancer.checked(NodeId(1), false);
    assert_eq!(balancer.start_checks(at(3000)).len(), 1);
    balancer.checked(NodeId(1), false);
    let ms = Duration::from_millis;
    balancer.report_cost(
        NodeId(1),
        Cost { response_time: ms(9), service_time: ms(9), total_nq: 0 },
        at(3000),
    );
    assert_eq!(balancer.start_checks(at(4000)).len(), 0, "as old as the interval is not older");
    assert_eq!(balancer.start_checks(at(4001)).len(), 1);
    balancer.checked(NodeId(1), false);
    assert!(!known(&balancer, at(0))[0].2, "the answer has cleared the count");
}

#[test]
fn when_nobody_is_reachable_the_turn_stays() {
    let balancer = LookAside::new(&Settings { check_workload_every: 1000, ..Settings::default() });
    register(&balancer, &[1, 2]);
    assert_eq!(picks(&balancer, &[1, 2], 1), [1]);
    for second in 1..=3 {
        check(&balancer, at(second * 1000), false);
    }
    for _ in 0..3 {
        let refused = balancer.pick(&[NodeId(1), NodeId(2)], 1, at(0)).unwrap_err();
        assert_eq!((refused.code(), refused.is_retriable()), (ErrorCode::ServiceUnavailable, true));
    }
    check(&balancer, at(4000), true);
    assert_eq!(picks(&balancer, &[1, 2], 1), [2]);
}

#[test]
fn settings_out_of_range_mean_something() {
    for every in [0, -3] {
        let balancer = LookAside::new(&Settings { check_workload_every: every, ..Settings::default() });
        register(&balancer, &[1, 2]);
        let cost = |response| Cost {
            response_time: Duration::from_secs(response),
            service_time: Duration::from_secs(1),
            total_nq: 0,
        };
        balancer.report_cost(NodeId(1), cost(9), at(0));
        balancer.report_cost(NodeId(2), cost(1), at(0));
        assert_eq!(picks(&balancer, &[1, 2], 2), [2, 2], "every choice compares");
    }
}
