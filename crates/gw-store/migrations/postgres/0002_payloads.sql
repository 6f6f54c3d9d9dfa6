-- What requests and answers said, redacted: only for keys that have it switched on, and never in the ledger's rows.
-- Switches are 0 and 1; at is unix milliseconds.
ALTER TABLE keys ADD COLUMN log_payloads BIGINT NOT NULL DEFAULT 0;

CREATE TABLE payloads (
    request_id   TEXT COLLATE "C" PRIMARY KEY,
    at           BIGINT NOT NULL,
    request      TEXT COLLATE "C" NOT NULL,
    request_cut  BIGINT NOT NULL,
    response     TEXT COLLATE "C" NOT NULL,
    response_cut BIGINT NOT NULL
);
CREATE INDEX payloads_by_time ON payloads (at);
