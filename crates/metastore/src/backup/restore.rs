//! Putting a backup in the place of what is there.

use super::{
    BackupError, BackupSummary,
    database::Database,
    file::{Header, Line, Reader},
    shape::Shape,
};
use crate::lease::skip_numbers;

/// Of when the content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of the time of a backup: others may have been given numbers since.
    OfTheTime,
    /// Of now: nobody writes to its source.
    OfNow,
}

/// What is there before.
#[derive(Debug, Default)]
struct Former {
    shape: Shape,
    epoch: i64,
    /// Counters of revisions and histories.
    revision: i64,
    history: i64,
}

pub(super) async fn restore(
    mut database: Database,
    from: &mut (dyn std::io::Read + Send),
    kind: Kind,
    force: bool,
) -> Result<BackupSummary, BackupError> {
    let mut reader = Reader::new(from)?;
    let header = reader.header()?;
    let shape = Shape::of(&header.schema).await?;
    let former = look(&mut database).await?;
    if !force {
        refuse_content(&mut database, &former).await?;
    }
    clear(&mut database, &former.shape).await?;
    database.migrate(Some(&header.schema)).await?;
    // What a new schema brings with it stands in the backup as well.
    for table in shape.tables.iter().rev() {
        database.execute(&format!("DELETE FROM {}", table.name)).await?;
    }
    let summary = fill(&mut database, &shape, &header, &mut reader).await?;
    database.migrate(None).await?;
    settle(&mut database, &header, &former, kind).await?;
    database.check_references().await?;
    database.commit().await?;
    Ok(summary)
}

/// Finds out what is there, and that nobody works with it. Nobody takes the lease until the end.
async fn look(database: &mut Database) -> Result<Former, BackupError> {
    let versions = database.applied().await?;
    if versions.is_empty() {
        return Ok(Former::default());
    }
    let shape = Shape::of(&versions).await?;
    let lock = database.dialect().exclusive;
    database.refuse_holder(lock).await?;
    let epoch = database.number("SELECT epoch FROM lease").await?;
    let revision = database.number("SELECT last FROM counters WHERE kind = 'revision'").await?;
    let history = database.number("SELECT last FROM counters WHERE kind = 'history'").await?;
    Ok(Former { shape, epoch, revision, history })
}

async fn refuse_content(database: &mut Database, former: &Former) -> Result<(), BackupError> {
    for table in &former.shape.tables {
        let rows = database.number(&format!("SELECT count(*) FROM {}", table.name)).await?;
        if rows.unsigned_abs() > table.seeds {
            return Err(BackupError::NotEmpty { url: database.name.clone(), table: table.name.clone() });
        }
    }
    Ok(())
}

async fn clear(database: &mut Database, former: &Shape) -> Result<(), BackupError> {
    for table in former.tables.iter().rev() {
        database.execute(&format!("DROP TABLE {}", table.name)).await?;
    }
    database.execute("DROP TABLE IF EXISTS _sqlx_migrations").await
}

/// Adds all rows of a backup.
async fn fill(
    database: &mut Database,
    shape: &Shape,
    header: &Header,
    reader: &mut Reader<'_>,
) -> Result<BackupSummary, BackupError> {
    let mut table: Option<(String, Vec<String>)> = None;
    loop {
        match reader.line()? {
            Line::MetastoreBackup(_) => return Err(reader.damaged("a header in the middle")),
            Line::Table { name, columns } => {
                let known = shape.tables.iter().find(|known| known.name == name);
                if known.is_none_or(|known| known.columns != columns) {
                    return Err(reader.damaged(format!("its schema has no table {name} with these columns")));
                }
                table = Some((name, columns));
            }
            Line::Rows(rows) => {
                let Some((name, columns)) = &table else {
                    return Err(reader.damaged("rows of no table"));
                };
                if rows.iter().any(|row| row.len() != columns.len()) {
                    return Err(reader.damaged("a row with other values than its table has columns"));
                }
                database.add(name, columns, &rows).await?;
            }
            Line::End(rows) => {
                if let Some(table) = shape.tables.iter().find(|table| !rows.contains_key(&table.name)) {
                    return Err(reader.damaged(format!("table {} is missing", table.name)));
                }
                return Ok(BackupSummary { epoch: header.epoch, taken_at: header.taken_at, rows });
            }
        }
    }
}

/// Makes the content a new one: nobody holds its lease, no epoch and no number that somebody may have seen comes again,
/// and no copy of what was there counts any more.
async fn settle(
    database: &mut Database,
    header: &Header,
    former: &Former,
    kind: Kind,
) -> Result<(), BackupError> {
    let backup = i64::try_from(header.epoch).unwrap_or(i64::MAX);
    let epoch = former.epoch.max(backup).saturating_add(1);
    database
        .execute(&format!("UPDATE lease SET epoch = {epoch}, holder = NULL, expires_at = 0, server = ''"))
        .await?;
    for (counter, former) in [("revision", former.revision), ("history", former.history)] {
        let now = database.number(&format!("SELECT last FROM counters WHERE kind = '{counter}'")).await?;
        let next = now.max(former).saturating_add(1);
        database.execute(&format!("UPDATE counters SET last = {next} WHERE kind = '{counter}'")).await?;
    }
    if kind == Kind::OfTheTime {
        database.execute(&skip_numbers()).await?;
    }
    Ok(())
}
