-- Statistics become compact. Rows of older versions keep theirs, whose JSON begins with '{'. A segment says which
-- revision dropped it; 0: none did, or one from before there were revisions.
CREATE TABLE new_segments (
    id INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    name TEXT NOT NULL,
    partition_name TEXT NOT NULL,
    shard TEXT NOT NULL,
    object TEXT NOT NULL,
    row_count INTEGER NOT NULL,
    byte_count INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    statistics BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    dropped INTEGER NOT NULL DEFAULT FALSE,
    dropped_at INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO new_segments
SELECT id, collection, name, partition_name, shard, object, row_count, byte_count, checksum,
    CAST(statistics AS BLOB), created_at, dropped, 0
FROM segments;
DROP TABLE segments;
ALTER TABLE new_segments RENAME TO segments;
CREATE UNIQUE INDEX segments_live ON segments (collection, name) WHERE NOT dropped;
CREATE INDEX segments_dropped ON segments (id) WHERE dropped;

-- revision: grows with every change. purge: the latest revision that dropped a segment which is forgotten by now.
-- history: grows when what was stored may have been replaced by something else.
INSERT INTO counters (kind, last) VALUES ('revision', 0), ('purge', 0), ('history', 0);

-- The server on which the lease was taken; here there is none.
ALTER TABLE lease ADD COLUMN server TEXT NOT NULL DEFAULT '';

CREATE INDEX members_of_group ON members (group_number);
