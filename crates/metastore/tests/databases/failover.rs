//! PostgreSQL fails over to a standby, which may lack what was committed last.

use std::time::{Duration, Instant};

use pointsman_ids::{Epoch, Incarnation};
use pointsman_metastore::{
    Error, Lease, LeaseOutcome, NewCollection, NewGroup, OpenOptions, SegmentsHeld, SharedMetastore, open,
};
use pointsman_query_coord::GroupConfig;
use pointsman_testkit::Postgres;
use sqlx::{Connection, PgConnection};

use crate::fixture::{on_postgres, take};

const LONG: Duration = Duration::from_secs(60);

fn collection(name: &str) -> NewCollection {
    let column =
        pointsman_ids::catalog::Column { name: "x".into(), data_type: "Int64".into(), nullable: false };
    let options = Default::default();
    NewCollection { name: name.parse().unwrap(), columns: vec![column], options, created_at: 1 }
}

async fn execute(server: &Postgres, sql: &'static str) {
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    for sql in sql.split("; ") {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
}

/// Waits until the standby has everything that the primary has.
async fn in_step(primary: &Postgres, standby: &Postgres) {
    let ask = async |server: &Postgres, sql: &'static str| -> i64 {
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    };
    let written = ask(primary, "SELECT CAST(pg_current_wal_lsn() - '0/0' AS BIGINT)").await;
    let deadline = Instant::now() + LONG;
    while ask(standby, "SELECT CAST(pg_last_wal_replay_lsn() - '0/0' AS BIGINT)").await < written {
        assert!(Instant::now() < deadline, "the standby does not follow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks for the lease until the server answers.
async fn take_again(metastore: &SharedMetastore, holder: &str) -> LeaseOutcome {
    let deadline = Instant::now() + LONG;
    loop {
        match metastore.take_lease(holder, LONG, Epoch(0)).await {
            Ok(outcome) => return outcome,
            Err(error) => assert!(Instant::now() < deadline && error.is_passing(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn names(metastore: &SharedMetastore) -> Vec<String> {
    let collections = metastore.collections().await.unwrap();
    collections.into_iter().map(|collection| collection.name.to_string()).collect()
}

fn moved(outcome: LeaseOutcome) -> Lease {
    match outcome {
        LeaseOutcome::Moved { lease, before, now } => {
            // The same cluster, on its next timeline.
            assert_eq!(before.split('/').next(), now.split('/').next());
            assert!(before.ends_with("/00000001") && now.ends_with("/00000002"), "{before} {now}");
            lease
        }
        other => panic!("the failover was not noticed: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lacks_the_newest_changes_is_noticed_before_anything_is_written() {
    let mut primary = Postgres::start_durable().unwrap();
    let mut standby = primary.standby().unwrap();
    let metastore = open(&primary.url(), OpenOptions::default()).await.unwrap();
    let lease = take(&metastore, "c1").await;
    let kept = metastore.create_collection(lease.epoch, collection("kept")).await.unwrap();
    metastore.register_node(lease.epoch, &"n1".parse().unwrap(), Incarnation(1)).await.unwrap();
    in_step(&primary, &standby).await;
    let revision = metastore.revision().await.unwrap();
    standby.stop().unwrap();
    // Acknowledged, and nowhere else.
    let lost = metastore.create_collection(lease.epoch, collection("lost")).await.unwrap();
    let lost_node =
        metastore.register_node(lease.epoch, &"n2".parse().unwrap(), Incarnation(1)).await.unwrap();
    let newest = metastore.revision().await.unwrap();
    primary.kill().unwrap();
    standby.take_the_place_of(&primary).unwrap();

    let deadline = Instant::now() + LONG;
    loop {
        match metastore.create_collection(lease.epoch, collection("blind")).await {
            Err(Error::AnotherServer { .. }) => break,
            Err(error) if error.is_passing() => assert!(Instant::now() < deadline, "{error:?}"),
            other => panic!("it writes to a server that lacks what it knows: {other:?}"),
        }
    }
    let renewed = metastore.renew_lease(&lease, LONG).await;
    assert!(matches!(renewed, Err(Error::AnotherServer { .. })), "{renewed:?}");
    assert_eq!(names(&metastore).await, ["kept"]);

    let next = moved(take_again(&metastore, "c1").await);
    assert!(next.epoch.0 > lease.epoch.0 + 1000, "far above every epoch that may be lost: {}", next.epoch);
    let again = metastore.create_collection(next.epoch, collection("again")).await.unwrap();
    assert!(again.id > lost.id && again.id.0 > kept.id.0 + 1_000_000, "{}", again.id);
    let node = metastore.register_node(next.epoch, &"n3".parse().unwrap(), Incarnation(1)).await.unwrap();
    assert!(node.id.0 > lost_node.id.0 + 1_000_000);
    let east = NewGroup { name: "east".parse().unwrap(), config: GroupConfig::default() };
    let group = metastore.create_group(next.epoch, east).await.unwrap();
    assert!(group.number.0 > 60_000, "{}", group.number);
    // No copy of what was there is one of what is there now.
    for revision in [revision, newest] {
        let held = SegmentsHeld { revision, last: Default::default() };
        assert!(metastore.segment_changes(Some(&held)).await.unwrap().unwrap().anew);
    }
    // It is told once.
    assert!(matches!(take_again(&metastore, "c1").await, LeaseOutcome::Taken(_)));
    metastore.create_collection(Epoch(next.epoch.0 + 1), collection("later")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_lacks_nothing_that_was_acknowledged() {
    let mut primary = Postgres::start_durable().unwrap();
    let mut standby = primary.standby().unwrap();
    execute(&primary, "ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()").await;
    let metastore = open(&primary.url(), OpenOptions::default()).await.unwrap();
    let lease = take(&metastore, "c1").await;
    let all: Vec<String> = (0..30).map(|number| format!("c{number:02}")).collect();
    for name in &all {
        metastore.create_collection(lease.epoch, collection(name)).await.unwrap();
    }
    primary.kill().unwrap();
    standby.take_the_place_of(&primary).unwrap();
    moved(take_again(&metastore, "c1").await);
    assert_eq!(names(&metastore).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_no_failover() {
    let mut server = Postgres::start_durable().unwrap();
    let metastore = open(&server.url(), OpenOptions::default()).await.unwrap();
    let lease = take(&metastore, "c1").await;
    for clean in [true, false] {
        if clean {
            server.stop().unwrap()
        } else {
            server.kill().unwrap()
        }
        server.start_again().unwrap();
        let deadline = Instant::now() + LONG;
        while let Err(error) = metastore.renew_lease(&lease, LONG).await {
            assert!(Instant::now() < deadline && error.is_passing(), "{error:?}");
        }
    }
    assert!(matches!(take_again(&metastore, "c1").await, LeaseOutcome::Taken(_)));
}

#[tokio::test]
async fn a_user_without_the_right_to_ask_works_all_the_same() {
    on_postgres(async |fixture| {
        let server: sqlx::postgres::PgConnectOptions = fixture.url.parse().unwrap();
        let user = format!("user_of_{}", server.get_database().unwrap());
        let mut connection = PgConnection::connect_with(&server).await.unwrap();
        let sql = format!(
            "CREATE ROLE {user} LOGIN; GRANT ALL ON SCHEMA public TO {user}; \
             REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        let url = sqlx::ConnectOptions::to_url_lossy(&server.clone().username(&user));
        let stored = async |connection: &mut PgConnection| -> String {
            sqlx::query_scalar("SELECT server FROM lease").fetch_one(connection).await.unwrap()
        };
        let metastore = open(url.as_str(), OpenOptions::default()).await.unwrap();
        take(&metastore, "c1").await;
        assert_eq!(stored(&mut connection).await, "?/00000001");
        let revoke = "REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC";
        sqlx::raw_sql(revoke).execute(&mut connection).await.unwrap();
        let metastore = open(url.as_str(), OpenOptions::default()).await.unwrap();
        let lease = take(&metastore, "c1").await;
        assert_eq!(stored(&mut connection).await, "");
        metastore.create_collection(lease.epoch, collection("c")).await.unwrap();
        drop(metastore);
        let sql = format!("REASSIGN OWNED BY {user} TO CURRENT_USER; DROP OWNED BY {user}; DROP ROLE {user}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    })
    .await;
}
