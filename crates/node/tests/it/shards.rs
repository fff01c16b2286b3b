//! Requests by shard: a leader that answers from its own segments and from those of another node.

use std::{
    fs,
    time::{Duration, Instant},
};

use pointsman_ids::ErrorCode;
use pointsman_node::Pace;
use pointsman_settings::{Bytes, NodeSettings};
use pointsman_testkit::{Network, Relay};
use tokio::{net::TcpListener, time::timeout};

use crate::{
    cluster::Cluster,
    coordinator::DEADLINE,
    node::{self, Node},
    vectors::{
        OWN, PEER, ask, ask_segments, ask_within, client, distances, keys, lead, nearest, request,
        rows_where, until_serviceable, vectors,
    },
};

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

/// A leader that holds segment 1, and is to ask `peer` for segment 2.
async fn leader(peer: &str) -> (Cluster, Node) {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[vectors(&cluster, 1)]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    cluster.coordinator.change(|script| script.leads = lead(40, &[(1, OWN), (2, PEER)], peer));
    until_serviceable(&cluster, 40).await;
    (cluster, node)
}

/// Another node, which holds these segments.
async fn sibling(segments: &[u64]) -> (Cluster, Node) {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.node_id = PEER);
    cluster.coordinator.want(&segments.iter().map(|id| vectors(&cluster, *id)).collect::<Vec<_>>());
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(segments)).await;
    (cluster, node)
}

async fn until_idle(node: &Node) {
    node.until_page("/debug/requests", |_, page| {
        *page == serde_json::json!({"requests": 0, "nq": 0, "bytes": 0})
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_holds_everything_answers_alone() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[vectors(&cluster, 1), vectors(&cluster, 2)]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1, 2])).await;
    // What it holds itself it asks nowhere else, whoever else is said to hold it.
    cluster.coordinator.change(|script| script.leads = lead(40, &[(1, OWN), (2, PEER)], NOWHERE));
    until_serviceable(&cluster, 40).await;
    let answer = ask(&node.grpc, request(nearest(200.0, 3))).await.unwrap();
    assert_eq!(keys(&answer.rows), [200, 199, 201], "by distance, then by key");
    assert_eq!(distances(&answer.rows), [0.0, 1.0, 1.0]);
    assert_eq!((answer.target_version, answer.replica_id, answer.total_nq), (40, 5, 0));
    let looked = answer.looked.unwrap();
    assert_eq!((looked.segments, looked.indexed_segments, looked.rows), (2, 0, 200));
    assert!(answer.service_us <= answer.response_us && answer.response_us > 0);
    let answer = ask(&node.grpc, request(rows_where("id % 50 = 7"))).await.unwrap();
    assert_eq!(keys(&answer.rows), [107, 157, 207, 257]);
    until_idle(&node).await;
}

#[tokio::test]
async fn what_another_node_holds_is_merged_in() {
    let (_other, sibling) = sibling(&[2]).await;
    let (_cluster, node) = leader(&sibling.grpc).await;
    let answer = ask(&node.grpc, request(nearest(200.0, 3))).await.unwrap();
    assert_eq!(keys(&answer.rows), [200, 199, 201]);
    assert_eq!(answer.looked.unwrap().segments, 2);
    let answer = ask(&node.grpc, request(rows_where("id > 197 AND id < 202"))).await.unwrap();
    assert_eq!(keys(&answer.rows), [198, 199, 200, 201]);
    for node in [&node, &sibling] {
        until_idle(node).await;
    }
}

