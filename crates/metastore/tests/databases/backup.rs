//! Backup, restore and copy.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::Epoch;
use pointsman_metastore::{
    BackupError, LeaseOutcome, NewGroup, OpenOptions, SegmentsHeld, backup, check, copy, open, restore,
};
use pointsman_query_coord::GroupConfig;
use sqlx::{Connection as _, SqliteConnection};

use crate::{
    fixture::{Fixture, on_postgres, on_sqlite, take},
    tables::{Content, columns, content, fill},
};

/// Tables that say what a metastore is and not what it holds.
const OWN: [&str; 2] = ["lease", "counters"];

fn without_own(mut content: Content) -> Content {
    OWN.iter().for_each(|table| drop(content.remove(*table)));
    content
}

async fn made(fixture: &Fixture) -> Vec<u8> {
    let mut file = Vec::new();
    let summary = backup(&fixture.url, &mut file).await.unwrap();
    assert_eq!(check(&mut file.as_slice()).unwrap(), summary);
    file
}

/// Runs a rule on two metastores of these kinds.
async fn on_two<F: Future<Output = ()>>(from: &str, to: &str, rule: impl FnOnce(Fixture, Fixture) -> F) {
    match (from, to) {
        ("sqlite", "sqlite") => on_sqlite(async |a| on_sqlite(async |b| rule(a, b).await).await).await,
        ("sqlite", _) => on_sqlite(async |a| on_postgres(async |b| rule(a, b).await).await).await,
        (_, "sqlite") => on_postgres(async |a| on_sqlite(async |b| rule(a, b).await).await).await,
        _ => on_postgres(async |a| on_postgres(async |b| rule(a, b).await).await).await,
    }
}

/// A metastore with something in every table, whose lease nobody holds.
async fn filled(fixture: &Fixture) -> Content {
    let metastore = fixture.open().await;
    let lease = take(&metastore, "c1").await;
    metastore.give_back_lease(&lease).await.unwrap();
    fill(fixture).await;
    let all = content(fixture).await;
    for (table, rows) in &all {
        assert!(rows.len() >= 2 || table == "lease", "there is nothing to lose in {table}: {rows:?}");
    }
    all
}

async fn everything_is_there_again(from: Fixture, to: Fixture) {
    let before = filled(&from).await;
    let file = made(&from).await;
    let summary = restore(&to.url, &mut file.as_slice(), false).await.unwrap();
    let rows: BTreeMap<String, u64> =
        before.iter().map(|(table, rows)| (table.clone(), rows.len() as u64)).collect();
    assert_eq!(summary.rows, rows, "every table of the database is in the backup");
    assert_eq!(without_own(content(&to).await), without_own(before));
    // It is a metastore: it opens, and its lease is free.
    let metastore = to.open().await;
    let next = take(&metastore, "c2").await;
    assert!(next.epoch.0 > summary.epoch);
    let new = NewGroup { name: "new".parse().unwrap(), config: GroupConfig::default() };
    let group = metastore.create_group(next.epoch, new).await.unwrap();
    assert!(group.number.0 > 60_000, "above all that were given after the backup: {}", group.number);
}

#[tokio::test]
async fn sqlite_is_restored_from_sqlite() {
    on_two("sqlite", "sqlite", everything_is_there_again).await;
}

#[tokio::test]
async fn postgresql_is_restored_from_postgresql() {
    on_two("postgres", "postgres", everything_is_there_again).await;
}

#[tokio::test]
async fn postgresql_is_restored_from_sqlite() {
    on_two("sqlite", "postgres", everything_is_there_again).await;
}

#[tokio::test]
async fn sqlite_is_restored_from_postgresql() {
    on_two("postgres", "sqlite", everything_is_there_again).await;
}

#[tokio::test]
async fn both_databases_have_the_same_tables_and_columns() {
    on_two("sqlite", "postgres", async |sqlite: Fixture, postgres: Fixture| {
        sqlite.open().await;
        postgres.open().await;
        let kinds = |columns: BTreeMap<String, BTreeMap<String, String>>| {
            let word = |kind: String| match kind.as_str() {
                "bigint" | "boolean" => "integer".to_owned(),
                "bytea" => "blob".to_owned(),
                _ => kind,
            };
            let columns = columns.into_iter().map(|(table, columns)| {
                let columns = columns.into_iter().map(|(name, kind)| (name, word(kind)));
                (table, columns.collect::<BTreeMap<_, _>>())
            });
            columns.collect::<BTreeMap<_, _>>()
        };
        assert_eq!(kinds(columns(&sqlite).await), kinds(columns(&postgres).await));
    })
    .await;
}

