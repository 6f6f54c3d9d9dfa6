-- Two more roles of keys. SQLite cannot change a CHECK, so the table is made again.
CREATE TABLE keys_13 (
    id             TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    role           TEXT NOT NULL CHECK (role IN ('inference', 'viewer', 'operator', 'admin')),
    hash           BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    models         TEXT,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER,
    revoked_at     INTEGER,
    team           TEXT,
    rpm            INTEGER,
    tpm            INTEGER,
    max_in_flight  INTEGER,
    budget_nano    INTEGER,
    budget_period  TEXT CHECK (budget_period IN ('day', 'week', 'month', 'total')),
    -- Free-form JSON of whoever made the key.
    metadata       TEXT,
    -- The hash before the last rotation, and until when it is still accepted.
    previous_hash  BLOB CHECK (length(previous_hash) = 32),
    previous_until INTEGER,
    log_payloads   INTEGER NOT NULL DEFAULT 0,
    burst          INTEGER,
    on_budget      TEXT
) STRICT;
INSERT INTO keys_13 (rowid, id, name, role, hash, models, created_at, expires_at, revoked_at, team, rpm, tpm, max_in_flight,
    budget_nano, budget_period, metadata, previous_hash, previous_until, log_payloads, burst, on_budget)
SELECT rowid, id, name, role, hash, models, created_at, expires_at, revoked_at, team, rpm, tpm, max_in_flight,
    budget_nano, budget_period, metadata, previous_hash, previous_until, log_payloads, burst, on_budget FROM keys;
DROP TABLE keys;
ALTER TABLE keys_13 RENAME TO keys;
CREATE TRIGGER key_made AFTER INSERT ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER key_changed AFTER UPDATE ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER key_gone AFTER DELETE ON keys BEGIN UPDATE revision SET number = number + 1; END;

-- Every change, in the order in which it was made. `hash` covers the row and the hash of the row before it. at is unix
-- milliseconds.
CREATE TABLE gateway_audit (
    seq          INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    actor_kind   TEXT NOT NULL,
    actor        TEXT NOT NULL,
    actor_name   TEXT NOT NULL,
    address      TEXT,
    action       TEXT NOT NULL,
    object       TEXT NOT NULL,
    state_before TEXT,
    state_after  TEXT,
    hash         BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON gateway_audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON gateway_audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- The number and the hash of the newest row, so that a missing end of the log shows.
CREATE TABLE gateway_audit_head (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO gateway_audit_head (id, seq, hash) VALUES (1, 0, zeroblob(32));

-- The sessions of people who signed in with a browser. Only the SHA-256 of a session's id is here. Times are unix seconds.
CREATE TABLE gateway_sessions (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    subject    TEXT NOT NULL,
    identity   TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_subject ON gateway_sessions (subject);
