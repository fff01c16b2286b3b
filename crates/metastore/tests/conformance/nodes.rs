//! Nodes.

use pointsman_ids::{ErrorCode, Incarnation, NodeId};
use pointsman_query_coord::NodeRecord;

use crate::{fixture::Fixture, refused, samples::name};

pub(crate) async fn a_newcomer_gets_a_number_and_is_switched_on(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let record = metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    let expected =
        NodeRecord { name: name("n1"), incarnation: Incarnation(7), id: NodeId(1), switched_on: true };
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
