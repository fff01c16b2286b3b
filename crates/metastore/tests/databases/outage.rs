//! PostgreSQL goes away and comes back.

use std::time::{Duration, Instant};

use pointsman_ids::{Epoch, Incarnation, NodeName};
use pointsman_metastore::{Error, LeaseOutcome, OpenOptions, Result, SharedMetastore, open};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};

use crate::{
    fixture::{Fixture, on_postgres, take},
    relay::{Relay, Traffic},
};

const OPTIONS: OpenOptions = OpenOptions {
    acquire: Duration::from_millis(700),
    statement: Duration::from_millis(700),
    migration: Duration::from_secs(60),
};

/// Longest time that a call may take: it waits for a connection and for one answer.
const BOUND: Duration = Duration::from_secs(3);

/// A metastore that reaches its server through a relay.
async fn behind_relay(fixture: &Fixture) -> (SharedMetastore, Epoch, Relay) {
    let server: PgConnectOptions = fixture.url.parse().unwrap();
    let relay = Relay::start(format!("{}:{}", server.get_host(), server.get_port())).await;
    let url = server.host("127.0.0.1").port(relay.address.port());
    let metastore = open(sqlx::ConnectOptions::to_url_lossy(&url).as_str(), OPTIONS).await.unwrap();
    let epoch = take(&metastore, "coordinator-1").await.epoch;
    (metastore, epoch, relay)
}

/// What comes of a call, which must not take long.
async fn soon<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let begin = Instant::now();
    let outcome = call.await;
    assert!(begin.elapsed() < BOUND, "the call took {:?}", begin.elapsed());
    outcome
}

/// Waits until a call works.
async fn eventually<T>(mut call: impl AsyncFnMut() -> Result<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match call().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < deadline, "it never recovers: {error:?}"),
        }
    }
}

fn node(text: &str) -> NodeName {
    text.parse().unwrap()
}

async fn names(metastore: &SharedMetastore) -> Result<Vec<String>> {
    Ok(metastore.nodes().await?.into_iter().map(|node| node.name.to_string()).collect())
}

#[tokio::test]
async fn connections_that_the_server_closed_are_replaced() {
    async fn rule(fixture: Fixture) {
        let (metastore, epoch) = fixture.active().await;
        for round in 1..=3 {
            let reads = (0..6).map(|_| {
                tokio::spawn({
                    let metastore = metastore.clone();
                    async move { metastore.groups().await.map(drop) }
                })
            });
            for read in reads.collect::<Vec<_>>() {
                read.await.unwrap().unwrap();
            }
            fixture
                .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
                .await;
            metastore.register_node(epoch, &node("n1"), Incarnation(round)).await.unwrap();
        }
    }
    on_postgres(rule).await;
}

#[tokio::test]
async fn a_server_that_takes_no_connections_is_unavailable_until_it_does() {
    async fn rule(fixture: Fixture) {
        let metastore = open(&fixture.url, OPTIONS).await.unwrap();
        let epoch = take(&metastore, "coordinator-1").await.epoch;
        let server: PgConnectOptions = fixture.url.parse().unwrap();
        let name = server.get_database().unwrap().to_owned();
        let mut administrator = PgConnection::connect_with(&server.database("postgres")).await.unwrap();
        let mut switch = async |on: bool| {
            let sql = format!(
                "ALTER DATABASE {name} ALLOW_CONNECTIONS {on}; SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = '{name}'"
            );
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut administrator).await.unwrap();
        };
        switch(false).await;
        for _ in 0..10 {
            let read = soon(metastore.groups()).await;
            assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
            let write = soon(metastore.register_node(epoch, &node("n1"), Incarnation(1))).await;
            assert!(matches!(write, Err(Error::Unavailable(_))), "{write:?}");
        }
        switch(true).await;
        metastore.register_node(epoch, &node("n1"), Incarnation(1)).await.unwrap();
        assert_eq!(names(&metastore).await.unwrap(), ["n1"]);
    }
    on_postgres(rule).await;
}

