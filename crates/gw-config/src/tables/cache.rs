//! `[cache]` and `[[cache.semantic]]`.

use super::super::formats::{ALIAS, LABEL, MODEL_ID};
use super::super::schema::{Kind, Section, key, required};

pub(super) static CACHE: Section = Section {
    doc: "The response cache. A chat uses it when its request has `cache.enabled`; completions and embeddings use it when it is \
          switched on here. Each API key has its own answers, unless its team is in `shared_by_teams`.",
    keys: &[
        key("enabled", Kind::Bool, "true", "Whether requests may use the cache."),
        key("completions", Kind::Bool, "false", "Whether every text completion uses the cache."),
        key(
            "embeddings",
            Kind::Bool,
            "false",
            "Whether every embeddings request uses the cache. Each input is cached by itself, and only missing inputs are sent to a provider.",
        ),
        key(
            "backend",
            Kind::Choice(&[("memory", &[]), ("redis", &[])]),
            "\"memory\"",
            "`memory` keeps the answers in this process, `redis` in the Redis of `[redis]` for all replicas.",
        ),
        key(
            "max_mib",
            Kind::Int { min: 1, max: 1_048_576 },
            "256",
            "The size of the cache in memory, in MiB.",
        ),
        key(
            "default_ttl_seconds",
            Kind::Int { min: 1, max: 31_536_000 },
            "3600",
            "The lifetime of an answer whose request sets none.",
        ),
        key(
            "stale_if_error_seconds",
            Kind::Int { min: 0, max: 31_536_000 },
            "0",
            "How long after its lifetime an answer is still used when no upstream answers. `gateway.warnings` marks it. 0 = never.",
        ),
        key(
            "shared_by_teams",
            Kind::List { of: &Kind::Text(&LABEL), min: 0 },
            "[]",
            "Teams whose keys share their answers. All other keys have their own.",
        ),
        key("semantic", Kind::Tables(&SEMANTIC), "", ""),
    ],
};

static SEMANTIC: Section = Section {
    doc: "Compares questions to one alias by their meaning (docs/cache.md). Each comparison is an embeddings request of the key \
          that sent the question.",
    keys: &[
        required("alias", Kind::Text(&ALIAS), "One of `[aliases]`, as clients write it."),
        required(
            "embedding_model",
            Kind::Text(&MODEL_ID),
            "The model that makes the vectors. Keys that may not use this model are left out.",
        ),
        key(
            "mode",
            Kind::Choice(&[("shadow", &[]), ("answer", &[])]),
            "\"shadow\"",
            "`answer` answers a similar question from the cache. `shadow` only counts such questions in `GET /admin/v1/cache`.",
        ),
        key(
            "threshold",
            Kind::Number { min: 0.5, max: 1.0 },
            "0.97",
            "The least cosine of two questions that count as similar.",
        ),
        key(
            "timeout_ms",
            Kind::Int { min: 1, max: 60_000 },
            "1000",
            "The longest wait of a request for its vector.",
        ),
        key("max_mib", Kind::Int { min: 1, max: 65_536 }, "64", "The size of all vectors in memory, in MiB."),
    ],
};
