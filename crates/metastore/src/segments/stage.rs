//! Pushes to PostgreSQL: a batch is copied into a table of the connection's own, and from there into the catalog.

use std::collections::BTreeMap;

use pointsman_ids::catalog::NewSegment;
use sqlx::PgConnection;

use super::push::{Destination, Present, Values};
use crate::{
    Error, Result,
    session::{Session, within},
    stored::json,
};

/// It is made once per connection, and empty after each transaction.
const PREPARE: &str = "CREATE TEMPORARY TABLE IF NOT EXISTS pushed_segments (position BIGINT, \
                       name TEXT COLLATE \"C\", partition_name TEXT, shard TEXT, object TEXT, row_count BIGINT, \
                       byte_count BIGINT, checksum BYTEA, statistics BYTEA) ON COMMIT DELETE ROWS";

const COPY: &str = "COPY pushed_segments FROM STDIN (FORMAT BINARY)";

/// `LATERAL (... LIMIT 1)` looks each name up in the index, whatever the server guesses about a table that just grew.
const PRESENT: &str = "SELECT pushed.position, known.checksum FROM pushed_segments AS pushed CROSS JOIN LATERAL \
                       (SELECT checksum FROM segments WHERE collection = $1 AND name = pushed.name AND NOT dropped \
                       LIMIT 1) AS known";

const ADD: &str = "INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, \
                   checksum, statistics, created_at) \
                   SELECT $1 + row_number() OVER (ORDER BY position) - 1, $2, name, partition_name, shard, object, \
                   row_count, byte_count, checksum, statistics, $3 FROM pushed_segments ORDER BY position";

/// Values of a row of the table.
const FIELDS: i16 = 9;

/// Bytes that are sent together.
const PART: usize = 1 << 20;

/// Puts a batch into the table, in the place of the one before.
pub(super) async fn fill(session: &mut Session, batch: &[NewSegment], is_first: bool) -> Result<()> {
    let prepare = if is_first { PREPARE } else { "TRUNCATE pushed_segments" };
    session.control(prepare).await.map_err(Error::of_statement)?;
    let Some((connection, limit)) = session.postgres() else { return Ok(()) };
    within(limit, async { Ok(copy(connection, batch).await) }).await.map_err(Error::of_statement)?
}

async fn copy(connection: &mut PgConnection, batch: &[NewSegment]) -> Result<()> {
    let mut copy = connection.copy_in_raw(COPY).await.map_err(Error::of_statement)?;
    // The signature, no flags, no more header.
    let mut part = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for (position, segment) in (0_i64..).zip(batch) {
        encode(position, &Values::of(segment)?, &mut part);
        if part.len() >= PART {
            copy.send(part.as_slice()).await.map_err(Error::of_statement)?;
            part.clear();
        }
    }
    part.extend((-1_i16).to_be_bytes());
    copy.send(part.as_slice()).await.map_err(Error::of_statement)?;
    copy.finish().await.map_err(Error::of_statement)?;
    Ok(())
}

/// A row in PostgreSQL's binary form: the number of values, and each with its length.
fn encode(position: i64, segment: &Values<'_>, into: &mut Vec<u8>) {
    into.extend(FIELDS.to_be_bytes());
    number(position, into);
    for text in [segment.name, segment.partition, segment.shard, segment.object] {
        bytes(text.as_bytes(), into);
    }
    number(segment.rows, into);
    number(segment.bytes, into);
    bytes(&segment.checksum.0, into);
    bytes(&segment.statistics, into);
}

fn number(number: i64, into: &mut Vec<u8>) {
    bytes(&number.to_be_bytes(), into);
}

fn bytes(bytes: &[u8], into: &mut Vec<u8>) {
    // No value of ours is near the end of what 32 bits count: a push would not fit into a message.
    into.extend(i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes());
    into.extend(bytes);
}

/// Which segments of the table are there already.
pub(super) async fn present(session: &mut Session, collection: i64) -> Result<Present> {
    let rows: Vec<(i64, Vec<u8>)> = session.rows("segments", PRESENT, &[collection.into()]).await?;
    let place = |position| usize::try_from(position).unwrap_or(usize::MAX);
    Ok(rows.into_iter().map(|(position, checksum)| (place(position), checksum)).collect::<BTreeMap<_, _>>())
}

/// Adds what is in the table to the catalog, except for those that are there already.
pub(super) async fn add(session: &mut Session, destination: Destination, present: &Present) -> Result<()> {
    if !present.is_empty() {
        let positions = json(&present.keys().collect::<Vec<_>>())?;
        let sql = "DELETE FROM pushed_segments WHERE position = \
                   ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS JSON)) AS BIGINT)))";
        session.execute(sql, &[positions.as_str().into()]).await?;
    }
    let Destination { collection, created_at, first } = destination;
    session.execute(ADD, &[first.into(), collection.into(), created_at.into()]).await.map(drop)
}