async fn a_copy_moves_everything(from: Fixture, to: Fixture) {
    let before = filled(&from).await;
    let metastore = from.open().await;
    let lease = take(&metastore, "c1").await;
    let error = copy(&from.url, &to.url, false).await.unwrap_err();
    assert!(matches!(&error, BackupError::Held { holder, .. } if holder == "c1"), "{error:?}");
    metastore.give_back_lease(&lease).await.unwrap();
    let error = copy(&from.url, &from.url, true).await.unwrap_err();
    assert!(matches!(&error, BackupError::Itself(_)), "{error:?}");
    copy(&from.url, &to.url, false).await.unwrap();
    assert_eq!(without_own(content(&to).await), without_own(before));
    let next = take(&to.open().await, "c2").await;
    assert!(next.epoch > lease.epoch);
}

#[tokio::test]
async fn a_copy_moves_from_sqlite_to_postgresql() {
    on_two("sqlite", "postgres", a_copy_moves_everything).await;
}

#[tokio::test]
async fn a_copy_moves_from_postgresql_to_sqlite() {
    on_two("postgres", "sqlite", a_copy_moves_everything).await;
}

async fn only_an_empty_metastore_without_a_holder_is_restored(from: Fixture, to: Fixture) {
    filled(&from).await;
    let file = made(&from).await;
    let metastore = to.open().await;
    // What is newer than the backup, in a metastore whose epoch is higher.
    let outcome = metastore.take_lease("c7", Duration::from_secs(60), Epoch(500)).await.unwrap();
    let LeaseOutcome::Taken(lease) = outcome else { panic!("it is free") };
    let node = metastore.register_node(lease.epoch, &"n1".parse().unwrap(), 1.into()).await.unwrap();
    let before = content(&to).await;
    for force in [false, true] {
        let error = restore(&to.url, &mut file.as_slice(), force).await.unwrap_err();
        assert!(matches!(&error, BackupError::Held { holder, .. } if holder == "c7"), "{error:?}");
    }
    metastore.give_back_lease(&lease).await.unwrap();
    let error = restore(&to.url, &mut file.as_slice(), false).await.unwrap_err();
    assert!(error.to_string().contains("is not empty (table nodes has rows)"), "{error}");
    assert_eq!(content(&to).await["nodes"], before["nodes"]);
    let revision = metastore.revision().await.unwrap();
    restore(&to.url, &mut file.as_slice(), true).await.unwrap();
    assert_eq!(without_own(content(&to).await), without_own(content(&from).await));
    // Neither an epoch nor a number that was given here or there comes again, and no copy of what was there counts.
    let lease = take(&metastore, "c1").await;
    assert!(lease.epoch.0 > 501, "{}", lease.epoch);
    let next = metastore.register_node(lease.epoch, &"n2".parse().unwrap(), 1.into()).await.unwrap();
    assert!(next.id > node.id && next.id.0 > 1_000_000, "{}", next.id);
    to.execute("DELETE FROM segments").await;
    let held = SegmentsHeld { revision, last: 1000.into() };
    assert!(metastore.segment_changes(Some(&held)).await.unwrap().unwrap().anew);
}

#[tokio::test]
async fn only_an_empty_sqlite_without_a_holder_is_restored() {
    on_two("sqlite", "sqlite", only_an_empty_metastore_without_a_holder_is_restored).await;
}

#[tokio::test]
async fn only_an_empty_postgresql_without_a_holder_is_restored() {
    on_two("postgres", "postgres", only_an_empty_metastore_without_a_holder_is_restored).await;
}

/// Wherever a file is cut or a byte of it is another one, it is refused, and what was there stays.
async fn a_damaged_file_changes_nothing(from: Fixture, to: Fixture) {
    filled(&from).await;
    let file = made(&from).await;
    to.open().await;
    let before = content(&to).await;
    let whole = zstd::decode_all(file.as_slice()).unwrap();
    let step = (file.len() / 60).max(1);
    let cuts = (0..file.len()).step_by(step).map(|length| file[..length].to_vec());
    let flips = (0..file.len()).step_by(step).map(|at| {
        let mut flipped = file.clone();
        flipped[at] ^= 0x10;
        flipped
    });
    let longer = [&file[..], b"more"].concat();
    let twice = [&file[..], &file[..]].concat();
    let mut places = 0;
    for (number, damaged) in cuts.chain(flips).chain([longer, twice]).enumerate() {
        let error = match check(&mut damaged.as_slice()) {
            Err(error) => error,
            // There are bits that mean nothing.
            Ok(_) if zstd::decode_all(damaged.as_slice()).unwrap() == whole => continue,
            Ok(_) => panic!("damage {number} is not noticed"),
        };
        match &error {
            BackupError::Damaged { place, .. } => places += usize::from(place.contains("line")),
            BackupError::Foreign(_) => {}
            other => panic!("{other:?}"),
        }
        // A few, since each takes a transaction.
        if number % 10 == 0 || damaged.len() > file.len() {
            restore(&to.url, &mut damaged.as_slice(), true).await.unwrap_err();
            assert_eq!(content(&to).await, before);
        }
    }
    assert!(places > 20, "{places}");
}

