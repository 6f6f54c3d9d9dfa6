-- What prompt caches of providers saved and cost by hour. Only requests with such an amount have rows.
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
    lost_rest      INTEGER NOT NULL,
    PRIMARY KEY (hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;

-- The same by session, too. These sums go together with the rows of the log.
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
    lost_rest      INTEGER NOT NULL,
    PRIMARY KEY (hour, session, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;