#[tokio::test]
async fn a_server_that_fell_silent_is_unavailable_until_it_speaks() {
    async fn rule(fixture: Fixture) {
        let (metastore, epoch, relay) = behind_relay(&fixture).await;
        relay.set(Traffic::None);
        for _ in 0..8 {
            let read = soon(metastore.groups()).await;
            assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
        }
        let write = soon(metastore.register_node(epoch, &node("n1"), Incarnation(1))).await;
        assert!(matches!(write, Err(Error::Unavailable(_))), "{write:?}");
        relay.set(Traffic::All);
        eventually(async || metastore.groups().await).await;
        assert!(names(&metastore).await.unwrap().is_empty(), "a write that was unavailable did nothing");
        eventually(async || metastore.register_node(epoch, &node("n1"), Incarnation(1)).await).await;
    }
    on_postgres(rule).await;
}

#[tokio::test]
async fn a_write_whose_commit_is_lost_has_an_unknown_outcome_and_is_not_there() {
    async fn rule(fixture: Fixture) {
        let (metastore, epoch, relay) = behind_relay(&fixture).await;
        relay.set(Traffic::UntilCommit);
        let write = soon(metastore.register_node(epoch, &node("n1"), Incarnation(1))).await;
        assert!(matches!(write, Err(Error::OutcomeUnknown(_))), "{write:?}");
        relay.set(Traffic::All);
        assert!(eventually(async || names(&metastore).await).await.is_empty());
        // The server rolls back by itself; until then the dead writer has its turn.
        eventually(async || metastore.register_node(epoch, &node("n2"), Incarnation(1)).await).await;
        assert_eq!(names(&metastore).await.unwrap(), ["n2"]);
    }
    on_postgres(rule).await;
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_has_an_unknown_outcome_and_is_there() {
    async fn rule(fixture: Fixture) {
        let (metastore, epoch, relay) = behind_relay(&fixture).await;
        relay.set(Traffic::UpToCommit);
        let write = soon(metastore.register_node(epoch, &node("n1"), Incarnation(1))).await;
        assert!(matches!(write, Err(Error::OutcomeUnknown(_))), "{write:?}");
        relay.set(Traffic::All);
        assert_eq!(eventually(async || names(&metastore).await).await, ["n1"]);
    }
    on_postgres(rule).await;
}

#[tokio::test]
async fn a_long_write_does_not_hold_up_a_renewal() {
    async fn rule(fixture: Fixture) {
        let metastore = fixture.open().await;
        let lease = take(&metastore, "coordinator-1").await;
        let server: PgConnectOptions = fixture.url.parse().unwrap();
        let mut writer = PgConnection::connect_with(&server).await.unwrap();
        // As a write of the metastore does while it lasts.
        sqlx::raw_sql("BEGIN; LOCK TABLE counters IN EXCLUSIVE MODE; SELECT epoch FROM lease FOR KEY SHARE")
            .execute(&mut writer)
            .await
            .unwrap();
        soon(metastore.renew_lease(&lease, Duration::from_secs(60))).await.unwrap();
        let other = open(&fixture.url, OPTIONS).await.unwrap();
        // One that stands by is told at once who has it.
        let held = soon(other.take_lease("coordinator-2", Duration::from_secs(60), Epoch(0))).await;
        assert!(matches!(held, Ok(LeaseOutcome::Held { .. })), "{held:?}");
        let taken = soon(other.take_lease("coordinator-1", Duration::from_secs(60), Epoch(0))).await;
        assert!(matches!(taken, Err(Error::Unavailable(_))), "a take-over waits for the writer: {taken:?}");
        writer.close().await.unwrap();
        eventually(async || other.take_lease("coordinator-1", Duration::from_secs(60), Epoch(0)).await).await;
    }
    on_postgres(rule).await;
}
