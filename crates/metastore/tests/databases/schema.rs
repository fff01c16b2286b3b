//! The schema: applied once, refused when it is not ours.

use std::path::Path;

use pointsman_metastore::{Error, NewGroup, OpenOptions, open};
use pointsman_query_coord::GroupConfig;
use sqlx::{Connection as _, PgConnection, SqliteConnection, migrate::Migrator};

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
    numbers_of_groups_that_went_too_far_come_back
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

/// Makes the database as the first version of the program did.
pub(crate) async fn make_first_version(fixture: &Fixture) {
    let sqlite = fixture.url.starts_with("sqlite:");
    let folder = if sqlite { "../../migrations/sqlite" } else { "../../migrations/postgres" };
    let all = Migrator::new(Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join(folder))
        .await
        .unwrap();
    let first = Migrator::with_migrations(all.iter().filter(|one| one.version == 1).cloned().collect());
    if sqlite {
        let url = format!("{}?mode=rwc", fixture.url);
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        first.run_direct(None, &mut connection, false).await.unwrap();
        connection.close().await.unwrap();
    } else {
        let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
        first.run_direct(None, &mut connection, false).await.unwrap();
        connection.close().await.unwrap();
    }
}

/// Three groups, and two restored backups that passed over too many numbers.
async fn numbers_of_groups_that_went_too_far_come_back(fixture: Fixture) {
    make_first_version(&fixture).await;
    let gone_too_far = "UPDATE counters SET last = 3 + 2 * 4294967296 WHERE kind = 'resource_group'";
    fixture.execute(gone_too_far).await;
    let (metastore, epoch) = fixture.active().await;
    let group = NewGroup { name: "east".parse().unwrap(), config: GroupConfig::default() };
    let group = metastore.create_group(epoch, group).await.unwrap();
    assert_eq!(group.number.0, 3 + 2 * 65_536 + 1);
}

async fn an_older_schema_is_brought_up_to_date(fixture: Fixture) {
    make_first_version(&fixture).await;
    fixture
        .execute(
            "INSERT INTO nodes (name, incarnation, id, switched_on) VALUES ('n1', 7, 1, TRUE); \
             INSERT INTO resource_groups (number, name, requests, limits) VALUES (1, 'east', 2, 5); \
             INSERT INTO members (node, group_number) VALUES ('n1', 1)",
        )
        .await;
    let (metastore, epoch) = fixture.active().await;
    let nodes = metastore.nodes().await.unwrap();
    assert_eq!((nodes[0].name.as_str(), nodes[0].incarnation.0, nodes.len()), ("n1", 7, 1));
    let groups = metastore.groups().await.unwrap();
    assert_eq!((groups[1].name.as_str(), groups[1].members.len()), ("east", 1));
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
    assert!(text.contains("has version 9000, and this program knows versions up to "), "{text}");
    assert!(text.contains(": use a newer program, or restore a backup from before the upgrade"), "{text}");
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
