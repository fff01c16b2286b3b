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
    /// Names and checksums of segments of collection `$1` that are not dropped, out of a JSON array of names.
    pub(crate) checksums: &'static str,
    /// Adds segments, a JSON array of objects, to collection `$2` at time `$3`.
    pub(crate) insert_segments: &'static str,
    /// Marks segments as dropped, a JSON array of ids.
    pub(crate) drop_segments: &'static str,
    /// Removes segments that are marked as dropped, a JSON array of ids.
    pub(crate) purge_segments: &'static str,
}

/// `FOR KEY SHARE` collides with a take-over, which changes the epoch (a key), and not with a renewal: a long write
/// does not cost its own coordinator the lease.
///
/// `LATERAL (... LIMIT 1)` and `ANY (ARRAY(...))` look each element up in the index, whatever the server guesses about
/// a table that just grew; for `IN` and for `ANY` on the second column it was seen to compare everything with everything.
pub(crate) const POSTGRES: Dialect = Dialect {
    begin: "BEGIN",
    take_turn: Some("LOCK TABLE counters IN EXCLUSIVE MODE"),
    hold_epoch: "SELECT epoch FROM lease FOR KEY SHARE",
    hold_lease: "SELECT epoch, holder, expires_at FROM lease FOR UPDATE",
    now: "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    checksums: "SELECT known.name, known.checksum FROM json_array_elements_text(CAST($2 AS JSON)) AS pushed (name) \
                CROSS JOIN LATERAL (SELECT name, checksum FROM segments \
                WHERE collection = $1 AND name = pushed.name AND NOT dropped LIMIT 1) AS known",
    insert_segments: "INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, \
                      checksum, statistics, created_at) \
                      SELECT id, $2, name, partition_name, shard, object, row_count, byte_count, \
                      decode(checksum, 'hex'), statistics, $3 FROM json_to_recordset(CAST($1 AS JSON)) AS pushed \
                      (id BIGINT, name TEXT, partition_name TEXT, shard TEXT, object TEXT, row_count BIGINT, \
                      byte_count BIGINT, checksum TEXT, statistics TEXT)",
    drop_segments: "UPDATE segments SET dropped = TRUE WHERE NOT dropped \
                    AND id = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS JSON)) AS BIGINT)))",
    purge_segments: "DELETE FROM segments WHERE dropped \
                     AND id = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS JSON)) AS BIGINT)))",
};

/// SQLite has one writer at a time; `IMMEDIATE` waits for its turn at once instead of failing in the middle.
pub(crate) const SQLITE: Dialect = Dialect {
    begin: "BEGIN IMMEDIATE",
    take_turn: None,
    hold_epoch: "SELECT epoch FROM lease",
    hold_lease: "SELECT epoch, holder, expires_at FROM lease",
    now: "SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)",
    checksums: "SELECT name, checksum FROM segments WHERE collection = $1 AND NOT dropped \
                AND name IN (SELECT value FROM json_each($2))",
    insert_segments: "INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, \
                      checksum, statistics, created_at) \
                      SELECT value ->> 'id', $2, value ->> 'name', value ->> 'partition_name', value ->> 'shard', \
                      value ->> 'object', value ->> 'row_count', value ->> 'byte_count', \
                      unhex(value ->> 'checksum'), value ->> 'statistics', $3 FROM json_each($1)",
    drop_segments: "UPDATE segments SET dropped = TRUE WHERE NOT dropped \
                    AND id IN (SELECT value FROM json_each($1))",
    purge_segments: "DELETE FROM segments WHERE dropped AND id IN (SELECT value FROM json_each($1))",
};
