//! The cluster's configuration.

use std::collections::BTreeMap;

use pointsman_ids::ErrorCode;

use crate::{fixture::Fixture, refused};

fn config<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub(crate) async fn a_new_cluster_has_no_configuration(fixture: Fixture) {
    assert_eq!(fixture.open().await.config().await.unwrap(), BTreeMap::new());
}

pub(crate) async fn a_value_stays_until_it_is_replaced_or_taken_away(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    metastore.set_config(epoch, "a.b", "true").await.unwrap();
    metastore.set_config(epoch, "A.b", " any text: \"ö\" ").await.unwrap();
    metastore.set_config(epoch, "a.b", "").await.unwrap();
    drop(metastore);

    let metastore = fixture.open().await;
    let expected = config([("A.b", " any text: \"ö\" "), ("a.b", "")]);
    assert_eq!(metastore.config().await.unwrap(), expected);
    for _ in 0..2 {
        metastore.unset_config(epoch, "A.b").await.unwrap();
    }
    assert_eq!(metastore.config().await.unwrap(), config([("a.b", "")]));
}

pub(crate) async fn a_text_that_a_database_cannot_hold_is_refused(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let refusal = refused(ErrorCode::ParameterInvalid, metastore.set_config(epoch, "a", "x\0").await);
    assert!(refusal.message().contains("the value 'x\\0' holds a NUL"), "{refusal}");
    refused(ErrorCode::ParameterInvalid, metastore.set_config(epoch, "a\0", "x").await);
    refused(ErrorCode::ParameterInvalid, metastore.unset_config(epoch, "a\0").await);
    assert_eq!(metastore.config().await.unwrap(), BTreeMap::new());
}
