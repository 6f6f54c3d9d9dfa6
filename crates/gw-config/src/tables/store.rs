//! `[store]`.

use super::super::formats::{JSON_OBJECT, KEY_HASH, KEY_ID, LINE, STORE_URL, TEAM_ID};
use super::super::schema::{Kind, Section, Word, key, required};
use super::keys::{BUDGET_PERIOD, BUDGET_USD, BURST, MAX_IN_FLIGHT, ON_BUDGET, RPM, TPM, UNPRICED};

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
        key(
            "keys",
            Kind::Tables(&STORED_KEY),
            "",
            "Keys that a store gets at the start if it does not have them.",
        ),
        key(
            "teams",
            Kind::Tables(&STORED_TEAM),
            "",
            "Teams that a store gets at the start if it does not have them.",
        ),
    ],
};

const LINES: Kind = Kind::List { of: &Kind::Text(&LINE), min: 1 };

static STORED_KEY: Section = Section {
    doc: "Keys as `export` writes them: `[[store.keys]]`. The store gets a key at the start if it has none with this id. From \
          then on the store has the key, and the management API changes it.",
    keys: &[
        required("id", Kind::Text(&KEY_ID), "The id: the first 12 characters of the key."),
        required("name", Kind::Text(&LINE), "The name shown in lists and reports."),
        required("key_hash", Kind::Secret(&KEY_HASH), "The SHA-256 of the key."),
        key(
            "role",
            Kind::Choice(&[("inference", &[]), ("viewer", &[]), ("operator", &[]), ("admin", &[])]),
            "\"inference\"",
            "The role of the key.",
        ),
        key("team", Kind::Text(&TEAM_ID), "", "The team, which must be in `[[store.teams]]`."),
        key("models", LINES, "all", "The models that the key may use."),
        RPM,
        BURST,
        TPM,
        MAX_IN_FLIGHT,
        BUDGET_USD,
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        key("log_payloads", Kind::Bool, "false", "Whether the texts of its requests and answers are stored."),
        key("created_at", Kind::Time, "the start of 1970", "The time at which the key was created."),
        key("expires_at", Kind::Time, "never", "The time at which the key expires."),
        key("revoked_at", Kind::Time, "", "The time since which the key is refused."),
        key("metadata", Kind::Text(&JSON_OBJECT), "", "The metadata of the key, as JSON."),
        key("previous_key_hash", Kind::Secret(&KEY_HASH), "", "The SHA-256 of the secret before a rotation."),
        key("previous_valid_until", Kind::Time, "", "The time until which this secret is accepted."),
    ],
};

static STORED_TEAM: Section = Section {
    doc: "Teams as `export` writes them: `[[store.teams]]`. The store gets a team at the start if it has none with this id.",
    keys: &[
        required("id", Kind::Text(&TEAM_ID), "The name of the team."),
        RPM,
        BURST,
        TPM,
        MAX_IN_FLIGHT,
        BUDGET_USD,
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        key("created_at", Kind::Time, "the start of 1970", "The time at which the team was created."),
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
