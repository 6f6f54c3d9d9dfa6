-- Numbers of the names, in the order in which they came. A number is shorter than a name, and an array can have it as its index.
CREATE TABLE usage_name_ids (
    id   INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (kind, name)
) STRICT;

-- Sums by name of an hour (level 0), a day (level 1) or eight days (level 2) that are over, packed: a report about a span reads millions of names in a few hundred
-- rows. start is the first second, part the number of the names divided by 65,536.
CREATE TABLE usage_name_blocks (
    level  INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    part   INTEGER NOT NULL,
    costs  BLOB NOT NULL,
    counts BLOB NOT NULL,
    PRIMARY KEY (level, start, kind, part)
) STRICT;

-- The sums over all names of a block. kind 'tagged': all requests with tags, each once.
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

-- The sums of requests that came after their hour was closed, until they are added to its block.
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

-- weeks_from: the first eight days that have all their days.
-- first: reports that begin before it may miss hours that were deleted before there were blocks. Requests of hours before closed are late.
-- until and days_until: the blocks of all hours and days before them are there, as those of eight days before weeks_until.
CREATE TABLE usage_name_progress (
    first      INTEGER NOT NULL,
    closed     INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    days_until INTEGER NOT NULL,
    weeks_from INTEGER NOT NULL,
    weeks_until INTEGER NOT NULL
) STRICT;
-- Of the oldest day all hours are there if the sums by session, which are deleted with them, have all its requests.
INSERT INTO usage_name_progress SELECT first, first, first, first, (first + 691199) / 691200 * 691200, (first + 691199) / 691200 * 691200 FROM (
    SELECT CASE WHEN day IS NULL OR
        (SELECT coalesce(sum(requests), 0) FROM usage_hours WHERE hour >= day AND hour < day + 86400) =
        (SELECT coalesce(sum(requests), 0) FROM usage_sessions WHERE hour >= day AND hour < day + 86400)
        THEN 0 ELSE day + 86400 END AS first
    FROM (SELECT min(hour) / 86400 * 86400 AS day FROM usage_attributions)
);

-- The order of names that cost the same to the nano-USD.
DROP INDEX usage_name_totals_by_cost;
CREATE INDEX usage_name_totals_by_cost
    ON usage_name_totals (kind, cost_nano + cost_rest / 1000000 DESC, cost_rest % 1000000 DESC, name);
