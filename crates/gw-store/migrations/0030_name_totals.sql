-- Sums of all time for each name. A report about all time finds the dearest of a million names by an index, and reads no others.
CREATE TABLE usage_name_totals (
    kind               TEXT NOT NULL,
    name               TEXT NOT NULL,
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
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Sums by day over all names of a kind: a request counts for each of its tags. A report reads the names that it does not list from here.
CREATE TABLE usage_name_days (
    hour               INTEGER NOT NULL,
    kind               TEXT NOT NULL,
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
    PRIMARY KEY (kind, hour, surface, key_id, team, model, provider)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_name_totals SELECT kind, name,
    sum(requests), sum(failed), sum(cache_hits), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens), sum(cache_write_tokens),
    sum(reasoning_tokens), sum(cost_nano), sum(cost_rest), sum(saved_nano), sum(saved_rest), sum(unpriced)
    FROM usage_names WHERE name <> '' GROUP BY kind, name;
INSERT INTO usage_name_days SELECT hour, kind, surface, key_id, team, model, provider,
    sum(requests), sum(failed), sum(cache_hits), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens), sum(cache_write_tokens),
    sum(reasoning_tokens), sum(cost_nano), sum(cost_rest), sum(saved_nano), sum(saved_rest), sum(unpriced)
    FROM usage_names WHERE name <> '' GROUP BY hour, kind, surface, key_id, team, model, provider;
CREATE INDEX usage_name_totals_by_cost ON usage_name_totals (kind, cost_nano + cost_rest / 1000000 DESC, name);

-- Every change of usage_names changes both, whoever makes it. Only requests with names write there.
CREATE TRIGGER usage_name_added AFTER INSERT ON usage_names WHEN NEW.name <> '' BEGIN
    INSERT INTO usage_name_totals (kind, name,
        requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano,
        cost_rest, saved_nano, saved_rest, unpriced)
    VALUES (NEW.kind, NEW.name,
        NEW.requests, NEW.failed, NEW.cache_hits, NEW.prompt_tokens, NEW.completion_tokens, NEW.cached_tokens, NEW.cache_write_tokens,
        NEW.reasoning_tokens, NEW.cost_nano, NEW.cost_rest, NEW.saved_nano, NEW.saved_rest, NEW.unpriced)
    ON CONFLICT (kind, name) DO UPDATE SET
        requests = requests + excluded.requests, failed = failed + excluded.failed, cache_hits = cache_hits + excluded.cache_hits,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens, completion_tokens = completion_tokens + excluded.completion_tokens,
        cached_tokens = cached_tokens + excluded.cached_tokens, cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, cost_nano = cost_nano + excluded.cost_nano,
        cost_rest = cost_rest + excluded.cost_rest, saved_nano = saved_nano + excluded.saved_nano,
        saved_rest = saved_rest + excluded.saved_rest, unpriced = unpriced + excluded.unpriced;
    INSERT INTO usage_name_days (hour, kind, surface, key_id, team, model, provider,
        requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano,
        cost_rest, saved_nano, saved_rest, unpriced)
    VALUES (NEW.hour, NEW.kind, NEW.surface, NEW.key_id, NEW.team, NEW.model, NEW.provider,
        NEW.requests, NEW.failed, NEW.cache_hits, NEW.prompt_tokens, NEW.completion_tokens, NEW.cached_tokens, NEW.cache_write_tokens,
        NEW.reasoning_tokens, NEW.cost_nano, NEW.cost_rest, NEW.saved_nano, NEW.saved_rest, NEW.unpriced)
    ON CONFLICT (kind, hour, surface, key_id, team, model, provider) DO UPDATE SET
        requests = requests + excluded.requests, failed = failed + excluded.failed, cache_hits = cache_hits + excluded.cache_hits,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens, completion_tokens = completion_tokens + excluded.completion_tokens,
        cached_tokens = cached_tokens + excluded.cached_tokens, cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, cost_nano = cost_nano + excluded.cost_nano,
        cost_rest = cost_rest + excluded.cost_rest, saved_nano = saved_nano + excluded.saved_nano,
        saved_rest = saved_rest + excluded.saved_rest, unpriced = unpriced + excluded.unpriced;
