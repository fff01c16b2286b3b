-- The fencing lease of the active coordinator.
CREATE TABLE lease (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    epoch INTEGER NOT NULL UNIQUE CHECK (epoch >= 0),
    holder TEXT, -- NULL: free
    expires_at INTEGER NOT NULL -- milliseconds since the Unix epoch by the database's clock
) STRICT;
INSERT INTO lease (epoch, expires_at) VALUES (0, 0);

-- The last number given to a thing of each kind. Numbers are never used again.
CREATE TABLE counters (
    kind TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT;
INSERT INTO counters (kind, last)
VALUES ('collection', 0), ('segment', 0), ('resource_group', 0), ('node', 0), ('replica', 0);

CREATE TABLE collections (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    columns TEXT NOT NULL, -- JSON
    options TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL -- nanoseconds since the Unix epoch, as all times below
) STRICT;

-- Dropped segments outlive their collection until their objects are gone.
CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    name TEXT NOT NULL,
    partition_name TEXT NOT NULL,
    shard TEXT NOT NULL,
    object TEXT NOT NULL,
    row_count INTEGER NOT NULL,
    byte_count INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    statistics TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    dropped INTEGER NOT NULL DEFAULT FALSE
) STRICT;
CREATE UNIQUE INDEX segments_live ON segments (collection, name) WHERE NOT dropped;
CREATE INDEX segments_dropped ON segments (id) WHERE dropped;

CREATE TABLE resource_groups (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    requests INTEGER NOT NULL,
    limits INTEGER NOT NULL
) STRICT;
INSERT INTO resource_groups (number, name, requests, limits) VALUES (0, 'default', 0, 1000000);

CREATE TABLE members (
    node TEXT PRIMARY KEY,
    group_number INTEGER NOT NULL REFERENCES resource_groups (number)
) STRICT;

CREATE TABLE nodes (
    name TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    id INTEGER NOT NULL UNIQUE,
    switched_on INTEGER NOT NULL
) STRICT;

CREATE TABLE loads (
    collection INTEGER PRIMARY KEY,
    replicas INTEGER NOT NULL,
    status TEXT NOT NULL, -- loading or loaded
    percent INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE replicas (
    id INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL REFERENCES loads (collection),
    group_name TEXT NOT NULL,
    nodes TEXT NOT NULL, -- JSON
    ro_nodes TEXT NOT NULL, -- JSON
    query_visible INTEGER NOT NULL,
    finished INTEGER NOT NULL
) STRICT;
CREATE INDEX replicas_of_collection ON replicas (collection);

CREATE TABLE targets (
    collection INTEGER PRIMARY KEY REFERENCES loads (collection),
    version INTEGER NOT NULL,
    segments TEXT NOT NULL -- JSON
) STRICT;
