//! Nodes.

use std::collections::BTreeMap;

use pointsman_ids::{ErrorCode, Incarnation, NodeId};
use pointsman_metastore::SharedMetastore;
use pointsman_query_coord::NodeRecord;

use crate::{
    fixture::Fixture,
    refused,
    samples::{moves, name, nodes},
};

pub(crate) async fn a_newcomer_gets_a_number_and_is_switched_on(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let record = metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    let expected = NodeRecord {
        name: name("n1"),
        incarnation: Incarnation(7),
        id: NodeId(1),
        switched_on: true,
        labels: Default::default(),
    };
    assert_eq!(record, expected);
    assert_eq!(metastore.nodes().await.unwrap(), [expected]);
}

pub(crate) async fn the_same_incarnation_keeps_its_number(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let first = metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    metastore.register_node(epoch, &name("n2"), Incarnation(7)).await.unwrap();
    assert_eq!(metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap(), first);
}

pub(crate) async fn a_newer_incarnation_gets_a_new_number(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    fixture.execute("UPDATE nodes SET switched_on = FALSE").await;
    let record = metastore.register_node(epoch, &name("n1"), Incarnation(8)).await.unwrap();
    assert_eq!((record.incarnation, record.id), (Incarnation(8), NodeId(2)));
    assert!(!record.switched_on, "a restart does not turn the operator's switch");
    assert_eq!(metastore.nodes().await.unwrap(), [record]);
}

pub(crate) async fn an_older_incarnation_is_refused(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let record = metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    let outcome = metastore.register_node(epoch, &name("n1"), Incarnation(6)).await;
    let refusal = refused(ErrorCode::ParameterInvalid, outcome);
    assert!(
        refusal.message().starts_with("node 'n1' comes with incarnation 6, but started with the newer 7")
    );
    assert_eq!(metastore.nodes().await.unwrap(), [record]);
}

pub(crate) async fn nodes_come_by_name(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["n2", "n10", "N"] {
        metastore.register_node(epoch, &name(text), Incarnation(1)).await.unwrap();
    }
    let names: Vec<_> =
        metastore.nodes().await.unwrap().into_iter().map(|node| node.name.to_string()).collect();
    assert_eq!(names, ["N", "n10", "n2"]);
}

/// Names of the nodes whose switch is on.
async fn switched_on(metastore: &SharedMetastore) -> Vec<String> {
    let nodes = metastore.nodes().await.unwrap();
    nodes.into_iter().filter(|node| node.switched_on).map(|node| node.name.to_string()).collect()
}

pub(crate) async fn the_switch_stays_as_the_operator_turned_it(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["n1", "n2", "n3"] {
        metastore.register_node(epoch, &name(text), Incarnation(1)).await.unwrap();
    }
    let two: Vec<_> = nodes(&["n1", "n3"]);
    for _ in 0..2 {
        metastore.set_switch(epoch, &two, false).await.unwrap();
        assert_eq!(switched_on(&metastore).await, ["n2"]);
    }
    let record = metastore.register_node(epoch, &name("n1"), Incarnation(2)).await.unwrap();
    assert!(!record.switched_on, "a restart of the node does not turn it");
    drop(metastore);
    let metastore = fixture.open().await;
    assert_eq!(switched_on(&metastore).await, ["n2"]);
    metastore.set_switch(epoch, &two, true).await.unwrap();
    assert_eq!(switched_on(&metastore).await, ["n1", "n2", "n3"]);
}

pub(crate) async fn the_switch_of_all_is_turned_or_of_none(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    metastore.register_node(epoch, &name("n1"), Incarnation(1)).await.unwrap();
    let outcome = metastore.set_switch(epoch, &nodes::<Vec<_>>(&["n1", "n2"]), false).await;
    let refusal = refused(ErrorCode::NodeNotFound, outcome);
    assert_eq!(refusal.message(), "there is no node 'n2'");
    assert_eq!(switched_on(&metastore).await, ["n1"]);
}

pub(crate) async fn a_removed_node_is_forgotten_and_its_number_never_used_again(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let gone = metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    let kept = metastore.register_node(epoch, &name("n2"), Incarnation(7)).await.unwrap();
    for text in ["n1", "n2"] {
        metastore.change_groups(epoch, &moves(&[(text, Some("default"))])).await.unwrap();
    }
    for _ in 0..2 {
        metastore.remove_node(epoch, &name("n1")).await.unwrap();
    }
    assert_eq!(metastore.nodes().await.unwrap(), std::slice::from_ref(&kept));
    assert_eq!(metastore.groups().await.unwrap()[0].members, nodes(&["n2"]));
    // What comes back by this name is a newcomer, also with an incarnation from before.
    let back = metastore.register_node(epoch, &name("n1"), Incarnation(1)).await.unwrap();
    assert!(back.id > kept.id && back.id > gone.id && back.switched_on);
}

pub(crate) async fn labels_stay_until_they_are_replaced(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["n1", "n2"] {
        metastore.register_node(epoch, &name(text), Incarnation(1)).await.unwrap();
    }
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect()
    };
    let odd = labels(&[("disk", "ssd"), ("quo\"ted", "a\0b\nä"), ("empty", "")]);
    metastore.set_labels(epoch, &name("n1"), &odd).await.unwrap();
    metastore.set_labels(epoch, &name("never-seen"), &odd).await.unwrap();
    let renewed = metastore.register_node(epoch, &name("n1"), Incarnation(2)).await.unwrap();
    assert_eq!(renewed.labels, odd, "a restart alone changes none");
    let nodes = fixture.open().await.nodes().await.unwrap();
    assert_eq!((&nodes[0].labels, nodes[1].labels.len(), nodes.len()), (&odd, 0, 2));
    let fewer = labels(&[("disk", "hdd")]);
    metastore.set_labels(epoch, &name("n1"), &fewer).await.unwrap();
    assert_eq!(metastore.nodes().await.unwrap()[0].labels, fewer);
}
