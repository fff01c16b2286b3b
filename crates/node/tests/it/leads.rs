//! Shards that the node leads.

use pointsman_proto::node::v1 as pb;

use crate::{
    cluster::{Cluster, content},
    coordinator::{Coordinator, Heard},
};

/// The number that the scripted coordinator gives.
const OWN: u64 = 7;
const PEER: u64 = 8;

fn shard() -> pb::LedShard {
    pb::LedShard { collection_id: 3, shard: "shard-0".into() }
}

/// A wish to lead shard 0 with a view of segments 1 and 2, hosted so.
fn wish(full: bool, view: Option<u64>, hosts: &[(u64, u64)], removed: &[u64]) -> pb::DesiredLeads {
    let view = view.map(|target_version| pb::View {
        target_version,
        segments: vec![1, 2],
        rows: vec![10, 30],
        ..Default::default()
    });
    let lead = pb::DesiredLead {
        led: Some(shard()),
        collection: "t".into(),
        replica_id: 5,
        version: 9,
        view,
        segments: hosts.iter().map(|(segment, _)| *segment).collect(),
        hosts: hosts.iter().map(|(_, host)| *host).collect(),
        removed: removed.to_vec(),
    };
    let peer = pb::Peer { node_id: PEER, name: "n2".into(), address: "http://n2:1".into() };
    pb::DesiredLeads { full, leads: vec![lead], peers: vec![peer], ..Default::default() }
}

fn last(heard: &Heard) -> Option<&pb::LeadReport> {
    heard.reports.iter().rev().find_map(|report| report.leads.last())
}

#[tokio::test]
async fn a_leader_says_what_it_reaches_and_whether_it_can_answer() {
    let cluster = Cluster::start();
    let coordinator = &cluster.coordinator;
    coordinator.want(&[cluster.push(1, &content(1))]);
    let node = cluster.node();
    coordinator.until("it holds", |heard| heard.holds(&[1])).await;

    coordinator.change(|script| script.leads = wish(true, None, &[(1, OWN), (2, PEER)], &[]));
    let heard = coordinator.until("a lead", |heard| last(heard).is_some()).await;
    let lead = last(&heard).unwrap();
    assert_eq!((lead.led.clone(), lead.version, lead.target_version), (Some(shard()), 9, 0));
    assert_eq!(
        (&lead.segments[..], &lead.hosts[..], lead.serviceable),
        (&[1, 2][..], &[OWN, PEER][..], false)
    );

    coordinator.change(|script| script.leads = wish(false, Some(40), &[], &[]));
    let heard = coordinator.until("a view", |heard| last(heard).unwrap().target_version == 40).await;
    let lead = last(&heard).unwrap();
    assert!(lead.serviceable && lead.segments.is_empty(), "{lead:?}");
    let (_, page) = node.page("/debug/leads").await;
    let line = &page[0];
    assert_eq!((line["shard"].as_str(), line["serviceable"].as_bool()), (Some("shard-0"), Some(true)));
    assert_eq!((line["segments"].as_u64(), line["hosts"][1]["node"].as_str()), (Some(2), Some("n2")));

    // What it should hold no more it cannot reach any more, and it knows that first.
    coordinator.want(&[]);
    let heard = coordinator.until("a loss", |heard| !last(heard).unwrap().serviceable).await;
    assert_eq!(last(&heard).unwrap().removed, [1]);
}

#[tokio::test]
async fn a_new_session_is_told_every_lead_again() {
    let cluster = Cluster::start();
    let node = cluster.node();
    cluster.coordinator.change(|script| script.leads = wish(true, Some(40), &[(1, PEER), (2, PEER)], &[]));
    cluster.coordinator.until("a lead", |heard| last(heard).is_some_and(|lead| lead.serviceable)).await;
    let (address, mut script) = (cluster.coordinator.address(), cluster.coordinator.script());
    script.leads = pb::DesiredLeads::default();
    drop(cluster.coordinator);
    node.until_page("/ready", |_, ready| ready["coordinator"].is_null()).await;
    let coordinator = Coordinator::start_at(address, script);
    let heard = coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    let full = &heard.reports[0];
    assert!(full.full);
    let lead = &full.leads[0];
    assert_eq!((lead.target_version, lead.serviceable, &lead.segments[..]), (40, true, &[1, 2][..]));
    // A coordinator that does not say which view leaves it as it is.
    coordinator.change(|script| script.leads = wish(true, None, &[(1, PEER)], &[]));
    let heard = coordinator.until("a loss", |heard| !last(heard).unwrap().serviceable).await;
    let lead = last(&heard).unwrap();
    assert_eq!((lead.target_version, &lead.removed[..]), (40, &[2][..]));
}

#[tokio::test]
async fn a_wish_that_makes_no_sense_ends_the_session_and_changes_nothing() {
    let cluster = Cluster::start();
    let _node = cluster.node();
    let good = wish(true, Some(40), &[(1, PEER), (2, PEER)], &[]);
    cluster.coordinator.change(|script| script.leads = good.clone());
    cluster.coordinator.until("a lead", |heard| last(heard).is_some_and(|lead| lead.serviceable)).await;
    let mut wrong = good.clone();
    wrong.leads[0].hosts.clear();
    cluster.coordinator.change(|script| script.leads = wrong);
    cluster.coordinator.until("another hello", |heard| heard.hellos.len() > 1).await;
    cluster.coordinator.change(|script| script.leads = good);
    let again = |heard: &Heard| heard.reports.iter().filter(|report| report.full).count() > 1;
    let heard = cluster.coordinator.until("another session", again).await;
    let full = heard.reports.iter().rfind(|report| report.full).unwrap();
    assert!(full.leads[0].serviceable, "it leads as before");
}
