//! `[cache]` and `[[cache.semantic]]`.

use gw_cache::SimilarityMode;
use gw_engine::response_cache::SemanticSettings;

use super::super::binding::{Form, field, words};
use super::super::formats::{ALIAS, LABEL, MODEL_ID};
use super::super::schema::{Kind, Section, key, required_setting, setting, words_of};
use super::super::settings::CacheSettings;

pub(super) static CACHE: Section = Section {
    doc: "The response cache. A chat uses it when its request has `cache.enabled`; completions and embeddings use it when it is \
          switched on here. Each API key has its own answers, unless its team is in `shared_by_teams`.",
    keys: &[
        setting(
            "enabled",
            Kind::Bool,
            field!(CacheSettings, enabled, Form::BOOL),
            "Whether requests may use the cache.",
        ),
        setting(
            "completions",
            Kind::Bool,
            field!(CacheSettings, caching.completions, Form::BOOL),
            "Whether every text completion uses the cache.",
        ),
        setting(
            "embeddings",
            Kind::Bool,
            field!(CacheSettings, caching.embeddings, Form::BOOL),
            "Whether every embeddings request uses the cache. Each input is cached by itself, and only missing inputs are sent to a provider.",
        ),
        words_of(
            "backend",
            words!(CacheSettings, shared, "memory" => false, "redis" => true),
            "`memory` keeps the answers in this process, `redis` in the Redis of `[redis]` for all replicas.",
        ),
        setting(
            "max_mib",
            Kind::Int { min: 1, max: 1_048_576 },
            field!(CacheSettings, max_bytes, Form::MIB),
            "The size of the cache in memory, in MiB.",
        ),
        setting(
            "default_ttl_seconds",
            Kind::Int { min: 1, max: 31_536_000 },
            field!(CacheSettings, caching.default_ttl, Form::SECONDS),
            "The lifetime of an answer whose request sets none.",
        ),
        setting(
            "stale_if_error_seconds",
            Kind::Int { min: 0, max: 31_536_000 },
            field!(CacheSettings, caching.stale_if_error, Form::SECONDS),
            "How long after its lifetime an answer is still used when no upstream answers. `gateway.warnings` marks it. 0 = never.",
        ),
        setting(
            "shared_by_teams",
            Kind::List { of: &Kind::Text(&LABEL), min: 0 },
            field!(CacheSettings, caching.shared_by_teams, Form::TEXTS),
            "Teams whose keys share their answers. All other keys have their own.",
        ),
        key("semantic", Kind::Tables(&SEMANTIC), "", ""),
    ],
};

static SEMANTIC: Section = Section {
    doc: "Compares questions to one alias by their meaning (docs/cache.md). Each comparison is an embeddings request of the key \
          that sent the question.",
    keys: &[
        required_setting(
            "alias",
            Kind::Text(&ALIAS),
            field!(SemanticSettings, alias, Form::TEXT),
            "One of `[aliases]`, as clients write it.",
        ),
        required_setting(
            "embedding_model",
            Kind::Text(&MODEL_ID),
            field!(SemanticSettings, embedding_model, Form::TEXT),
            "The model that makes the vectors. Keys that may not use this model are left out.",
        ),
        words_of(
            "mode",
            words!(SemanticSettings, similar.mode, "shadow" => SimilarityMode::Shadow, "answer" => SimilarityMode::Answer),
            "`answer` answers a similar question from the cache. `shadow` only counts such questions in `GET /admin/v1/cache`.",
        ),
        setting(
            "threshold",
            Kind::Number { min: 0.5, max: 1.0 },
            field!(SemanticSettings, similar.threshold, Form::PART),
            "The least cosine of two questions that count as similar.",
        ),
        setting(
            "timeout_ms",
            Kind::Int { min: 1, max: 60_000 },
            field!(SemanticSettings, timeout, Form::MILLIS),
            "The longest wait of a request for its vector.",
        ),
        setting(
            "max_mib",
            Kind::Int { min: 1, max: 65_536 },
            field!(SemanticSettings, similar.max_bytes, Form::MIB),
            "The size of all vectors in memory, in MiB.",
        ),
    ],
};