END;
CREATE TRIGGER usage_name_changed AFTER UPDATE ON usage_names WHEN NEW.name <> '' BEGIN
    UPDATE usage_name_totals SET
        requests = requests + NEW.requests - OLD.requests, failed = failed + NEW.failed - OLD.failed,
        cache_hits = cache_hits + NEW.cache_hits - OLD.cache_hits, prompt_tokens = prompt_tokens + NEW.prompt_tokens - OLD.prompt_tokens,
        completion_tokens = completion_tokens + NEW.completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens + NEW.cached_tokens - OLD.cached_tokens,
        cache_write_tokens = cache_write_tokens + NEW.cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + NEW.reasoning_tokens - OLD.reasoning_tokens,
        cost_nano = cost_nano + NEW.cost_nano - OLD.cost_nano, cost_rest = cost_rest + NEW.cost_rest - OLD.cost_rest,
        saved_nano = saved_nano + NEW.saved_nano - OLD.saved_nano, saved_rest = saved_rest + NEW.saved_rest - OLD.saved_rest,
        unpriced = unpriced + NEW.unpriced - OLD.unpriced
        WHERE kind = NEW.kind AND name = NEW.name;
    UPDATE usage_name_days SET
        requests = requests + NEW.requests - OLD.requests, failed = failed + NEW.failed - OLD.failed,
        cache_hits = cache_hits + NEW.cache_hits - OLD.cache_hits, prompt_tokens = prompt_tokens + NEW.prompt_tokens - OLD.prompt_tokens,
        completion_tokens = completion_tokens + NEW.completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens + NEW.cached_tokens - OLD.cached_tokens,
        cache_write_tokens = cache_write_tokens + NEW.cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens + NEW.reasoning_tokens - OLD.reasoning_tokens,
        cost_nano = cost_nano + NEW.cost_nano - OLD.cost_nano, cost_rest = cost_rest + NEW.cost_rest - OLD.cost_rest,
        saved_nano = saved_nano + NEW.saved_nano - OLD.saved_nano, saved_rest = saved_rest + NEW.saved_rest - OLD.saved_rest,
        unpriced = unpriced + NEW.unpriced - OLD.unpriced
        WHERE hour = NEW.hour AND kind = NEW.kind AND surface = NEW.surface AND key_id = NEW.key_id AND team = NEW.team AND model = NEW.model AND provider = NEW.provider;
END;
CREATE TRIGGER usage_name_removed AFTER DELETE ON usage_names WHEN OLD.name <> '' BEGIN
    UPDATE usage_name_totals SET
        requests = requests - OLD.requests, failed = failed - OLD.failed, cache_hits = cache_hits - OLD.cache_hits,
        prompt_tokens = prompt_tokens - OLD.prompt_tokens, completion_tokens = completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens - OLD.cached_tokens, cache_write_tokens = cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens - OLD.reasoning_tokens, cost_nano = cost_nano - OLD.cost_nano,
        cost_rest = cost_rest - OLD.cost_rest, saved_nano = saved_nano - OLD.saved_nano, saved_rest = saved_rest - OLD.saved_rest,
        unpriced = unpriced - OLD.unpriced
        WHERE kind = OLD.kind AND name = OLD.name;
    DELETE FROM usage_name_totals WHERE kind = OLD.kind AND name = OLD.name AND requests = 0 AND prompt_tokens = 0 AND completion_tokens = 0
        AND cost_nano = 0 AND cost_rest = 0 AND saved_nano = 0 AND saved_rest = 0;
    UPDATE usage_name_days SET
        requests = requests - OLD.requests, failed = failed - OLD.failed, cache_hits = cache_hits - OLD.cache_hits,
        prompt_tokens = prompt_tokens - OLD.prompt_tokens, completion_tokens = completion_tokens - OLD.completion_tokens,
        cached_tokens = cached_tokens - OLD.cached_tokens, cache_write_tokens = cache_write_tokens - OLD.cache_write_tokens,
        reasoning_tokens = reasoning_tokens - OLD.reasoning_tokens, cost_nano = cost_nano - OLD.cost_nano,
        cost_rest = cost_rest - OLD.cost_rest, saved_nano = saved_nano - OLD.saved_nano, saved_rest = saved_rest - OLD.saved_rest,
        unpriced = unpriced - OLD.unpriced
        WHERE hour = OLD.hour AND kind = OLD.kind AND surface = OLD.surface AND key_id = OLD.key_id AND team = OLD.team AND model = OLD.model AND provider = OLD.provider;
    DELETE FROM usage_name_days
        WHERE hour = OLD.hour AND kind = OLD.kind AND surface = OLD.surface AND key_id = OLD.key_id AND team = OLD.team AND model = OLD.model AND provider = OLD.provider
        AND requests = 0 AND prompt_tokens = 0 AND completion_tokens = 0
        AND cost_nano = 0 AND cost_rest = 0 AND saved_nano = 0 AND saved_rest = 0;
END;