#[tokio::test]
async fn a_node_that_is_away_or_lacks_its_segment_is_named_and_there_is_no_part_of_an_answer() {
    let (_cluster, node) = leader(NOWHERE).await;
    let error = ask(&node.grpc, request(nearest(200.0, 3))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    assert!(error.is_retriable() && error.message().contains("'n2' (8)"), "{error}");

    let (_other, sibling) = sibling(&[3]).await;
    let (_cluster, node) = leader(&sibling.grpc).await;
    let error = ask(&node.grpc, request(nearest(200.0, 3))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(error.message().contains("'n2' (8)") && error.message().contains(": 2"), "{error}");
    until_idle(&node).await;
}

#[tokio::test]
async fn a_node_that_hangs_is_named_before_the_caller_goes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (_cluster, node) = leader(&address).await;
    let error = ask_within(&node.grpc, request(nearest(200.0, 3)), Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NodeSilent);
    assert!(error.is_retriable() && error.message().contains("'n2' (8)"), "{error}");
    until_idle(&node).await;
}

#[tokio::test]
async fn a_segment_that_has_moved_is_asked_for_where_it_is_now() {
    let (_other, sibling) = sibling(&[2]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hanging = format!("http://{}", listener.local_addr().unwrap());
    let (cluster, node) = leader(&hanging).await;
    let asked = tokio::spawn({
        let url = node.grpc.clone();
        async move { ask(&url, request(nearest(200.0, 3))).await }
    });
    // It is being asked when the coordinator says that another one has the segment.
    let connection = timeout(DEADLINE, listener.accept()).await.unwrap().unwrap();
    cluster.coordinator.change(|script| {
        let mut leads = lead(40, &[(1, OWN), (2, 9)], &hanging);
        let peer =
            pointsman_proto::node::v1::Peer { node_id: 9, name: "n3".into(), address: sibling.grpc.clone() };
        leads.peers.push(peer);
        script.leads = leads;
    });
    node.until_page("/debug/leads", |_, page| page[0]["hosts"][1]["node"] == "n3").await;
    drop((connection, listener));
    // The other node is not number 9, and says so: the part was asked for once more, and not again.
    let error = timeout(DEADLINE, asked).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(error.message().contains("'n3' (9)") && error.message().contains("node 9 was meant"), "{error}");
}

#[tokio::test]
async fn who_does_not_lead_or_is_another_process_says_so() {
    let (cluster, node) = leader(NOWHERE).await;
    let mut other = request(nearest(1.0, 1));
    other.node_id = 6;
    let error = ask(&node.grpc, other).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChannelMisrouted);
    assert!(error.message().contains("node 6 was meant, and node 7"), "{error}");
    let error = ask_segments(&node.grpc, 6, &[1]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChannelMisrouted);

    cluster.coordinator.change(|script| {
        let removed = script.leads.leads[0].led.clone().into_iter().collect();
        script.leads = pointsman_proto::node::v1::DesiredLeads { removed, ..Default::default() };
    });
    node.until_page("/debug/leads", |_, page| page.as_array().unwrap().is_empty()).await;
    let error = ask(&node.grpc, request(nearest(1.0, 1))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChannelMisrouted);
    assert!(error.message().contains("it did, by version 9"), "{error}");
}

#[tokio::test]
async fn a_shard_that_is_not_whole_or_too_old_says_how_far_it_is() {
    let (cluster, node) = leader(NOWHERE).await;
    let mut newer = request(nearest(1.0, 1));
    newer.target_version_at_least = 41;
    let error = ask(&node.grpc, newer).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(error.message().contains("target 40, and 41"), "{error}");

    cluster.coordinator.change(|script| {
        let mut leads = lead(41, &[(1, OWN), (2, PEER)], NOWHERE);
        (leads.leads[0].segments, leads.leads[0].hosts) = (vec![1], vec![OWN]);
        script.leads = leads;
    });
    node.until_page("/debug/leads", |_, page| page[0]["target_version"] == 41).await;
    let error = ask(&node.grpc, request(nearest(1.0, 1))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(error.message().contains("reaches 1 of its 2 segments of target 41"), "{error}");
}

#[tokio::test]
async fn a_node_answers_for_all_segments_that_it_is_asked_for_or_names_those_it_lacks() {
    let (_cluster, node) = leader(NOWHERE).await;
    let answer = ask_segments(&node.grpc, OWN, &[1]).await.unwrap();
    assert_eq!(keys(&answer.rows), [150, 149, 151]);
    let error = ask_segments(&node.grpc, OWN, &[1, 5, 6]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SegmentNotLoaded);
    assert!(error.message().contains("2 of the segments: 5, 6"), "{error}");
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_the_callers_fault() {
    let (_cluster, node) = leader(NOWHERE).await;
    for (question, text) in [
        (nearest(f32::NAN, 1), "NaN"),
        (nearest(1.0, 0), "k is 0"),
        (rows_where("ids > 7"), "id"),
        (rows_where("id > "), ""),
        (pointsman_proto::common::v1::Question::default(), "question"),
    ] {
        let error = ask(&node.grpc, request(question)).await.unwrap_err();
        assert_eq!(error.code().class(), pointsman_ids::ErrorClass::Input, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
    let mut empty = request(nearest(1.0, 1));
    (empty.table, empty.question) = (None, Some(nearest(1.0, 1)));
    assert_eq!(ask(&node.grpc, empty).await.unwrap_err().code(), ErrorCode::ParameterInvalid);
    until_idle(&node).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_count_and_no_call_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (_cluster, node) = leader(&address).await;
    let mut client = client(&node.grpc).await;
    let asked = tokio::spawn(async move { client.answer_shard(request(nearest(200.0, 3))).await });
    node.until_page("/debug/requests", |_, page| page["requests"] == 1 && page["nq"] == 1).await;
    asked.abort();
    until_idle(&node).await;
}

#[tokio::test]
async fn more_requests_than_allowed_are_refused_retriably() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let cluster = Cluster::start();
    cluster.coordinator.want(&[vectors(&cluster, 1)]);
    let settings =
        NodeSettings { shard_requests: 1, shard_request_memory: Bytes::mib(16), ..cluster.settings() };
    let node = Node::start(settings, node::pace());
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    cluster.coordinator.change(|script| script.leads = lead(40, &[(1, OWN), (2, PEER)], &address));
    until_serviceable(&cluster, 40).await;
    let mut waiting = client(&node.grpc).await;
    let waiting = tokio::spawn(async move { waiting.answer_shard(request(nearest(200.0, 3))).await });
    node.until_page("/debug/requests", |_, page| page["requests"] == 1).await;
    let error = ask_segments(&node.grpc, OWN, &[1]).await.unwrap_err();
    assert!(error.code() == ErrorCode::ServiceTooManyRequests && error.is_retriable(), "{error}");
    waiting.abort();
    until_idle(&node).await;
    ask_segments(&node.grpc, OWN, &[1]).await.unwrap();
}

#[tokio::test]
async fn a_segment_whose_file_is_gone_is_not_answered_without() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[vectors(&cluster, 1)]);
    // Nobody but the request looks for files, and nothing is fetched again for a while.
    let pace = Pace { presence_check: Duration::from_secs(3600), ..node::pace() };
    let node = cluster.node_with(pace);
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    cluster.coordinator.change(|script| script.leads = lead(40, &[(1, OWN)], NOWHERE));
    until_serviceable(&cluster, 40).await;
    fs::remove_file(cluster.object(1)).unwrap();
    fs::remove_file(node.file(1)).unwrap();
    let error = ask(&node.grpc, request(nearest(150.0, 1))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(error.is_retriable(), "{error}");
}

#[tokio::test]
async fn a_node_that_stops_ends_what_it_works_on_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (_cluster, node) = leader(&address).await;
    let url = node.grpc.clone();
    let asked =
        tokio::spawn(
            async move { ask_within(&url, request(nearest(200.0, 3)), Duration::from_secs(2)).await },
        );
    node.until_page("/debug/requests", |_, page| page["requests"] == 1).await;
    node.stop();
    let error = timeout(DEADLINE, asked).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::NodeSilent, "it was answered, and not broken off: {error}");
    node.end().await.unwrap();
}

/// One request finds out that a node hangs; those that come after it do not wait for it, and it is asked again once it is
/// well, also by those with little time.
#[tokio::test]
async fn a_node_that_hangs_holds_up_no_request_after_the_first() {
    let (_other, sibling) = sibling(&[2]).await;
    let target = sibling.grpc.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    for first in [Duration::from_secs(20), Duration::from_millis(200)] {
        let relay = Relay::start(target).unwrap();
        let (_cluster, node) = leader(&relay.url()).await;
        ask(&node.grpc, request(nearest(200.0, 3))).await.unwrap();
        relay.set(Network::Silent);
        let error = ask_within(&node.grpc, request(nearest(200.0, 3)), first).await.unwrap_err();
        assert!(error.is_retriable() && error.message().contains("'n2' (8)"), "{error}");
        // With little time silence is no proof, and a probe decides.
        let waits = async || {
            let error = ask_within(&node.grpc, request(nearest(200.0, 3)), first).await.unwrap_err();
            error.message().contains("within the request's time")
        };
        timeout(DEADLINE, async { while waits().await {} }).await.unwrap();
        for _ in 0..5 {
            let began = Instant::now();
            let error = ask(&node.grpc, request(nearest(200.0, 3))).await.unwrap_err();
            assert!(error.is_retriable() && error.message().contains("'n2' (8)"), "{error}");
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        }
        relay.set(Network::Up);
        let back = async { while ask(&node.grpc, request(nearest(200.0, 3))).await.is_err() {} };
        timeout(DEADLINE, back).await.unwrap();
        until_idle(&node).await;
    }
}
