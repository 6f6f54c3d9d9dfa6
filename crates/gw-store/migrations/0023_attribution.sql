-- Whether the end user and the tags that the requests of a key name are believed.
ALTER TABLE keys ADD COLUMN trust_attribution INTEGER NOT NULL DEFAULT 0;

-- Whom a request is for and what it belongs to: a JSON array of texts such as "end_user:ann". The text "tag:" says that there are tags.
-- NULL: none.
ALTER TABLE ledger_rows ADD COLUMN names TEXT;

-- Sums by hour of the requests that name something. digest stands for all columns before the sums, because tags are long.
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

-- Sums by day for each name, which are there from the first request of a day on. hour is the first one of the day. kind 'tag' and
-- name '': all requests with tags, each once. A name comes before its days, so that a report adds up a name at a time.
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

-- The bytes of rows and payloads by the hour of their time, so that the oldest can go when the log is too large.
CREATE TABLE log_sizes (
    hour  INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO log_sizes (hour, bytes)
    SELECT hour, sum(bytes) FROM (
        SELECT at / 3600000 * 3600 AS hour, sum(length(CAST(entry AS BLOB)) + 100) AS bytes FROM ledger_rows GROUP BY 1
        UNION ALL
        SELECT at / 3600000 * 3600, sum(length(CAST(request AS BLOB)) + length(CAST(response AS BLOB)) + 100)
        FROM payloads GROUP BY 1
    ) GROUP BY hour;

-- Rows that went because of their size while a journal may still have them: a start after a crash must not count them again.
CREATE TABLE trimmed_rows (
    request_id TEXT PRIMARY KEY,
    at         INTEGER NOT NULL
) STRICT;
