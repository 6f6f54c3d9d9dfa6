-- The costs that providers state in their answers, beside what their prompt caches saved and cost. provider_requests counts the rows that have one.
ALTER TABLE usage_prompt_caches ADD COLUMN provider_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_caches ADD COLUMN provider_rest BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_caches ADD COLUMN provider_requests BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_cache_sessions ADD COLUMN provider_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_cache_sessions ADD COLUMN provider_rest BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_cache_sessions ADD COLUMN provider_requests BIGINT NOT NULL DEFAULT 0;

-- The same by name. kind 'tag' and name '': all requests with tags, each once. kind 'tags' and name '': all tags of all requests. Of other kinds
-- name '' has all requests with a name. These sums go together with the rows of the log.
CREATE TABLE usage_prompt_cache_names (
    hour              BIGINT NOT NULL,
    kind              TEXT COLLATE "C" NOT NULL,
    name              TEXT COLLATE "C" NOT NULL,
    surface           TEXT COLLATE "C" NOT NULL,
    key_id            TEXT COLLATE "C" NOT NULL,
    team              TEXT COLLATE "C" NOT NULL,
    model             TEXT COLLATE "C" NOT NULL,
    provider          TEXT COLLATE "C" NOT NULL,
    saved_nano        BIGINT NOT NULL,
    saved_rest        BIGINT NOT NULL,
    surcharge_nano    BIGINT NOT NULL,
    surcharge_rest    BIGINT NOT NULL,
    lost_nano         BIGINT NOT NULL,
    lost_rest         BIGINT NOT NULL,
    provider_nano     BIGINT NOT NULL,
    provider_rest     BIGINT NOT NULL,
    provider_requests BIGINT NOT NULL,
    PRIMARY KEY (kind, name, hour, surface, key_id, team, model, provider)
);
