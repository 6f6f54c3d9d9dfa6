-- What prompt caches of providers saved and cost by hour. Only requests with such an amount have rows.
CREATE TABLE usage_prompt_caches (
    hour           BIGINT NOT NULL,
    surface        TEXT COLLATE "C" NOT NULL,
    key_id         TEXT COLLATE "C" NOT NULL,
    team           TEXT COLLATE "C" NOT NULL,
    model          TEXT COLLATE "C" NOT NULL,
    provider       TEXT COLLATE "C" NOT NULL,
    saved_nano     BIGINT NOT NULL,
    saved_rest     BIGINT NOT NULL,
    surcharge_nano BIGINT NOT NULL,
    surcharge_rest BIGINT NOT NULL,
    lost_nano      BIGINT NOT NULL,
    lost_rest      BIGINT NOT NULL,
    PRIMARY KEY (hour, surface, key_id, team, model, provider)
);

-- The same by session, too. These sums go together with the rows of the log.
CREATE TABLE usage_prompt_cache_sessions (
    hour           BIGINT NOT NULL,
    session        TEXT COLLATE "C" NOT NULL,
    surface        TEXT COLLATE "C" NOT NULL,
    key_id         TEXT COLLATE "C" NOT NULL,
    team           TEXT COLLATE "C" NOT NULL,
    model          TEXT COLLATE "C" NOT NULL,
    provider       TEXT COLLATE "C" NOT NULL,
    saved_nano     BIGINT NOT NULL,
    saved_rest     BIGINT NOT NULL,
    surcharge_nano BIGINT NOT NULL,
    surcharge_rest BIGINT NOT NULL,
    lost_nano      BIGINT NOT NULL,
    lost_rest      BIGINT NOT NULL,
    PRIMARY KEY (hour, session, surface, key_id, team, model, provider)
);
