-- The session that a request belongs to (a run of an agent), and the API that it came through. NULL: none, or a row of an
-- older version.
ALTER TABLE ledger_rows ADD COLUMN session TEXT;
CREATE INDEX ledger_by_session ON ledger_rows (session, at) WHERE session IS NOT NULL;
ALTER TABLE ledger_groups ADD COLUMN surface TEXT;

-- Sums by hour, session and surface: for reports only. They are kept as long as the rows, because there are many sessions.
-- session: '' = none.
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
    saved_rest         INTEGER NOT NULL,
    PRIMARY KEY (hour, session, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
