-- Settings of the cluster that take effect while it runs. A key without a row leaves every program its own setting.
CREATE TABLE cluster_config (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);
