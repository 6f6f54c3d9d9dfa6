-- Sums by day, for reports over long times: a day is added up from the sums of its hours when it is over. Rows of such a day that arrive
-- later are added to both. hour is the first one of the day, so that reports read both kinds of sums with the same conditions.
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

-- The days before `until` (unix seconds) are in usage_days.
CREATE TABLE usage_rollup (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    until INTEGER NOT NULL
) STRICT;
INSERT INTO usage_rollup (id, until) VALUES (1, 0);

-- Failures in the order of time with all that a search of them compares, so that it looks at no row that it does not show.
DROP INDEX ledger_by_status;
CREATE INDEX ledger_by_failure ON ledger_rows (at, status, who) WHERE status IS NOT NULL;
