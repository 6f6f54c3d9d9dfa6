//! `[store]`.

use super::super::formats::STORE_URL;
use super::super::schema::{Kind, Section, Word, key};

pub(super) static STORE: Section = Section {
    doc: "The store of keys, usage and the request log.",
    keys: &[
        key(
            "url",
            Kind::Secret(&STORE_URL),
            "`gateway.db` in the data directory",
            "`sqlite:///path`, or `postgres://user:password@host/database` for several replicas.",
        ),
        key(
            "start_timeout_seconds",
            Kind::Int { min: 0, max: 86_400 },
            "60",
            "How long a start waits for a PostgreSQL server that cannot be reached.",
        ),
        key(
            "retention_days",
            Kind::Int { min: 0, max: 36_500 },
            "90",
            "How long rows of the request log are kept. 0 = for ever. The sums of usage are always kept.",
        ),
        key(
            "progress_tokens",
            Kind::Int { min: 1, max: 1_000_000 },
            "256",
            "The gateway notes the usage of a running stream in the journal: after this many tokens, and at least after every \
             twentieth of its reservation. If the process is killed, at most this much usage is not charged.",
        ),
        key("payloads", Kind::Table(&PAYLOADS), "", "Stored payloads."),
    ],
};

static PAYLOADS: Section = Section {
    doc: "Payloads are the texts of requests and answers. They are stored only for keys with `log_payloads = true`. Images, sound \
          and files in them are always replaced by their size.",
    keys: &[
        key(
            "redact",
            Kind::List { of: &Kind::Choice(&MASKS), min: 0 },
            "[\"email\", \"phone\", \"card\", \"secret\"]",
            "The data that is masked before a payload is stored. It is recognised by its form. `[]` = none.",
        ),
        key(
            "retention_days",
            Kind::Int { min: 1, max: 36_500 },
            "30",
            "How long payloads are kept, but never longer than the row of their request.",
        ),
        key(
            "max_kib",
            Kind::Int { min: 1, max: 4096 },
            "256",
            "The stored size of each body in KiB. A longer body is cut and marked as cut.",
        ),
    ],
};

const MASKS: [Word; 4] = [("email", &[]), ("phone", &[]), ("card", &[]), ("secret", &[])];
