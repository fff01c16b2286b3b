//! What changed in the metastore, for those who keep a copy of it.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
use pointsman_ids::{CollectionId, SegmentId, catalog::Segment};
use sqlx::AssertSqlSafe;

use crate::{Error, Result, segments, session::Session, store::Store, stored::Origin};

/// A state of everything that is stored but the lease. Equal revisions are the same state; every change makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Server, and how often its content was replaced; numbers compare only within one.
    pub(crate) lineage: String,
    pub(crate) number: u64,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// What somebody has who keeps a copy of all segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentsHeld {
    /// The revision that the copy is of, or an earlier one.
    pub revision: Revision,
    /// The highest number in the copy.
    pub last: SegmentId,
}

/// What makes a copy of all segments that of a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentChanges {
    /// The revision.
    pub revision: Revision,
    /// Nothing of the copy counts any more: everything follows.
    pub anew: bool,
    /// Segments that the copy lacks and that are not dropped, by number.
    pub live: Vec<Segment>,
    /// Segments that the copy lacks and that are dropped, by number.
    pub dropped: Vec<Segment>,
    /// All segments that are dropped and not purged, with their collections. Dropped ones that are not among them are
    /// purged.
    pub all_dropped: BTreeMap<SegmentId, CollectionId>,
}

/// How the content changes.
#[async_trait]
pub trait ChangeStore: Send + Sync + fmt::Debug {
    /// The newest revision; one look into an index.
    async fn revision(&self) -> Result<Revision>;

    /// What a copy of all segments lacks; `None`: nothing. Without a copy everything.
    async fn segment_changes(&self, held: Option<&SegmentsHeld>) -> Result<Option<SegmentChanges>>;
}

#[async_trait]
impl ChangeStore for Store {
    async fn revision(&self) -> Result<Revision> {
        let mut session = self.reading().await?;
        let revision = newest(self, &mut session).await?;
        session.finish().await;
        Ok(revision)
    }

    async fn segment_changes(&self, held: Option<&SegmentsHeld>) -> Result<Option<SegmentChanges>> {
        segments::changes::since(self, held).await
    }
}

/// The newest revision that a session sees.
pub(crate) async fn newest(store: &Store, session: &mut Session) -> Result<Revision> {
    let server = store.server.expression;
    let sql = format!(
        "SELECT revision.last, history.last, {server} FROM counters AS revision, counters AS history \
         WHERE revision.kind = 'revision' AND history.kind = 'history'"
    );
    let row: Option<(i64, i64, String)> = session.row("counters", AssertSqlSafe(sql), &[]).await?;
    let (number, history, server) = row.ok_or_else(|| missing("revision"))?;
    let number = Origin::new("counters", "revision").number("last", number)?;
    Ok(Revision { lineage: format!("{server}/{history}"), number })
}

/// A counter that the schema's migrations wrote is gone.
pub(crate) fn missing(kind: &str) -> Error {
    Error::Corrupt { table: "counters", what: format!("there is no row '{kind}'") }
}
