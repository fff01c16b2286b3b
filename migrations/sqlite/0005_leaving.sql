-- Nodes that an operator asked to leave: their work goes elsewhere until the drain is taken back or the node returns.
CREATE TABLE drains (
    node TEXT PRIMARY KEY,
    since INTEGER NOT NULL -- nanoseconds since the Unix epoch
) STRICT;

-- Leases to stop: while one runs, its node counts as absent when another one asks whether it may stop.
CREATE TABLE stop_leases (
    node TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL, -- the process that it was granted to
    expires_at INTEGER NOT NULL -- milliseconds since the Unix epoch by the database's clock
) STRICT;
