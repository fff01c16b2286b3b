//! What the two databases say differently.

/// Statements that differ between PostgreSQL and SQLite.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Begins a transaction that may write.
    pub(crate) begin: &'static str,
    /// Makes writers take turns; absent where `begin` does it already.
    pub(crate) take_turn: Option<&'static str>,
    /// Reads the lease's epoch and holds off a take-over until the transaction ends.
    pub(crate) hold_epoch: &'static str,
    /// Reads epoch, holder and end of the lease and holds off everybody else who wants it.
    pub(crate) hold_lease: &'static str,
    /// The database's clock, milliseconds since the Unix epoch. Not the transaction's start: it may have waited.
    pub(crate) now: &'static str,
}

/// `FOR KEY SHARE` collides with a take-over, which changes the epoch (a key), and not with a renewal: a long write
/// does not cost its own coordinator the lease.
pub(crate) const POSTGRES: Dialect = Dialect {
    begin: "BEGIN",
    take_turn: Some("LOCK TABLE counters IN EXCLUSIVE MODE"),
    hold_epoch: "SELECT epoch FROM lease FOR KEY SHARE",
    hold_lease: "SELECT epoch, holder, expires_at FROM lease FOR UPDATE",
    now: "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
};

/// SQLite has one writer at a time; `IMMEDIATE` waits for its turn at once instead of failing in the middle.
pub(crate) const SQLITE: Dialect = Dialect {
    begin: "BEGIN IMMEDIATE",
    take_turn: None,
    hold_epoch: "SELECT epoch FROM lease",
    hold_lease: "SELECT epoch, holder, expires_at FROM lease",
    now: "SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)",
};
