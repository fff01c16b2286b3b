//! Rows of segments, and reading many of them.

use std::collections::BTreeMap;

use pointsman_ids::{
    CollectionId, Error as Refusal, PartitionName, SegmentId, SegmentName, ShardName,
    catalog::{Checksum, NewSegment, Segment},
};
use tokio::task::{JoinHandle, spawn_blocking};

use super::TABLE;
use crate::{
    Error, Result,
    session::{Bind, Session},
    statistics::read_statistics,
    stored::Origin,
};

/// Rows that statements of a page give at most: few round trips, and each far within a statement's limit.
pub(super) const PAGE: usize = 10_000;

/// A row as statements give it. Columns have places: looking for their names in every row takes a while.
type SegmentRow = (i64, i64, String, String, String, String, i64, i64, Vec<u8>, Vec<u8>, i64, bool);

/// A segment, and whether it is dropped.
pub(super) type Read = (Segment, bool);

/// Many segments have the same partition or shard; they share its name.
#[derive(Debug, Default)]
struct Names {
    partitions: BTreeMap<String, PartitionName>,
    shards: BTreeMap<String, ShardName>,
}

fn shared<N: Clone>(
    names: &mut BTreeMap<String, N>,
    text: String,
    new: fn(&str) -> Result<N, Refusal>,
) -> Result<N, Refusal> {
    if let Some(name) = names.get(&text) {
        return Ok(name.clone());
    }
    let name = new(&text)?;
    names.insert(text, name.clone());
    Ok(name)
}

fn read(row: SegmentRow, names: &mut Names) -> Result<Read> {
    let (
        id,
        collection,
        name,
        partition,
        shard,
        object,
        rows,
        bytes,
        checksum,
        statistics,
        created_at,
        dropped,
    ) = row;
    let origin = Origin::new(TABLE, id);
    let shard = origin.read("shard", shared(&mut names.shards, shard, ShardName::new))?;
    let partition = shared(&mut names.partitions, partition, PartitionName::new);
    let segment = Segment {
        id: SegmentId(origin.number("id", id)?),
        collection: CollectionId(origin.number("collection", collection)?),
        shard: shard.clone(),
        created_at: origin.number("created_at", created_at)?,
        content: NewSegment {
            name: origin.read("name", SegmentName::new(&name))?,
            partition: origin.read("partition_name", partition)?,
            shard: Some(shard),
            object,
            rows: origin.number("row_count", rows)?,
            bytes: origin.number("byte_count", bytes)?,
            checksum: read_checksum(&origin, &checksum)?,
            statistics: read_statistics(&origin, &statistics)?,
        },
    };
    Ok((segment, dropped))
}

fn read_checksum(origin: &Origin, bytes: &[u8]) -> Result<Checksum> {
    let wrong = |_| format!("it has {} bytes instead of 32", bytes.len());
    origin.read("checksum", <[u8; 32]>::try_from(bytes).map_err(wrong)).map(Checksum)
}

/// What rows come in the order of.
#[derive(Debug)]
pub(super) enum Key {
    Number(i64),
    Name(String),
}

impl Key {
    /// Before all numbers.
    pub(super) const FIRST_NUMBER: Self = Self::Number(0);
    /// Before all names.
    pub(super) const FIRST_NAME: Self = Self::Name(String::new());

    fn bind(&self) -> Bind<'_> {
        match self {
            Self::Number(number) => Bind::Int(*number),
            Self::Name(name) => Bind::Text(name),
        }
    }

    fn of(&self, row: &SegmentRow) -> Self {
        match self {
            Self::Number(_) => Self::Number(row.0),
            Self::Name(_) => Self::Name(row.2.clone()),
        }
    }
}

/// Reads the rows of a statement page by page. The last of its values is the key that its rows come after.
pub(super) async fn pages(
    session: &mut Session,
    sql: &'static str,
    values: &[i64],
    mut after: Key,
) -> Result<Vec<Read>> {
    let mut reader = Reader::default();
    loop {
        let values: Vec<Bind<'_>> = values.iter().copied().map(Bind::Int).chain([after.bind()]).collect();
        let rows: Vec<SegmentRow> = session.rows(TABLE, sql, &values).await?;
        let Some(last) = rows.get(PAGE - 1) else {
            return reader.finish(rows).await;
        };
        after = after.of(last);
        reader.add(rows).await?;
    }
}

/// The segments of a page, and the names that the next one may share.
type Page = (Vec<Read>, Names);

/// Makes segments of one page while the next one is on its way, beside the threads that serve.
#[derive(Debug, Default)]
struct Reader {
    read: Vec<Read>,
    busy: Option<JoinHandle<Result<Page>>>,
}

impl Reader {
    async fn add(&mut self, rows: Vec<SegmentRow>) -> Result<()> {
        let mut names = self.wait().await?;
        self.busy = Some(spawn_blocking(move || {
            let read = rows.into_iter().map(|row| read(row, &mut names)).collect::<Result<_>>()?;
            Ok((read, names))
        }));
        Ok(())
    }

    async fn wait(&mut self) -> Result<Names> {
        let Some(busy) = self.busy.take() else { return Ok(Names::default()) };
        let (read, names) = busy.await.map_err(|_| Error::Unavailable(sqlx::Error::WorkerCrashed))??;
        self.read.extend(read);
        Ok(names)
    }

    async fn finish(mut self, rows: Vec<SegmentRow>) -> Result<Vec<Read>> {
        self.add(rows).await?;
        self.wait().await?;
        Ok(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_give_columns_in_this_order_and_pages_as_long_as_this() {
        for sql in [include_str!("live.sql"), include_str!("changed.sql"), include_str!("dropped.sql")] {
            assert!(sql.trim_end().ends_with(&format!("LIMIT {PAGE}")), "{sql}");
            let columns = "SELECT id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, \
                           statistics, created_at, dropped FROM segments";
            let words: Vec<&str> = sql.split_whitespace().collect();
            assert!(words.join(" ").starts_with(columns), "{sql}");
        }
    }
}
