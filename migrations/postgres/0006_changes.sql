-- Statistics become compact. Rows of older versions keep theirs, whose JSON begins with '{'.
ALTER TABLE segments ALTER COLUMN statistics TYPE BYTEA USING convert_to(statistics, 'UTF8');

-- The revision that dropped a segment; 0: none did, or one from before there were revisions.
ALTER TABLE segments ADD COLUMN dropped_at BIGINT NOT NULL DEFAULT 0;

-- revision: grows with every change. purge: the latest revision that dropped a segment which is forgotten by now.
-- history: grows when what was stored may have been replaced by something else.
INSERT INTO counters (kind, last) VALUES ('revision', 0), ('purge', 0), ('history', 0);

-- The server on which the lease was taken; empty: not known.
ALTER TABLE lease ADD COLUMN server TEXT NOT NULL DEFAULT '';

CREATE INDEX members_of_group ON members (group_number);
