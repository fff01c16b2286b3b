//! The schema: applied once, refused when it is not ours.

use pointsman_metastore::{Error, OpenOptions, open};

use crate::fixture::{Fixture, on_postgres, on_sqlite};

macro_rules! on_both {
    ($($rule:ident)+) => {
        mod postgres {
            $(#[tokio::test] async fn $rule() { super::on_postgres(super::$rule).await; })+
        }
        mod sqlite {
            $(#[tokio::test] async fn $rule() { super::on_sqlite(super::$rule).await; })+
        }
    };
}

on_both! {
    the_schema_is_applied_once
    an_older_schema_is_brought_up_to_date
    a_newer_schema_is_refused
    an_altered_schema_is_refused
    a_half_applied_schema_is_refused
    a_database_of_another_program_is_refused
}

/// The text with which the schema is refused. It names the database.
async fn refused(fixture: &Fixture) -> String {
    match open(&fixture.url, OpenOptions::default()).await {
        Err(Error::Schema(text)) => {
            assert!(
                text.contains("the metastore 'sqlite:/") || text.contains("the metastore 'postgres://"),
                "{text}"
            );
            text
        }
        other => panic!("the schema should be refused: {other:?}"),
    }
}

async fn the_schema_is_applied_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let node = metastore.register_node(epoch, &"n1".parse().unwrap(), 1.into()).await.unwrap();
    let again = fixture.open().await;
    assert_eq!(again.nodes().await.unwrap(), [node]);
}

/// Takes the database back to what the first version of the program left.
async fn an_older_schema_is_brought_up_to_date(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let node = metastore.register_node(epoch, &"n1".parse().unwrap(), 1.into()).await.unwrap();
    drop(metastore);
    fixture.execute("DROP TABLE cluster_config; DELETE FROM _sqlx_migrations WHERE version > 1").await;
    let metastore = fixture.open().await;
    assert_eq!(metastore.nodes().await.unwrap(), [node]);
    metastore.set_config(epoch, "a", "b").await.unwrap();
    assert_eq!(metastore.config().await.unwrap().len(), 1);
}

async fn a_newer_schema_is_refused(fixture: Fixture) {
    fixture.open().await;
    fixture
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT 9000, 'from the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
    let text = refused(&fixture).await;
    assert!(
        text.contains("has version 9000, and this program knows versions up to 2: use a newer program"),
        "{text}"
    );
}

async fn an_altered_schema_is_refused(fixture: Fixture) {
    fixture.open().await;
    let sql = if fixture.url.starts_with("sqlite") {
        "UPDATE _sqlx_migrations SET checksum = x'00'"
    } else {
        "UPDATE _sqlx_migrations SET checksum = '\\x00'"
    };
    fixture.execute(sql).await;
    let text = refused(&fixture).await;
    assert!(text.starts_with("version 1 of the schema of the metastore"), "{text}");
    assert!(text.ends_with("use the program that made the database, or restore a backup"), "{text}");
}

async fn a_half_applied_schema_is_refused(fixture: Fixture) {
    fixture.open().await;
    fixture.execute("UPDATE _sqlx_migrations SET success = FALSE").await;
    assert!(refused(&fixture).await.contains("was applied in part"));
}

async fn a_database_of_another_program_is_refused(fixture: Fixture) {
    fixture.open().await;
    fixture.execute("DELETE FROM _sqlx_migrations").await;
    let text = refused(&fixture).await;
    assert!(text.contains("it must be an empty database or one of this program"), "{text}");
}
