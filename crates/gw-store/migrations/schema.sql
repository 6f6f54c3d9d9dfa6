-- The tables of a new SQLite file, as all migrations leave them. A test writes and checks this file (fresh.rs).
CREATE TABLE teams (
    id            TEXT PRIMARY KEY,
    rpm           INTEGER,
    tpm           INTEGER,
    max_in_flight INTEGER,
    budget_nano   INTEGER,
    created_at    INTEGER NOT NULL
, burst INTEGER, on_budget TEXT, unpriced TEXT, budget_period TEXT) STRICT;
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
    saved_rest         INTEGER NOT NULL, unpriced INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_key ON usage_hours (key_id, hour);
CREATE TABLE revision (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;
CREATE TRIGGER team_made AFTER INSERT ON teams BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER team_changed AFTER UPDATE ON teams BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER team_gone AFTER DELETE ON teams BEGIN UPDATE revision SET number = number + 1; END;
CREATE INDEX usage_by_team ON usage_hours (team, hour);
CREATE TABLE payloads (
    request_id   TEXT PRIMARY KEY,
    at           INTEGER NOT NULL,
    request      TEXT NOT NULL,
    request_cut  INTEGER NOT NULL,
    response     TEXT NOT NULL,
    response_cut INTEGER NOT NULL
) STRICT;
CREATE INDEX payloads_by_time ON payloads (at);
CREATE TABLE ledger_groups (
    id       INTEGER PRIMARY KEY,
    key_id   TEXT NOT NULL,
    team     TEXT,
    model    TEXT NOT NULL,
    provider TEXT NOT NULL,
    -- What an entry of this group has in common with the others.
    entry    TEXT NOT NULL UNIQUE
, surface TEXT) STRICT;
CREATE TABLE ledger_rows (
    at         INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    who        INTEGER NOT NULL,
    -- NULL: ok
    status     TEXT,
    entry      TEXT NOT NULL, session TEXT, names TEXT,
    PRIMARY KEY (at, request_id)
) STRICT, WITHOUT ROWID;
CREATE VIEW ledger AS
    SELECT r.request_id, r.at, g.key_id, g.team, g.model, g.provider, coalesce(r.status, 'ok') AS status,
        CASE WHEN r.entry LIKE '{%' THEN r.entry ELSE '[' || json_quote(r.request_id) || ',' || r.at || ',' || g.entry ||
            ',' || json_quote(coalesce(r.status, 'ok')) || ',' || r.entry || ']' END AS entry
    FROM ledger_rows AS r LEFT JOIN ledger_groups AS g ON g.id = r.who;
CREATE TABLE gateway_clock (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    seen      INTEGER,
    confirmed INTEGER
) STRICT;
CREATE INDEX ledger_by_session ON ledger_rows (session, at) WHERE session IS NOT NULL;
CREATE TABLE usage_sessions (
    hour               INTEGER NOT NULL,
    session            TEXT NOT NULL,
    surface            TEXT NOT NULL,
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
    saved_rest         INTEGER NOT NULL, unpriced INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, session, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE gateway_secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;
CREATE TABLE responses (
    owner      TEXT NOT NULL,
    id         TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    sealed     TEXT NOT NULL, running_until INTEGER, parent TEXT, version INTEGER NOT NULL DEFAULT 0, is_streamed INTEGER NOT NULL DEFAULT 1, bytes INTEGER, conversation_bytes INTEGER, conversation_items INTEGER NOT NULL DEFAULT 0, conversation_values INTEGER NOT NULL DEFAULT 0, conversation_turns INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (owner, id)
) STRICT;
CREATE INDEX responses_by_end ON responses (expires_at);
CREATE TABLE "keys" (
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
    metadata       TEXT,
    -- The hash before the last rotation, and until when it is still accepted.
    previous_hash  BLOB CHECK (length(previous_hash) = 32),
    previous_until INTEGER,
    log_payloads   INTEGER NOT NULL DEFAULT 0,
    burst          INTEGER,
    on_budget      TEXT
, unpriced TEXT, budget_period TEXT, trust_attribution INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TRIGGER key_made AFTER INSERT ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER key_changed AFTER UPDATE ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER key_gone AFTER DELETE ON keys BEGIN UPDATE revision SET number = number + 1; END;
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
CREATE TABLE gateway_audit_head (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE TABLE gateway_sessions (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    subject    TEXT NOT NULL,
    identity   TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_subject ON gateway_sessions (subject);
CREATE TABLE configuration (
    section TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (section, name)
) STRICT;
CREATE TABLE configuration_changes (
    version      INTEGER PRIMARY KEY,
    changed_at   INTEGER NOT NULL,
    actor        TEXT NOT NULL,
    section      TEXT NOT NULL,
    name         TEXT NOT NULL,
    value_before TEXT,
    value_after  TEXT,
    undoes       INTEGER
) STRICT;
CREATE TABLE configuration_secrets (
    id     TEXT PRIMARY KEY,
    sealed TEXT NOT NULL
) STRICT;
CREATE INDEX responses_by_parent ON responses (owner, parent) WHERE parent IS NOT NULL;
CREATE TABLE response_contents (
    owner  TEXT NOT NULL,
    id     TEXT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (owner, id),
    FOREIGN KEY (owner, id) REFERENCES responses (owner, id) ON DELETE CASCADE
) STRICT;
CREATE TABLE response_items (
    owner    TEXT NOT NULL,
    item     TEXT NOT NULL,
    response TEXT NOT NULL,
    PRIMARY KEY (owner, item, response),
    FOREIGN KEY (owner, response) REFERENCES responses (owner, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX response_items_by_response ON response_items (owner, response);
CREATE TABLE response_sums (
    owner TEXT NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;
CREATE TRIGGER response_added AFTER INSERT ON responses BEGIN
    INSERT INTO response_sums (owner, bytes) VALUES (NEW.owner, COALESCE(NEW.bytes, 0))
        ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER response_resized AFTER UPDATE OF bytes ON responses BEGIN
    UPDATE response_sums SET bytes = bytes + COALESCE(NEW.bytes, 0) - COALESCE(OLD.bytes, 0) WHERE owner = NEW.owner;
END;
CREATE TRIGGER response_removed AFTER DELETE ON responses BEGIN
    UPDATE response_sums SET bytes = bytes - COALESCE(OLD.bytes, 0) WHERE owner = OLD.owner;
END;
CREATE TABLE gateway_sign_in_links (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    key_hash   BLOB NOT NULL CHECK (length(key_hash) = 32),
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
) STRICT;
CREATE TABLE usage_days (
    hour               INTEGER NOT NULL,
    surface            TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL,
    PRIMARY KEY (hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_rollup (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX ledger_by_failure ON ledger_rows (at, status, who) WHERE status IS NOT NULL;
CREATE TABLE usage_units (
    hour       INTEGER NOT NULL,
    surface    TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    team       TEXT NOT NULL,
    model      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    unit       TEXT NOT NULL,
    millionths INTEGER NOT NULL,
    PRIMARY KEY (hour, surface, key_id, team, model, provider, unit)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_attributions (
    hour               INTEGER NOT NULL,
    digest             TEXT NOT NULL,
    names              TEXT NOT NULL,
    session            TEXT NOT NULL,
    surface            TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL,
    PRIMARY KEY (hour, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_names (
    hour               INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    name               TEXT NOT NULL,
    surface            TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL,
    PRIMARY KEY (kind, name, hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE log_sizes (
    hour  INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE trimmed_rows (
    request_id TEXT PRIMARY KEY,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX usage_days_by_team ON usage_days (team, hour, cost_nano, cost_rest);
CREATE TABLE gateway_alert_claims (
    claim    TEXT PRIMARY KEY,
    until_at INTEGER NOT NULL
) STRICT;
CREATE TABLE gateway_alert_queue (
    id         TEXT PRIMARY KEY,
    alert      TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    last_error TEXT
) STRICT;
CREATE INDEX gateway_alert_queue_due ON gateway_alert_queue (alert, due_at);
CREATE TABLE usage_prompt_caches (
    hour           INTEGER NOT NULL,
    surface        TEXT NOT NULL,
    key_id         TEXT NOT NULL,
    team           TEXT NOT NULL,
    model          TEXT NOT NULL,
    provider       TEXT NOT NULL,
    saved_nano     INTEGER NOT NULL,
    saved_rest     INTEGER NOT NULL,
    surcharge_nano INTEGER NOT NULL,
    surcharge_rest INTEGER NOT NULL,
    lost_nano      INTEGER NOT NULL,
    lost_rest      INTEGER NOT NULL, provider_nano INTEGER NOT NULL DEFAULT 0, provider_rest INTEGER NOT NULL DEFAULT 0, provider_requests INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_prompt_cache_sessions (
    hour           INTEGER NOT NULL,
    session        TEXT NOT NULL,
    surface        TEXT NOT NULL,
    key_id         TEXT NOT NULL,
    team           TEXT NOT NULL,
    model          TEXT NOT NULL,
    provider       TEXT NOT NULL,
    saved_nano     INTEGER NOT NULL,
    saved_rest     INTEGER NOT NULL,
    surcharge_nano INTEGER NOT NULL,
    surcharge_rest INTEGER NOT NULL,
    lost_nano      INTEGER NOT NULL,
    lost_rest      INTEGER NOT NULL, provider_nano INTEGER NOT NULL DEFAULT 0, provider_rest INTEGER NOT NULL DEFAULT 0, provider_requests INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, session, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE gateway_reconciliations (
    provider     TEXT PRIMARY KEY,
    leased_until INTEGER NOT NULL,
    day          INTEGER NOT NULL,
    ours         TEXT NOT NULL,
    theirs       TEXT NOT NULL
) STRICT;
CREATE TABLE usage_name_totals (
    kind               TEXT NOT NULL,
    name               TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_name_days (
    hour               INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    surface            TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL,
    PRIMARY KEY (kind, hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER usage_name_added AFTER INSERT ON usage_names WHEN NEW.name <> '' BEGIN
    INSERT INTO usage_name_totals (kind, name,
        requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano,
        cost_rest, saved_nano, saved_rest, unpriced)
    VALUES (NEW.kind, NEW.name,
        NEW.requests, NEW.failed, NEW.cache_hits, NEW.prompt_tokens, NEW.completion_tokens, NEW.cached_tokens, NEW.cache_write_tokens,
        NEW.reasoning_tokens, NEW.cost_nano, NEW.cost_rest, NEW.saved_nano, NEW.saved_rest, NEW.unpriced)
    ON CONFLICT (kind, name) DO UPDATE SET
        requests = requests + excluded.requests, failed = failed + excluded.failed, cache_hits = cache_hits + excluded.cache_hits,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens, completion_tokens = completion_tokens + excluded.completion_tokens,
        cached_tokens = cached_tokens + excluded.cached_tokens, cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, cost_nano = cost_nano + excluded.cost_nano,
        cost_rest = cost_rest + excluded.cost_rest, saved_nano = saved_nano + excluded.saved_nano,
        saved_rest = saved_rest + excluded.saved_rest, unpriced = unpriced + excluded.unpriced;
    INSERT INTO usage_name_days (hour, kind, surface, key_id, team, model, provider,
        requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano,
        cost_rest, saved_nano, saved_rest, unpriced)
    VALUES (NEW.hour, NEW.kind, NEW.surface, NEW.key_id, NEW.team, NEW.model, NEW.provider,
        NEW.requests, NEW.failed, NEW.cache_hits, NEW.prompt_tokens, NEW.completion_tokens, NEW.cached_tokens, NEW.cache_write_tokens,
        NEW.reasoning_tokens, NEW.cost_nano, NEW.cost_rest, NEW.saved_nano, NEW.saved_rest, NEW.unpriced)
    ON CONFLICT (kind, hour, surface, key_id, team, model, provider) DO UPDATE SET
        requests = requests + excluded.requests, failed = failed + excluded.failed, cache_hits = cache_hits + excluded.cache_hits,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens, completion_tokens = completion_tokens + excluded.completion_tokens,
        cached_tokens = cached_tokens + excluded.cached_tokens, cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, cost_nano = cost_nano + excluded.cost_nano,
        cost_rest = cost_rest + excluded.cost_rest, saved_nano = saved_nano + excluded.saved_nano,
        saved_rest = saved_rest + excluded.saved_rest, unpriced = unpriced + excluded.unpriced;
END;
CREATE TRIGGER usage_name_changed AFTER UPDATE ON usage_names WHEN NEW.name <> '' BEGIN
    UPDATE usage_name_totals SET
        requests = requests + NEW.requests - OLD.requests, failed = failed + NEW.failed - OLD.failed,
        cache_hits = cache_hits + NEW.cache_hits - OLD.cache_hits, prompt_tokens = prompt_tokens + NEW.prompt_tokens - OLD.prompt_tokens,
        completion_tokens = completion_tokens + NEW.completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens + NEW.cached_tokens - OLD.cached_tokens,
        cache_write_tokens = cache_write_tokens + NEW.cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + NEW.reasoning_tokens - OLD.reasoning_tokens,
        cost_nano = cost_nano + NEW.cost_nano - OLD.cost_nano, cost_rest = cost_rest + NEW.cost_rest - OLD.cost_rest,
        saved_nano = saved_nano + NEW.saved_nano - OLD.saved_nano, saved_rest = saved_rest + NEW.saved_rest - OLD.saved_rest,
        unpriced = unpriced + NEW.unpriced - OLD.unpriced
        WHERE kind = NEW.kind AND name = NEW.name;
    UPDATE usage_name_days SET
        requests = requests + NEW.requests - OLD.requests, failed = failed + NEW.failed - OLD.failed,
        cache_hits = cache_hits + NEW.cache_hits - OLD.cache_hits, prompt_tokens = prompt_tokens + NEW.prompt_tokens - OLD.prompt_tokens,
        completion_tokens = completion_tokens + NEW.completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens + NEW.cached_tokens - OLD.cached_tokens,
        cache_write_tokens = cache_write_tokens + NEW.cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + NEW.reasoning_tokens - OLD.reasoning_tokens,
        cost_nano = cost_nano + NEW.cost_nano - OLD.cost_nano, cost_rest = cost_rest + NEW.cost_rest - OLD.cost_rest,
        saved_nano = saved_nano + NEW.saved_nano - OLD.saved_nano, saved_rest = saved_rest + NEW.saved_rest - OLD.saved_rest,
        unpriced = unpriced + NEW.unpriced - OLD.unpriced
        WHERE hour = NEW.hour AND kind = NEW.kind AND surface = NEW.surface AND key_id = NEW.key_id AND team = NEW.team AND model = NEW.model AND provider = NEW.provider;
END;
CREATE TRIGGER usage_name_removed AFTER DELETE ON usage_names WHEN OLD.name <> '' BEGIN
    UPDATE usage_name_totals SET
        requests = requests - OLD.requests, failed = failed - OLD.failed, cache_hits = cache_hits - OLD.cache_hits,
        prompt_tokens = prompt_tokens - OLD.prompt_tokens, completion_tokens = completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens - OLD.cached_tokens, cache_write_tokens = cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens - OLD.reasoning_tokens, cost_nano = cost_nano - OLD.cost_nano,
        cost_rest = cost_rest - OLD.cost_rest, saved_nano = saved_nano - OLD.saved_nano, saved_rest = saved_rest - OLD.saved_rest,
        unpriced = unpriced - OLD.unpriced
        WHERE kind = OLD.kind AND name = OLD.name;
    DELETE FROM usage_name_totals WHERE kind = OLD.kind AND name = OLD.name AND requests = 0 AND prompt_tokens = 0 AND completion_tokens = 0
        AND cost_nano = 0 AND cost_rest = 0 AND saved_nano = 0 AND saved_rest = 0;
    UPDATE usage_name_days SET
        requests = requests - OLD.requests, failed = failed - OLD.failed, cache_hits = cache_hits - OLD.cache_hits,
        prompt_tokens = prompt_tokens - OLD.prompt_tokens, completion_tokens = completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens - OLD.cached_tokens, cache_write_tokens = cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens - OLD.reasoning_tokens, cost_nano = cost_nano - OLD.cost_nano,
        cost_rest = cost_rest - OLD.cost_rest, saved_nano = saved_nano - OLD.saved_nano, saved_rest = saved_rest - OLD.saved_rest,
        unpriced = unpriced - OLD.unpriced
        WHERE hour = OLD.hour AND kind = OLD.kind AND surface = OLD.surface AND key_id = OLD.key_id AND team = OLD.team AND model = OLD.model AND provider = OLD.provider;
    DELETE FROM usage_name_days
        WHERE hour = OLD.hour AND kind = OLD.kind AND surface = OLD.surface AND key_id = OLD.key_id AND team = OLD.team AND model = OLD.model AND provider = OLD.provider
        AND requests = 0 AND prompt_tokens = 0 AND completion_tokens = 0
        AND cost_nano = 0 AND cost_rest = 0 AND saved_nano = 0 AND saved_rest = 0;
END;
CREATE TABLE usage_prompt_cache_names (
    hour              INTEGER NOT NULL,
    kind              TEXT NOT NULL,
    name              TEXT NOT NULL,
    surface           TEXT NOT NULL,
    key_id            TEXT NOT NULL,
    team              TEXT NOT NULL,
    model             TEXT NOT NULL,
    provider          TEXT NOT NULL,
    saved_nano        INTEGER NOT NULL,
    saved_rest        INTEGER NOT NULL,
    surcharge_nano    INTEGER NOT NULL,
    surcharge_rest    INTEGER NOT NULL,
    lost_nano         INTEGER NOT NULL,
    lost_rest         INTEGER NOT NULL,
    provider_nano     INTEGER NOT NULL,
    provider_rest     INTEGER NOT NULL,
    provider_requests INTEGER NOT NULL,
    PRIMARY KEY (kind, name, hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_name_ids (
    id   INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (kind, name)
) STRICT;
CREATE TABLE usage_name_blocks (
    level  INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    part   INTEGER NOT NULL,
    costs  BLOB NOT NULL,
    counts BLOB NOT NULL,
    PRIMARY KEY (level, start, kind, part)
) STRICT;
CREATE TABLE usage_name_block_sums (
    level              INTEGER NOT NULL,
    start              INTEGER NOT NULL,
    kind               TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL,
    PRIMARY KEY (level, start, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_name_late (
    id                 INTEGER PRIMARY KEY,
    hour               INTEGER NOT NULL,
    names              TEXT NOT NULL,
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
    unpriced           INTEGER NOT NULL
) STRICT;
CREATE TABLE usage_name_progress (
    first      INTEGER NOT NULL,
    closed     INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    days_until INTEGER NOT NULL,
    weeks_from INTEGER NOT NULL,
    weeks_until INTEGER NOT NULL
) STRICT;
CREATE INDEX usage_name_totals_by_cost
    ON usage_name_totals (kind, cost_nano + cost_rest / 1000000 DESC, cost_rest % 1000000 DESC, name);
INSERT INTO revision VALUES (1, 0);
INSERT INTO gateway_audit_head VALUES (1, 0, X'0000000000000000000000000000000000000000000000000000000000000000');
INSERT INTO usage_rollup VALUES (1, 0);
INSERT INTO usage_name_progress VALUES (0, 0, 0, 0, 0, 0);
