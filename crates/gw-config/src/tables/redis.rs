//! `[redis]`.

use super::super::formats::{REDIS_URL, WORD};
use super::super::schema::{Kind, Section, key};

pub(super) static REDIS: Section = Section {
    doc: "One Redis or Valkey (no cluster) that shares limits and budgets between replicas. Without this section each process \
          counts for itself.",
    keys: &[
        key("url", Kind::Secret(&REDIS_URL), "", "`redis://127.0.0.1:6379/0`, or `rediss://` for TLS."),
        key(
            "ca_file",
            Kind::Path,
            "",
            "A PEM file with certificates for `rediss://`, trusted besides those of the machine.",
        ),
        key("prefix", Kind::Text(&WORD), "\"gw:\"", "The prefix of all keys in Redis."),
        key(
            "timeout_ms",
            Kind::Int { min: 1, max: 10_000 },
            "50",
            "How long a request waits for Redis. After a few requests without an answer Redis counts as away, and no request waits.",
        ),
        key(
            "when_away",
            Kind::Choice(&[("local", &[]), ("closed", &[])]),
            "\"local\"",
            "Limits while Redis is away: `local` lets each replica count its part of them, `closed` refuses requests that have a \
             limit. Keys and teams with a budget are always refused.",
        ),
    ],
};
