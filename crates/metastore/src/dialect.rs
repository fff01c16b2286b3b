//! What the two databases say differently.

/// Statements that differ between PostgreSQL and SQLite.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Begins a transaction that may write.
    pub(crate) begin: &'static str,
    /// Begins a transaction that only reads, and everything as it was at one moment.
    pub(crate) begin_snapshot: &'static str,
    /// Makes writers take turns; absent where `begin` does it already.
    pub(crate) take_turn: Option<&'static str>,
    /// What follows a statement that reads the lease to hold off a take-over until the transaction ends.
    pub(crate) shared: &'static str,
    /// What follows a statement that reads the lease to hold off everybody else who wants it.
    pub(crate) exclusive: &'static str,
    /// The database's clock, milliseconds since the Unix epoch. Not the transaction's start: it may have waited.
    pub(crate) now: &'static str,
    /// Marks segments as dropped by the next revision, a JSON array of ids.
    pub(crate) drop_segments: &'static str,
    /// Removes segments that are marked as dropped, a JSON array of ids. Gives the revisions that dropped them.
    pub(crate) purge_segments: &'static str,
}

/// `FOR KEY SHARE` collides with a take-over, which changes the epoch (a key), and not with a renewal: a long write
/// does not cost its own coordinator the lease.
///
/// `LATERAL (... LIMIT 1)` and `ANY (ARRAY(...))` look each element up in the index, whatever the server guesses about
/// a table that just grew; for `IN` and for `ANY` on the second column it was seen to compare everything with everything.
pub(crate) const POSTGRES: Dialect = Dialect {
    begin: "BEGIN",
    begin_snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    take_turn: Some("LOCK TABLE counters IN EXCLUSIVE MODE"),
    shared: " FOR KEY SHARE",
    exclusive: " FOR UPDATE",
    now: "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    drop_segments: "UPDATE segments SET dropped = TRUE, dropped_at = (SELECT last + 1 FROM counters WHERE kind = 'revision') \
                    WHERE NOT dropped \
                    AND id = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS JSON)) AS BIGINT)))",
    purge_segments: "DELETE FROM segments WHERE dropped \
                     AND id = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS JSON)) AS BIGINT))) \
                     RETURNING dropped_at",
};

/// SQLite has one writer at a time; `IMMEDIATE` waits for its turn at once instead of failing in the middle.
pub(crate) const SQLITE: Dialect = Dialect {
    begin: "BEGIN IMMEDIATE",
    begin_snapshot: "BEGIN",
    take_turn: None,
    shared: "",
    exclusive: "",
    now: "SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)",
    drop_segments: "UPDATE segments SET dropped = TRUE, dropped_at = (SELECT last + 1 FROM counters WHERE kind = 'revision') \
                    WHERE NOT dropped \
                    AND id IN (SELECT value FROM json_each($1))",
    purge_segments: "DELETE FROM segments WHERE dropped AND id IN (SELECT value FROM json_each($1)) \
                     RETURNING dropped_at",
};
