-- Loads by partition, what failed, and targets with their shards and partitions.
ALTER TABLE loads ADD COLUMN kind TEXT NOT NULL DEFAULT 'collection'; -- collection or partitions
ALTER TABLE loads ADD COLUMN recoveries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE loads ADD COLUMN replicas_chosen INTEGER NOT NULL DEFAULT 1;

CREATE TABLE partition_loads (
    collection INTEGER NOT NULL REFERENCES loads (collection) ON DELETE CASCADE,
    name TEXT NOT NULL,
    status TEXT NOT NULL, -- loading or loaded
    percent INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (collection, name)
) STRICT;
-- Until now a load was one of the whole collection.
INSERT INTO partition_loads (collection, name, status, percent, created_at, updated_at)
SELECT DISTINCT l.collection, s.partition_name, l.status, l.percent, l.created_at, l.updated_at
FROM loads l JOIN segments s ON s.collection = l.collection AND NOT s.dropped;

ALTER TABLE replicas ADD COLUMN waits_for_group_since INTEGER; -- NULL: does not wait

-- Current targets are pulled again: nodes hold what they need already.
DROP TABLE targets;
CREATE TABLE targets (
    collection INTEGER PRIMARY KEY REFERENCES loads (collection),
    version INTEGER NOT NULL,
    content TEXT NOT NULL -- JSON
) STRICT;

CREATE TABLE failed_loads (
    collection INTEGER NOT NULL,
    code INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    message TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (collection, code)
) STRICT;

-- Groups in which a load was given up while others kept it.
CREATE TABLE dropped_groups (
    collection INTEGER NOT NULL,
    group_name TEXT NOT NULL,
    message TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (collection, group_name)
) STRICT;
