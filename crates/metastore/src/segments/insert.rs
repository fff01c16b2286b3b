//! Pushes to SQLite: prepared statements of many rows each.

use std::{collections::BTreeMap, sync::LazyLock};

use pointsman_ids::catalog::NewSegment;
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use super::{
    TABLE,
    push::{Destination, Present, Values},
};
use crate::{
    Result,
    session::{Bind, Session},
    stored::json,
};

/// Values of a row.
const FIELDS: usize = 11;

/// Rows of one statement.
const ROWS: usize = 200;

/// Adds so many rows. The values have no numbers: SQLite would look for each among all.
fn statement(rows: usize) -> String {
    let row = format!("({})", ["?"; FIELDS].join(", "));
    let rows = vec![row; rows];
    format!(
        "INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, \
         statistics, created_at) VALUES {}",
        rows.join(", ")
    )
}

static MANY: LazyLock<String> = LazyLock::new(|| statement(ROWS));
static ONE: LazyLock<String> = LazyLock::new(|| statement(1));

/// Which segments of a batch are there already.
pub(super) async fn present(session: &mut Session, collection: i64, batch: &[NewSegment]) -> Result<Present> {
    let names = json(&batch.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>())?;
    let sql = "SELECT name, checksum FROM segments WHERE collection = $1 AND NOT dropped \
               AND name IN (SELECT value FROM json_each($2))";
    let rows: Vec<(String, Vec<u8>)> =
        session.rows(TABLE, sql, &[collection.into(), names.as_str().into()]).await?;
    if rows.is_empty() {
        return Ok(Present::new());
    }
    let mut places: BTreeMap<&str, usize> =
        batch.iter().enumerate().map(|(at, segment)| (segment.name.as_str(), at)).collect();
    Ok(rows
        .into_iter()
        .filter_map(|(name, checksum)| Some((places.remove(name.as_str())?, checksum)))
        .collect())
}

/// Adds the segments of a batch that are not there yet.
pub(super) async fn add(
    session: &mut Session,
    destination: Destination,
    batch: &[NewSegment],
    present: &Present,
) -> Result<()> {
    let fresh = batch.iter().enumerate().filter(|(at, _)| !present.contains_key(at));
    let values: Vec<Values<'_>> = fresh.map(|(_, segment)| Values::of(segment)).collect::<Result<_>>()?;
    let mut number = destination.first;
    for rows in values.chunks(ROWS) {
        let (sql, size) = if rows.len() == ROWS { (&MANY, ROWS) } else { (&ONE, 1) };
        for rows in rows.chunks(size) {
            let binds = binds(number, destination, rows);
            session.execute(AssertSqlSafe(sql.as_str()).into_sql_str(), &binds).await?;
            number += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        }
    }
    Ok(())
}

fn binds<'a>(first: i64, destination: Destination, rows: &'a [Values<'_>]) -> Vec<Bind<'a>> {
    let mut binds = Vec::with_capacity(rows.len() * FIELDS);
    for (number, row) in (first..).zip(rows) {
        binds.extend([Bind::Int(number), Bind::Int(destination.collection)]);
        binds.extend([row.name, row.partition, row.shard, row.object].map(Bind::Text));
        binds.extend([Bind::Int(row.rows), Bind::Int(row.bytes)]);
        binds.extend([Bind::Bytes(&row.checksum.0), Bind::Bytes(&row.statistics)]);
        binds.push(Bind::Int(destination.created_at));
    }
    binds
}
