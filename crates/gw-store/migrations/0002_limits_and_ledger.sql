-- What a key may spend and how fast, teams above keys, and the ledger: one row per request.
-- Amounts are nano-USD and the rest of them in femto-USD (0..999999), so that sums are exact and fit 64 bits.
-- Times are unix seconds in keys and teams, unix milliseconds in the ledger.
CREATE TABLE teams (
    id            TEXT PRIMARY KEY,
    rpm           INTEGER,
    tpm           INTEGER,
    max_in_flight INTEGER,
    budget_nano   INTEGER,
    budget_period TEXT CHECK (budget_period IN ('day', 'week', 'month', 'total')),
    created_at    INTEGER NOT NULL
) STRICT;

ALTER TABLE keys ADD COLUMN team TEXT;
ALTER TABLE keys ADD COLUMN rpm INTEGER;
ALTER TABLE keys ADD COLUMN tpm INTEGER;
ALTER TABLE keys ADD COLUMN max_in_flight INTEGER;
ALTER TABLE keys ADD COLUMN budget_nano INTEGER;
ALTER TABLE keys ADD COLUMN budget_period TEXT CHECK (budget_period IN ('day', 'week', 'month', 'total'));
-- Free-form JSON of whoever made the key.
ALTER TABLE keys ADD COLUMN metadata TEXT;
-- The hash before the last rotation, and until when it is still accepted.
ALTER TABLE keys ADD COLUMN previous_hash BLOB CHECK (length(previous_hash) = 32);
ALTER TABLE keys ADD COLUMN previous_until INTEGER;

CREATE TABLE ledger (
    request_id         TEXT PRIMARY KEY,
    at                 INTEGER NOT NULL,
    key_id             TEXT NOT NULL,
    key_name           TEXT NOT NULL,
    team               TEXT,
    operation          TEXT NOT NULL,
    requested_model    TEXT NOT NULL,
    model              TEXT NOT NULL,
    provider           TEXT NOT NULL,
    status             TEXT NOT NULL,
    strategy           TEXT NOT NULL,
    stream             INTEGER NOT NULL,
    cache_hit          INTEGER NOT NULL,
    fallback           INTEGER NOT NULL,
    prompt_tokens      INTEGER NOT NULL,
    completion_tokens  INTEGER NOT NULL,
    cached_tokens      INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens   INTEGER NOT NULL,
    estimated          INTEGER NOT NULL,
    cost_nano          INTEGER NOT NULL,
    cost_rest          INTEGER NOT NULL,
    saved_nano         INTEGER NOT NULL,
    saved_rest         INTEGER NOT NULL,
    ttft_ms            INTEGER,
    latency_ms         INTEGER NOT NULL,
    -- JSON: [{provider, model, status, latency_ms}]
    attempts           TEXT NOT NULL,
    end_user           TEXT,
    client             TEXT
) STRICT;
CREATE INDEX ledger_by_time ON ledger (at, request_id);
CREATE INDEX ledger_by_key ON ledger (key_id, at, request_id);

-- Sums by hour, written in the transaction that writes the rows: what usage reports and budgets read.
CREATE TABLE usage_hours (
    hour               INTEGER NOT NULL,
    key_id             TEXT NOT NULL,
    team               TEXT NOT NULL,
    model              TEXT NOT NULL,
    provider           TEXT NOT NULL,
    requests           INTEGER NOT NULL,
    failed             INTEGER NOT NULL,
    cache_hits         INTEGER NOT NULL,
    prompt_tokens      INTEGER NOT NULL,
    completion_tokens  INTEGER NOT NULL,
    cached_tokens      INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens   INTEGER NOT NULL,
    cost_nano          INTEGER NOT NULL,
    cost_rest          INTEGER NOT NULL,
    saved_nano         INTEGER NOT NULL,
    saved_rest         INTEGER NOT NULL,
    PRIMARY KEY (hour, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_key ON usage_hours (key_id, hour);
