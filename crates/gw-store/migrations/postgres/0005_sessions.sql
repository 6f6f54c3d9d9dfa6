-- The session that a request belongs to (a run of an agent), and the API that it came through. NULL: none, or a row of an
-- older version.
ALTER TABLE ledger ADD COLUMN session TEXT COLLATE "C";
ALTER TABLE ledger ADD COLUMN surface TEXT COLLATE "C";
CREATE INDEX ledger_by_session ON ledger (session, at) WHERE session IS NOT NULL;

-- Sums by hour, session and surface: for reports only. They are kept as long as the rows, because there are many sessions.
-- session: '' = none.
CREATE TABLE usage_sessions (
    hour               BIGINT NOT NULL,
    session            TEXT COLLATE "C" NOT NULL,
    surface            TEXT COLLATE "C" NOT NULL,
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
    PRIMARY KEY (hour, session, surface, key_id, team, model, provider)
);
