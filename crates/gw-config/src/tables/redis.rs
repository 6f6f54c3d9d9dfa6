//! `[redis]`.

use gw_limits::{RedisSettings, WhenAway};

use super::super::binding::{Form, field, words};
use super::super::formats::{REDIS_URL, WORD};
use super::super::schema::{Kind, Section, setting, words_of};

pub(super) static REDIS: Section = Section {
    doc: "One Redis or Valkey (no cluster) that shares limits and budgets between replicas. Without this section each process \
          counts for itself.",
    keys: &[
        setting(
            "url",
            Kind::Secret(&REDIS_URL),
            field!(RedisSettings, url, Form::SECRET),
            "`redis://127.0.0.1:6379/0`, or `rediss://` for TLS.",
        ),
        setting(
            "ca_file",
            Kind::Path,
            field!(RedisSettings, ca_file, Form::OPTIONAL_FILE),
            "A PEM file with certificates for `rediss://`, trusted besides those of the machine.",
        ),
        setting(
            "prefix",
            Kind::Text(&WORD),
            field!(RedisSettings, prefix, Form::TEXT),
            "The prefix of all keys in Redis.",
        ),
        setting(
            "timeout_ms",
            Kind::Int { min: 1, max: 10_000 },
            field!(RedisSettings, timeout, Form::MILLIS),
            "How long a request waits for Redis. After a few requests without an answer Redis counts as away, and no request waits.",
        ),
        words_of(
            "when_away",
            words!(RedisSettings, when_away, "local" => WhenAway::Local, "closed" => WhenAway::Closed),
            "Limits while Redis is away: `local` lets each replica count its part of them, `closed` refuses requests that have a \
             limit. Keys and teams with a budget are always refused.",
        ),
    ],
};
