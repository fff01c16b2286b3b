-- The fencing lease of the active coordinator. The epoch is a key, so that a writer's FOR KEY SHARE
-- holds off a take-over but not a renewal.
CREATE TABLE lease (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    epoch BIGINT NOT NULL UNIQUE CHECK (epoch >= 0),
    holder TEXT, -- NULL: free
    expires_at BIGINT NOT NULL -- milliseconds since the Unix epoch by this server's clock
);
INSERT INTO lease (epoch, expires_at) VALUES (0, 0);

-- The last number given to a thing of each kind. Numbers are never used again. Writers lock this table.
CREATE TABLE counters (
    kind TEXT PRIMARY KEY,
    last BIGINT NOT NULL
);
INSERT INTO counters (kind, last)
VALUES ('collection', 0), ('segment', 0), ('resource_group', 0), ('node', 0), ('replica', 0);

CREATE TABLE collections (
    id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    columns TEXT NOT NULL, -- JSON
    options TEXT NOT NULL, -- JSON
    created_at BIGINT NOT NULL -- nanoseconds since the Unix epoch, as all times below
);

-- Dropped segments outlive their collection until their objects are gone.
CREATE TABLE segments (
    id BIGINT PRIMARY KEY,
    collection BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    partition_name TEXT NOT NULL,
    shard TEXT NOT NULL,
    object TEXT NOT NULL,
    row_count BIGINT NOT NULL,
    byte_count BIGINT NOT NULL,
    checksum BYTEA NOT NULL,
    statistics TEXT NOT NULL, -- JSON
    created_at BIGINT NOT NULL,
    dropped BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX segments_live ON segments (collection, name) WHERE NOT dropped;
CREATE INDEX segments_dropped ON segments (id) WHERE dropped;

CREATE TABLE resource_groups (
    number BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    requests BIGINT NOT NULL,
    limits BIGINT NOT NULL
);
INSERT INTO resource_groups (number, name, requests, limits) VALUES (0, 'default', 0, 1000000);

CREATE TABLE members (
    node TEXT COLLATE "C" PRIMARY KEY,
    group_number BIGINT NOT NULL REFERENCES resource_groups (number)
);

CREATE TABLE nodes (
    name TEXT COLLATE "C" PRIMARY KEY,
    incarnation BIGINT NOT NULL,
    id BIGINT NOT NULL UNIQUE,
    switched_on BOOLEAN NOT NULL
);

CREATE TABLE loads (
    collection BIGINT PRIMARY KEY,
    replicas BIGINT NOT NULL,
    status TEXT NOT NULL, -- loading or loaded
    percent BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE replicas (
    id BIGINT PRIMARY KEY,
    collection BIGINT NOT NULL REFERENCES loads (collection),
    group_name TEXT NOT NULL,
    nodes TEXT NOT NULL, -- JSON
    ro_nodes TEXT NOT NULL, -- JSON
    query_visible BOOLEAN NOT NULL,
    finished BOOLEAN NOT NULL
);
CREATE INDEX replicas_of_collection ON replicas (collection);

CREATE TABLE targets (
    collection BIGINT PRIMARY KEY REFERENCES loads (collection),
    version BIGINT NOT NULL,
    segments TEXT NOT NULL -- JSON
);
