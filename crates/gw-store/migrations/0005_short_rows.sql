-- The ledger's rows as JSON beside the columns by which they are looked for: less to write for each request. Until now no
-- version of this program wrote any rows.
DROP TABLE ledger;
CREATE TABLE ledger (
    request_id TEXT PRIMARY KEY,
    at         INTEGER NOT NULL,
    key_id     TEXT NOT NULL,
    team       TEXT,
    model      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    status     TEXT NOT NULL,
    -- JSON: everything that is known of the request
    entry      TEXT NOT NULL
) STRICT;
CREATE INDEX ledger_by_time ON ledger (at);
CREATE INDEX ledger_by_key ON ledger (key_id, at);
CREATE INDEX ledger_by_status ON ledger (status, at) WHERE status <> 'ok';
