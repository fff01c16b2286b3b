//! Resource groups.

use pointsman_ids::{ErrorCode, GroupName, GroupNumber};
use pointsman_metastore::{NewGroup, SharedMetastore};
use pointsman_query_coord::{GroupChange, GroupConfig};

use crate::{
    fixture::Fixture,
    refused,
    samples::{group, moves, name, new_group},
};

/// Groups with their members, as text.
async fn members(metastore: &SharedMetastore) -> Vec<String> {
    let groups = metastore.groups().await.unwrap();
    groups.iter().map(|group| format!("{}: {:?}", group.name, group.members)).collect()
}

/// A configuration in which everything is said.
fn whole() -> GroupConfig {
    GroupConfig {
        requests: 2,
        limits: 5,
        transfer_from: [name("default"), name("east")].into(),
        transfer_to: [name("default")].into(),
        node_filter: [("zone".to_owned(), "a\"\0ö".to_owned()), ("disk".to_owned(), String::new())].into(),
    }
}

pub(crate) async fn the_default_group_is_always_there(fixture: Fixture) {
    let metastore = fixture.open().await;
    let groups = metastore.groups().await.unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].name, GroupName::default_group());
    assert_eq!(groups[0].config, GroupConfig { limits: 1_000_000, ..GroupConfig::default() });
    assert_ne!(groups[0].number, GroupNumber::NONE);
}

pub(crate) async fn a_group_gets_a_number_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let west = metastore.create_group(epoch, new_group("west", 2, 5)).await.unwrap();
    group(&metastore, epoch, "east").await;
    let groups = metastore.groups().await.unwrap();
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["default", "east", "west"]);
    assert_eq!(groups[2], west);
    assert_eq!((west.config.requests, west.config.limits, west.members.len()), (2, 5, 0));
    assert!(groups[1].number > west.number, "numbers grow");
    assert!(west.number > groups[0].number, "the default group has a number of its own");
    let gone = GroupChange { dropped: Some(name("east")), ..GroupChange::default() };
    metastore.change_groups(epoch, &gone).await.unwrap();
    let again = metastore.create_group(epoch, new_group("east", 1, 2)).await.unwrap();
    assert!(again.number > groups[1].number, "a group that comes back has a new one");
}

pub(crate) async fn a_group_name_is_taken_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["east", GroupName::DEFAULT] {
        let new = new_group(text, 0, 1);
        if text == "east" {
            metastore.create_group(epoch, new.clone()).await.unwrap();
        }
        let refusal =
            refused(ErrorCode::ResourceGroupAlreadyExists, metastore.create_group(epoch, new).await);
        assert!(refusal.message().contains(text), "{refusal}");
    }
    assert_eq!(metastore.groups().await.unwrap().len(), 2);
}

pub(crate) async fn a_configuration_reads_back_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    group(&metastore, epoch, "east").await;
    let west = NewGroup { name: name("west"), config: whole() };
    let made = metastore.create_group(epoch, west).await.unwrap();
    let groups = fixture.open().await.groups().await.unwrap();
    assert_eq!((&groups[2], &made.config), (&made, &whole()));
    let largest = GroupConfig { requests: u32::MAX, limits: u32::MAX, ..GroupConfig::default() };
    let configs = [(name("east"), whole()), (name("west"), largest.clone())];
    let change = GroupChange { configs: configs.into(), ..GroupChange::default() };
    metastore.change_groups(epoch, &change).await.unwrap();
    let groups = metastore.groups().await.unwrap();
    assert_eq!((&groups[1].config, &groups[2].config), (&whole(), &largest));
}

pub(crate) async fn a_node_is_a_member_of_one_group_at_most(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["east", "west"] {
        group(&metastore, epoch, text).await;
    }
    let both = moves(&[("n2", Some("east")), ("n1", Some("east"))]);
    metastore.change_groups(epoch, &both).await.unwrap();
    assert_eq!(members(&metastore).await, [r"default: {}", r#"east: {"n1", "n2"}"#, r"west: {}"]);
    metastore.change_groups(epoch, &moves(&[("n1", Some("west"))])).await.unwrap();
    assert_eq!(members(&metastore).await, [r"default: {}", r#"east: {"n2"}"#, r#"west: {"n1"}"#]);
    for _ in 0..2 {
        metastore.change_groups(epoch, &moves(&[("n1", None)])).await.unwrap();
    }
    assert_eq!(members(&metastore).await, [r"default: {}", r#"east: {"n2"}"#, r"west: {}"]);
}

pub(crate) async fn a_change_of_groups_is_made_whole_or_not_at_all(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["east", "west"] {
        group(&metastore, epoch, text).await;
    }
    metastore.change_groups(epoch, &moves(&[("n1", Some("east"))])).await.unwrap();
    let before = metastore.groups().await.unwrap();
    let unknown = GroupChange {
        configs: [(name("east"), whole())].into(),
        ..moves(&[("n1", Some("west")), ("n2", Some("north"))])
    };
    let refusal = refused(ErrorCode::ResourceGroupNotFound, metastore.change_groups(epoch, &unknown).await);
    assert_eq!(refusal.message(), "there is no resource group 'north'");
    let unconfigured = GroupChange {
        configs: [(name("east"), whole()), (name("north"), whole())].into(),
        ..GroupChange::default()
    };
    refused(ErrorCode::ResourceGroupNotFound, metastore.change_groups(epoch, &unconfigured).await);
    let kept = GroupChange { dropped: Some(name("east")), ..moves(&[("n2", Some("west"))]) };
    let refusal = refused(ErrorCode::ParameterInvalid, metastore.change_groups(epoch, &kept).await);
    assert!(refusal.message().contains("node 'n1' is a member"), "{refusal}");
    assert_eq!(metastore.groups().await.unwrap(), before);
}

pub(crate) async fn a_group_goes_with_the_move_of_its_members(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    group(&metastore, epoch, "east").await;
    metastore.change_groups(epoch, &moves(&[("n1", Some("east")), ("n2", Some("east"))])).await.unwrap();
    let gone = GroupChange {
        dropped: Some(name("east")),
        ..moves(&[("n1", Some("default")), ("n2", Some("default"))])
    };
    for _ in 0..2 {
        metastore.change_groups(epoch, &gone).await.unwrap();
    }
    assert_eq!(members(&metastore).await, [r#"default: {"n1", "n2"}"#]);
}
