-- Two more roles of keys.
ALTER TABLE keys DROP CONSTRAINT keys_role_check;
ALTER TABLE keys ADD CONSTRAINT keys_role_check CHECK (role IN ('inference', 'viewer', 'operator', 'admin'));

-- Every change, in the order in which it was made. `hash` covers the row and the hash of the row before it. at is unix
-- milliseconds.
CREATE TABLE gateway_audit (
    seq          BIGINT PRIMARY KEY,
    at           BIGINT NOT NULL,
    actor_kind   TEXT COLLATE "C" NOT NULL,
    actor        TEXT COLLATE "C" NOT NULL,
    actor_name   TEXT COLLATE "C" NOT NULL,
    address      TEXT COLLATE "C",
    action       TEXT COLLATE "C" NOT NULL,
    object       TEXT COLLATE "C" NOT NULL,
    state_before TEXT COLLATE "C",
    state_after  TEXT COLLATE "C",
    hash         BYTEA NOT NULL CHECK (length(hash) = 32)
);
CREATE FUNCTION gateway_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END
$$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON gateway_audit
    FOR EACH STATEMENT EXECUTE FUNCTION gateway_audit_is_append_only();

-- The number and the hash of the newest row, so that a missing end of the log shows.
CREATE TABLE gateway_audit_head (
    id   BIGINT PRIMARY KEY CHECK (id = 1),
    seq  BIGINT NOT NULL,
    hash BYTEA NOT NULL CHECK (length(hash) = 32)
);
INSERT INTO gateway_audit_head (id, seq, hash) VALUES (1, 0, decode(repeat('00', 32), 'hex'));

-- The sessions of people who signed in with a browser. Only the SHA-256 of a session's id is here. Times are unix seconds.
CREATE TABLE gateway_sessions (
    hash       BYTEA PRIMARY KEY CHECK (length(hash) = 32),
    subject    TEXT COLLATE "C" NOT NULL,
    identity   TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL
);
CREATE INDEX sessions_by_subject ON gateway_sessions (subject);
