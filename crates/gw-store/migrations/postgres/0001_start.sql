-- The schema of migrations/000*.sql for PostgreSQL. Texts compare by their bytes, as SQLite's do; switches are 0 and 1.
-- Gateway keys. Only the SHA-256 of a key is here; the id is its first twelve characters.
-- Times are unix seconds in keys and teams, unix milliseconds in the ledger. models: a JSON array, NULL = all.
-- Amounts are nano-USD and the rest of them in femto-USD (0..999999), so that sums are exact and fit 64 bits.
CREATE TABLE keys (
    rowid          BIGINT GENERATED ALWAYS AS IDENTITY,
    id             TEXT COLLATE "C" PRIMARY KEY,
    name           TEXT COLLATE "C" NOT NULL,
    role           TEXT COLLATE "C" NOT NULL CHECK (role IN ('inference', 'admin')),
    hash           BYTEA NOT NULL UNIQUE CHECK (length(hash) = 32),
    models         TEXT COLLATE "C",
    created_at     BIGINT NOT NULL,
    expires_at     BIGINT,
    revoked_at     BIGINT,
    team           TEXT COLLATE "C",
    rpm            BIGINT,
    tpm            BIGINT,
    max_in_flight  BIGINT,
    budget_nano    BIGINT,
    budget_period  TEXT COLLATE "C" CHECK (budget_period IN ('day', 'week', 'month', 'total')),
    -- Free-form JSON of whoever made the key.
    metadata       TEXT COLLATE "C",
    -- The hash before the last rotation, and until when it is still accepted.
    previous_hash  BYTEA CHECK (length(previous_hash) = 32),
    previous_until BIGINT
);

CREATE TABLE teams (
    id            TEXT COLLATE "C" PRIMARY KEY,
    rpm           BIGINT,
    tpm           BIGINT,
    max_in_flight BIGINT,
    budget_nano   BIGINT,
    budget_period TEXT COLLATE "C" CHECK (budget_period IN ('day', 'week', 'month', 'total')),
    created_at    BIGINT NOT NULL
);

CREATE TABLE ledger (
    request_id TEXT COLLATE "C" PRIMARY KEY,
    at         BIGINT NOT NULL,
    key_id     TEXT COLLATE "C" NOT NULL,
    team       TEXT COLLATE "C",
    model      TEXT COLLATE "C" NOT NULL,
    provider   TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    -- JSON: everything that is known of the request
    entry      TEXT COLLATE "C" NOT NULL
);
CREATE INDEX ledger_by_time ON ledger (at);
CREATE INDEX ledger_by_key ON ledger (key_id, at);
-- Rows that went well are nearly all of them, and found by their time.
CREATE INDEX ledger_by_status ON ledger (status, at) WHERE status <> 'ok';

-- Sums by hour, written in the transaction that writes the rows: what usage reports and budgets read.
CREATE TABLE usage_hours (
    hour               BIGINT NOT NULL,
    key_id             TEXT COLLATE "C" NOT NULL,
    team               TEXT COLLATE "C" NOT NULL,
    model              TEXT COLLATE "C" NOT NULL,
    provider           TEXT COLLATE "C" NOT NULL,
    requests           BIGINT NOT NULL,
    failed             BIGINT NOT NULL,
    cache_hits         BIGINT NOT NULL,
    prompt_tokens      BIGINT NOT NULL,
    completion_tokens  BIGINT NOT NULL,
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    cost_nano          BIGINT NOT NULL,
    cost_rest          BIGINT NOT NULL,
    saved_nano         BIGINT NOT NULL,
    saved_rest         BIGINT NOT NULL,
    PRIMARY KEY (hour, key_id, team, model, provider)
);
CREATE INDEX usage_by_key ON usage_hours (key_id, hour);
CREATE INDEX usage_by_team ON usage_hours (team, hour);

-- A number that grows with every change of a key or a team, whoever makes it (an older program too: hence triggers),
-- and word of it to whoever listens.
CREATE TABLE revision (
    id     BIGINT PRIMARY KEY CHECK (id = 1),
    number BIGINT NOT NULL
);
INSERT INTO revision (id, number) VALUES (1, 0);

CREATE FUNCTION gateway_revised() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE revision SET number = number + 1;
    PERFORM pg_notify('gateway_revision', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER keys_revised AFTER INSERT OR UPDATE OR DELETE ON keys
    FOR EACH STATEMENT EXECUTE FUNCTION gateway_revised();
CREATE TRIGGER teams_revised AFTER INSERT OR UPDATE OR DELETE ON teams
    FOR EACH STATEMENT EXECUTE FUNCTION gateway_revised();
