//! The file: lines of JSON under zstd, each behind a checksum over all lines up to it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
};

use serde::{Deserialize, Serialize};

use super::{BackupError, cell::CellRow};

/// The form that is written, and the newest that is read.
pub(super) const FORMAT: u32 = 1;

/// Rows of a line, and what JSON of them it is about at most.
const LINE_ROWS: usize = 1_000;
const LINE_CELLS: usize = 1 << 20;

/// Longest line that is read, bytes.
const LONGEST: u64 = 1 << 30;

/// Characters of a checksum.
const CHECKSUM: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    /// Version of the program that wrote it.
    pub(super) program: String,
    /// Versions of the schema that were applied.
    pub(super) schema: Vec<i64>,
    pub(super) epoch: u64,
    /// Milliseconds since the Unix epoch.
    pub(super) taken_at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    MetastoreBackup(Header),
    Table {
        name: String,
        columns: Vec<String>,
    },
    /// Of the table before.
    Rows(Vec<CellRow>),
    /// Rows by table.
    End(BTreeMap<String, u64>),
}

/// The checksum of a line goes on from that of the line before.
#[derive(Debug, Default)]
struct Chain(Option<blake3::Hash>);

impl Chain {
    fn next(&mut self, json: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new();
        if let Some(before) = &self.0 {
            hasher.update(before.as_bytes());
        }
        let hash = hasher.update(json).finalize();
        self.0 = Some(hash);
        hash.to_hex().chars().take(CHECKSUM).collect()
    }
}

/// Writes a backup.
pub(super) struct Writer<'a> {
    out: zstd::Encoder<'static, &'a mut (dyn Write + Send)>,
    chain: Chain,
    table: String,
    rows: Vec<CellRow>,
    size: usize,
    counts: BTreeMap<String, u64>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(to: &'a mut (dyn Write + Send), header: &Header) -> io::Result<Self> {
        let out = zstd::Encoder::new(to, zstd::DEFAULT_COMPRESSION_LEVEL)?;
        let mut writer = Self {
            out,
            chain: Chain::default(),
            table: String::new(),
            rows: Vec::new(),
            size: 0,
            counts: BTreeMap::new(),
        };
        writer.line(&Line::MetastoreBackup(header.clone()))?;
        Ok(writer)
    }

    pub(super) fn table(&mut self, name: &str, columns: &[String]) -> io::Result<()> {
        self.flush()?;
        name.clone_into(&mut self.table);
        self.counts.insert(name.to_owned(), 0);
        self.line(&Line::Table { name: name.to_owned(), columns: columns.to_vec() })
    }

    pub(super) fn row(&mut self, row: CellRow) -> io::Result<()> {
        self.size += row.iter().map(super::cell::Cell::size).sum::<usize>();
        self.rows.push(row);
        if self.rows.len() >= LINE_ROWS || self.size >= LINE_CELLS { self.flush() } else { Ok(()) }
    }

    /// Ends the file and says how many rows each table has.
    pub(super) fn end(mut self) -> io::Result<BTreeMap<String, u64>> {
        self.flush()?;
        self.line(&Line::End(self.counts.clone()))?;
        self.out.finish()?.flush()?;
        Ok(self.counts)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        *self.counts.entry(self.table.clone()).or_default() += rows.len() as u64;
        self.size = 0;
        self.line(&Line::Rows(rows))
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let json = serde_json::to_vec(line)?;
        let checksum = self.chain.next(&json);
        writeln!(self.out, "{checksum} {}", String::from_utf8_lossy(&json))
    }
}

/// Reads a backup, and knows how far it is whole.
pub(super) struct Reader<'a> {
    from: BufReader<zstd::Decoder<'static, BufReader<&'a mut (dyn Read + Send)>>>,
    chain: Chain,
    lines: u64,
    table: String,
    counts: BTreeMap<String, u64>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(from: &'a mut (dyn Read + Send)) -> Result<Self, BackupError> {
        let from = BufReader::new(zstd::Decoder::new(from)?);
        Ok(Self { from, chain: Chain::default(), lines: 0, table: String::new(), counts: BTreeMap::new() })
    }

    /// The first line.
    pub(super) fn header(&mut self) -> Result<Header, BackupError> {
        let header = match self.line() {
            Ok(Line::MetastoreBackup(header)) => header,
            Ok(_) => return Err(BackupError::Foreign("it does not begin with a header".into())),
            Err(BackupError::Damaged { what, .. }) => return Err(BackupError::Foreign(what)),
            Err(other) => return Err(other),
        };
        if header.format > FORMAT {
            let text =
                format!("the backup has form {}, this program reads forms up to {FORMAT}", header.format);
            return Err(BackupError::Newer(text));
        }
        Ok(header)
    }

    /// The next line. After the end there is none.
    pub(super) fn line(&mut self) -> Result<Line, BackupError> {
        let line = self.read_line()?;
        self.lines += 1;
        match &line {
            Line::Table { name, .. } => {
                name.clone_into(&mut self.table);
                self.counts.insert(name.clone(), 0);
            }
            Line::Rows(rows) => *self.counts.entry(self.table.clone()).or_default() += rows.len() as u64,
            Line::End(counts) if *counts != self.counts => {
                return Err(self.damaged("its end tells of other rows than were read"));
            }
            Line::End(_) => self.ends()?,
            Line::MetastoreBackup(_) => {}
        }
        Ok(line)
    }

    fn read_line(&mut self) -> Result<Line, BackupError> {
        let mut line = Vec::new();
        let read = self.from.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if let Err(why) = read {
            let cut = why.kind() == io::ErrorKind::UnexpectedEof;
            let text = if cut { "the file is cut there".to_owned() } else { why.to_string() };
            return Err(self.damaged(text));
        }
        if line.pop() != Some(b'\n') {
            return Err(self.damaged("the file is cut there"));
        }
        let (checksum, json) = line.split_at_checked(CHECKSUM).unwrap_or_default();
        let json = json.strip_prefix(b" ").ok_or_else(|| self.damaged("the next line has no checksum"))?;
        if self.chain.next(json).as_bytes() != checksum {
            return Err(self.damaged("the checksum of the next line is wrong"));
        }
        serde_json::from_slice(json)
            .map_err(|why| self.damaged(format!("the next line makes no sense: {why}")))
    }

    fn ends(&mut self) -> Result<(), BackupError> {
        match self.from.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged("something follows the end")),
            Err(why) => Err(self.damaged(format!("something follows the end: {why}"))),
        }
    }

    /// Something is wrong after what was read.
    pub(super) fn damaged(&self, what: impl Into<String>) -> BackupError {
        let rows = self.counts.get(&self.table).copied().unwrap_or_default();
        let place = match self.lines {
            0 => "at its beginning".to_owned(),
            1 => "after its header".to_owned(),
            lines => format!("after line {lines} (row {rows} of table {})", self.table),
        };
        BackupError::Damaged { place, what: what.into() }
    }
}
