-- Nodes that an operator asked to leave: their work goes elsewhere until the drain is taken back or the node returns.
CREATE TABLE drains (
    node TEXT COLLATE "C" PRIMARY KEY,
    since BIGINT NOT NULL -- nanoseconds since the Unix epoch
);

-- Leases to stop: while one runs, its node counts as absent when another one asks whether it may stop.
CREATE TABLE stop_leases (
    node TEXT COLLATE "C" PRIMARY KEY,
    incarnation BIGINT NOT NULL, -- the process that it was granted to
    expires_at BIGINT NOT NULL -- milliseconds since the Unix epoch by the database's clock
);