/// Lines that are right by themselves, and not where they stand.
#[tokio::test]
async fn lines_that_are_moved_left_out_or_written_over_are_noticed() {
    on_sqlite(async |fixture: Fixture| {
        filled(&fixture).await;
        let file = made(&fixture).await;
        let whole = String::from_utf8(zstd::decode_all(file.as_slice()).unwrap()).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let last = lines.len() - 1;
        let mut moved = lines.clone();
        moved.swap(2, 4);
        let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
        let twice = [&lines[..3], &lines[2..]].concat();
        let other = lines[2].replacen("\\\"101\\\"", "\\\"109\\\"", 1);
        assert_ne!(other, lines[2]);
        let mut written_over = lines.clone();
        written_over[2] = &other;
        for (what, lines) in [
            ("moved", moved),
            ("left out", without(2)),
            ("the end", without(last)),
            ("twice", twice),
            ("written over", written_over),
        ] {
            let text = lines.join("\n") + "\n";
            let file = zstd::encode_all(text.as_bytes(), 1).unwrap();
            let error = check(&mut file.as_slice()).expect_err(what);
            assert!(matches!(error, BackupError::Damaged { .. }), "{what}: {error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_damaged_file_changes_nothing_in_sqlite() {
    on_two("sqlite", "sqlite", a_damaged_file_changes_nothing).await;
}

#[tokio::test]
async fn a_damaged_file_changes_nothing_in_postgresql() {
    on_two("sqlite", "postgres", a_damaged_file_changes_nothing).await;
}

#[tokio::test]
async fn what_is_no_backup_and_no_metastore_is_said() {
    on_sqlite(async |fixture: Fixture| {
        let error = check(&mut b"id,kind\n1,2\n".as_slice()).unwrap_err();
        assert!(error.to_string().starts_with("this is no backup of a metastore"), "{error}");
        let error = backup(&fixture.url, &mut Vec::new()).await.unwrap_err();
        assert!(
            error.to_string().contains("cannot be opened"),
            "a file that is not there is not made: {error}"
        );
        drop(SqliteConnection::connect(&format!("{}?mode=rwc", fixture.url)).await.unwrap());
        let error = backup(&fixture.url, &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("holds no metastore"), "{error}");
        let error = backup("mysql://u:secret@h/d", &mut Vec::new()).await.unwrap_err();
        assert!(!format!("{error:?}").contains("secret"), "{error}");
    })
    .await;
}

/// A backup is of one moment, while a coordinator changes two things that belong together.
async fn a_backup_is_of_one_moment(fixture: Fixture) {
    let metastore = fixture.open().await;
    let lease = take(&metastore, "c1").await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = tokio::spawn({
        let (metastore, stop) = (metastore.clone(), stop.clone());
        async move {
            let mut count = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                count += 1;
                let node = format!("n{count}").parse().unwrap();
                metastore.register_node(lease.epoch, &node, 1.into()).await.unwrap();
            }
            count
        }
    });
    let mut last = 0;
    for _ in 0..10 {
        let mut file = Vec::new();
        let summary = backup(&fixture.url, &mut file).await.unwrap();
        let nodes = summary.rows["nodes"];
        assert!(nodes >= last);
        last = nodes;
        on_sqlite(async |to: Fixture| {
            restore(&to.url, &mut file.as_slice(), false).await.unwrap();
            let content = content(&to).await;
            let given =
                content["counters"].iter().find(|row| row[0] == "node").unwrap()[1].parse::<u64>().unwrap();
            assert_eq!(given - (1 << 32), nodes, "numbers and nodes are of the same moment");
        })
        .await;
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(writer.await.unwrap() >= last && last > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_postgresql_is_of_one_moment() {
    on_postgres(a_backup_is_of_one_moment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_sqlite_is_of_one_moment() {
    on_sqlite(a_backup_is_of_one_moment).await;
}

/// The schema may have grown since the backup.
async fn a_backup_of_an_older_schema_is_restored_and_brought_up_to_date(from: Fixture, to: Fixture) {
    crate::schema::make_first_version(&from).await;
    from.execute("INSERT INTO nodes (name, incarnation, id, switched_on) VALUES ('n1', 7, 1, TRUE)").await;
    let file = made(&from).await;
    for _ in 0..2 {
        restore(&to.url, &mut file.as_slice(), true).await.unwrap();
        let nodes = open(&to.url, OpenOptions::default()).await.unwrap().nodes().await.unwrap();
        assert_eq!((nodes[0].name.as_str(), nodes[0].incarnation.0, nodes.len()), ("n1", 7, 1));
    }
}

#[tokio::test]
async fn an_older_backup_is_brought_up_to_date_in_sqlite() {
    on_two("postgres", "sqlite", a_backup_of_an_older_schema_is_restored_and_brought_up_to_date).await;
}

#[tokio::test]
async fn an_older_backup_is_brought_up_to_date_in_postgresql() {
    on_two("sqlite", "postgres", a_backup_of_an_older_schema_is_restored_and_brought_up_to_date).await;
}
