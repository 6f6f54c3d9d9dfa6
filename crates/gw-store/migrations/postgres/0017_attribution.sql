-- Whether the end user and the tags that the requests of a key name are believed.
ALTER TABLE keys ADD COLUMN trust_attribution BIGINT NOT NULL DEFAULT 0;

-- Whom a request is for and what it belongs to: a JSON array of texts such as "end_user:ann". The text "tag:" says that there are tags.
-- NULL: none.
ALTER TABLE ledger ADD COLUMN names TEXT COLLATE "C";

-- Sums by hour of the requests that name something. digest stands for all columns before the sums, because tags are long.
CREATE TABLE usage_attributions (
    hour               BIGINT NOT NULL,
    digest             TEXT COLLATE "C" NOT NULL,
    names              TEXT COLLATE "C" NOT NULL,
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
    unpriced           BIGINT NOT NULL,
    PRIMARY KEY (hour, digest)
);

-- Sums by day for each name, which are there from the first request of a day on. hour is the first one of the day. kind 'tag' and
-- name '': all requests with tags, each once. A name comes before its days, so that a report adds up a name at a time.
CREATE TABLE usage_names (
    hour               BIGINT NOT NULL,
    kind               TEXT COLLATE "C" NOT NULL,
    name               TEXT COLLATE "C" NOT NULL,
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
    unpriced           BIGINT NOT NULL,
    PRIMARY KEY (kind, name, hour, surface, key_id, team, model, provider)
);

-- The bytes of rows and payloads by the hour of their time, so that the oldest can go when the log is too large.
CREATE TABLE log_sizes (
    hour  BIGINT PRIMARY KEY,
    bytes BIGINT NOT NULL
);
INSERT INTO log_sizes (hour, bytes)
    SELECT hour, CAST(sum(bytes) AS BIGINT) FROM (
        SELECT at / 3600000 * 3600 AS hour, sum(octet_length(entry) + 100) AS bytes FROM ledger GROUP BY 1
        UNION ALL
        SELECT at / 3600000 * 3600, sum(octet_length(request) + octet_length(response) + 100)
        FROM payloads GROUP BY 1
    ) AS sizes GROUP BY hour;

-- Rows that went because of their size while a journal may still have them: a start after a crash must not count them again.
CREATE TABLE trimmed_rows (
    request_id TEXT COLLATE "C" PRIMARY KEY,
    at         BIGINT NOT NULL
);
