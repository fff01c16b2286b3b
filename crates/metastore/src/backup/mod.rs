//! Backup, restore and move of a whole metastore, without a coordinator.
//!
//! A backup is a file of lines under zstd: a header, for each table its columns and its rows, and an end that says how many
//! rows there were. Each line begins with a checksum over all lines up to it, so that damage is found where it is. The
//! tables are those of the schema, whatever they are; numbers, texts and bytes are written the same for both databases.

mod cell;
mod database;
mod error;
mod file;
mod restore;
mod shape;

use std::{
    collections::BTreeMap,
    io::{Read, Seek, Write},
};

pub use self::error::BackupError;
use self::{
    database::Database,
    file::{Header, Line, Reader, Writer},
    shape::Shape,
};
use crate::address::Address;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// Epoch of the lease when it was taken; after a restore the lowest one that the next lease exceeds.
    pub epoch: u64,
    /// When it was taken, milliseconds since the Unix epoch by the database's clock.
    pub taken_at: u64,
    /// Rows by table.
    pub rows: BTreeMap<String, u64>,
}

/// Writes everything that the metastore at `url` holds, as it is at one moment. Coordinators may be active meanwhile.
///
/// # Errors
/// The metastore cannot be read, its schema is not known, or the file cannot be written.
pub async fn backup(url: &str, to: &mut (dyn Write + Send)) -> Result<BackupSummary, BackupError> {
    write(Database::open(url).await?, to).await
}

async fn write(mut database: Database, to: &mut (dyn Write + Send)) -> Result<BackupSummary, BackupError> {
    let schema = database.versions().await?;
    let shape = Shape::of(&schema).await?;
    let (epoch, taken_at) = database.epoch_and_time().await?;
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let mut writer = Writer::new(to, &Header { format: file::FORMAT, program, schema, epoch, taken_at })?;
    for table in &shape.tables {
        writer.table(&table.name, &table.columns)?;
        database.read(table, |row| Ok(writer.row(row)?)).await?;
    }
    let rows = writer.end()?;
    Ok(BackupSummary { epoch, taken_at, rows })
}

/// Reads a backup from beginning to end and says what it holds.
///
/// # Errors
/// The file is no backup, or is cut or damaged; the text says where.
pub fn check(from: &mut (dyn Read + Send)) -> Result<BackupSummary, BackupError> {
    let mut reader = Reader::new(from)?;
    let header = reader.header()?;
    loop {
        if let Line::End(rows) = reader.line()? {
            return Ok(BackupSummary { epoch: header.epoch, taken_at: header.taken_at, rows });
        }
    }
}

/// Puts what a backup holds into the metastore at `url`, in the place of what is there: all of it or nothing. The epoch
/// becomes higher than that of the backup and that of what was there, and numbers that may have been given since the
/// backup are not given again.
///
/// # Errors
/// The file is no backup, or is cut or damaged; somebody holds the lease; the metastore is not empty, unless `force`.
pub async fn restore(
    url: &str,
    from: &mut (dyn Read + Send),
    force: bool,
) -> Result<BackupSummary, BackupError> {
    restore::restore(Database::create(url).await?, from, restore::Kind::OfTheTime, force).await
}

/// Copies the metastore at `from` to `to`, such as from SQLite to PostgreSQL.
///
/// # Errors
/// As those of [`backup`] and [`restore`]; also when somebody holds the lease at `from`: what he changes would be lost.
pub async fn copy(from: &str, to: &str, force: bool) -> Result<BackupSummary, BackupError> {
    let address = Address::parse(to)?;
    if address.is(&Address::parse(from)?) {
        return Err(BackupError::Itself(address.name().to_owned()));
    }
    let mut source = Database::open(from).await?;
    source.refuse_holder("").await?;
    let mut file = tempfile::tempfile().map_err(BackupError::File)?;
    write(source, &mut file).await?;
    file.rewind().map_err(BackupError::File)?;
    restore::restore(Database::create(to).await?, &mut file, restore::Kind::OfNow, force).await
}
