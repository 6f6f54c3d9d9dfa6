-- The costs that providers state in their answers, beside what their prompt caches saved and cost. provider_requests counts the rows that have one.
ALTER TABLE usage_prompt_caches ADD COLUMN provider_nano INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_caches ADD COLUMN provider_rest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_caches ADD COLUMN provider_requests INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_cache_sessions ADD COLUMN provider_nano INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_cache_sessions ADD COLUMN provider_rest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_prompt_cache_sessions ADD COLUMN provider_requests INTEGER NOT NULL DEFAULT 0;

-- The same by name. kind 'tag' and name '': all requests with tags, each once. kind 'tags' and name '': all tags of all requests. Of other kinds
-- name '' has all requests with a name. These sums go together with the rows of the log.
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
