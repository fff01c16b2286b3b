-- Loads by partition, what failed, and targets with their shards and partitions.
ALTER TABLE loads ADD COLUMN kind TEXT NOT NULL DEFAULT 'collection'; -- collection or partitions
ALTER TABLE loads ADD COLUMN recoveries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE loads ADD COLUMN replicas_chosen BOOLEAN NOT NULL DEFAULT TRUE;

CREATE TABLE partition_loads (
    collection BIGINT NOT NULL REFERENCES loads (collection) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    status TEXT NOT NULL, -- loading or loaded
    percent BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (collection, name)
);
-- Until now a load was one of the whole collection.
INSERT INTO partition_loads (collection, name, status, percent, created_at, updated_at)
SELECT DISTINCT l.collection, s.partition_name, l.status, l.percent, l.created_at, l.updated_at
FROM loads l JOIN segments s ON s.collection = l.collection AND NOT s.dropped;

ALTER TABLE replicas ADD COLUMN waits_for_group_since BIGINT; -- NULL: does not wait

-- Current targets are pulled again: nodes hold what they need already.
DROP TABLE targets;
CREATE TABLE targets (
    collection BIGINT PRIMARY KEY REFERENCES loads (collection),
    version BIGINT NOT NULL,
    content TEXT NOT NULL -- JSON
);

CREATE TABLE failed_loads (
    collection BIGINT NOT NULL,
    code BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    message TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (collection, code)
);

-- Groups in which a load was given up while others kept it.
CREATE TABLE dropped_groups (
    collection BIGINT NOT NULL,
    group_name TEXT COLLATE "C" NOT NULL,
    message TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (collection, group_name)
);
