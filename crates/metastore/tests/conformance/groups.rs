//! Resource groups.

use pointsman_ids::{ErrorCode, GroupName, GroupNumber, NodeName};
use pointsman_metastore::{NewGroup, SharedMetastore};

use crate::{
    fixture::Fixture,
    refused,
    samples::{group, name},
};

/// Groups with their members, as text.
async fn members(metastore: &SharedMetastore) -> Vec<String> {
    let groups = metastore.groups().await.unwrap();
    groups.iter().map(|group| format!("{}: {:?}", group.name, group.members)).collect()
}

pub(crate) async fn the_default_group_is_always_there(fixture: Fixture) {
    let metastore = fixture.open().await;
    let groups = metastore.groups().await.unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].name, GroupName::default_group());
    assert_eq!((groups[0].requests, groups[0].limits), (0, 1_000_000));
    assert_ne!(groups[0].number, GroupNumber::NONE);
}

pub(crate) async fn a_group_gets_a_number_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let new = NewGroup { name: name("west"), requests: 2, limits: 5 };
    let west = metastore.create_group(epoch, new).await.unwrap();
    group(&metastore, epoch, "east").await;
    let groups = metastore.groups().await.unwrap();
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["default", "east", "west"]);
    assert_eq!(groups[2], west);
    assert_eq!((west.requests, west.limits, west.members.len()), (2, 5, 0));
    assert!(groups[1].number > west.number, "numbers grow");
    assert!(west.number > groups[0].number, "the default group has a number of its own");
}

pub(crate) async fn a_group_name_is_taken_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["east", GroupName::DEFAULT] {
        let new = NewGroup { name: name(text), requests: 0, limits: 1 };
        if text == "east" {
            metastore.create_group(epoch, new.clone()).await.unwrap();
        }
        let refusal =
            refused(ErrorCode::ResourceGroupAlreadyExists, metastore.create_group(epoch, new).await);
        assert!(refusal.message().contains(text), "{refusal}");
    }
    assert_eq!(metastore.groups().await.unwrap().len(), 2);
}

pub(crate) async fn a_group_cannot_request_more_than_its_limit(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let new = NewGroup { name: name("east"), requests: 3, limits: 2 };
    refused(ErrorCode::ResourceGroupIllegalConfig, metastore.create_group(epoch, new).await);
}

pub(crate) async fn a_node_is_a_member_of_one_group_at_most(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (east, west) = (group(&metastore, epoch, "east").await, group(&metastore, epoch, "west").await);
    let (n1, n2): (NodeName, NodeName) = (name("n1"), name("n2"));
    metastore.set_member(epoch, &n2, Some(&east)).await.unwrap();
    metastore.set_member(epoch, &n1, Some(&east)).await.unwrap();
    assert_eq!(members(&metastore).await, [r"default: {}", r#"east: {"n1", "n2"}"#, r"west: {}"]);
    metastore.set_member(epoch, &n1, Some(&west)).await.unwrap();
    assert_eq!(members(&metastore).await, [r"default: {}", r#"east: {"n2"}"#, r#"west: {"n1"}"#]);
    metastore.set_member(epoch, &n1, None).await.unwrap();
    metastore.set_member(epoch, &n1, None).await.unwrap();
    assert_eq!(members(&metastore).await, [r"default: {}", r#"east: {"n2"}"#, r"west: {}"]);
}

pub(crate) async fn a_member_needs_its_group(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let outcome = metastore.set_member(epoch, &name("n1"), Some(&name("north"))).await;
    let refusal = refused(ErrorCode::ResourceGroupNotFound, outcome);
    assert_eq!(refusal.message(), "there is no resource group 'north'");
}
