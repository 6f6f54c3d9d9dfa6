-- What requests and answers said, redacted: only for keys that have it switched on, and never in the ledger's rows.
-- Switches are 0 and 1; at is unix milliseconds.
ALTER TABLE keys ADD COLUMN log_payloads INTEGER NOT NULL DEFAULT 0;

CREATE TABLE payloads (
    request_id   TEXT PRIMARY KEY,
    at           INTEGER NOT NULL,
    request      TEXT NOT NULL,
    request_cut  INTEGER NOT NULL,
    response     TEXT NOT NULL,
    response_cut INTEGER NOT NULL
) STRICT;
CREATE INDEX payloads_by_time ON payloads (at);
