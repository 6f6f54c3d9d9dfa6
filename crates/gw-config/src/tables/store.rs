//! `[store]`.

use gw_engine::payloads::{Masks, PayloadSettings};
use gw_store::{StoredKey, Team};
use gw_wire::hex::decode;
use secrecy::ExposeSecret;

use super::super::binding::{Change, Form, field, list, texts};
use super::super::formats::{JSON_OBJECT, KEY_HASH, KEY_ID, LINE, STORE_URL, TEAM_ID};
use super::super::schema::{Kind, Section, Word, key, required_setting, setting, setting_or};
use super::super::settings::StoreSettings;
use super::super::tree::Checked;
use super::keys::{BUDGET_PERIOD, BUDGET_USD, BURST, MAX_IN_FLIGHT, ON_BUDGET, RPM, TPM, UNPRICED};

/// The data that is masked, as a list of words.
const MASKED: Form<Masks> = Form {
    read: |value| {
        let words = texts(value)?;
        let has = |word: &str| words.iter().any(|known| known == word);
        Some(Masks { email: has("email"), phone: has("phone"), card: has("card"), secret: has("secret") })
    },
    write: |masks| {
        let all =
            [("email", masks.email), ("phone", masks.phone), ("card", masks.card), ("secret", masks.secret)];
        let words = all.into_iter().filter(|(_, is_masked)| *is_masked).map(|(word, _)| word.to_owned());
        list(&words.collect::<Vec<_>>())
    },
};

/// A SHA-256 as 64 hexadecimal digits, which the schema has checked. It is never written.
const HASH: Form<[u8; 32]> = Form {
    read: |value| {
        let Checked::Secret(digits) = value else { return None };
        decode(digits.expose_secret())?.try_into().ok()
    },
    write: |_| String::new(),
};

pub(super) static STORE: Section = Section {
    doc: "The store of keys, usage and the request log.",
    keys: &[
        setting_or(
            "url",
            Kind::Secret(&STORE_URL),
            field!(StoreSettings, url, Form::OPTIONAL_SECRET),
            "`gateway.db` in the data directory",
            "`sqlite:///path` with the absolute path of a file, or `postgres://user:password@host/database` for several replicas.",
        ),
        setting(
            "start_timeout_seconds",
            Kind::Int { min: 0, max: 86_400 },
            field!(StoreSettings, start_timeout, Form::SECONDS),
            "How long a start waits for a PostgreSQL server that cannot be reached.",
        ),
        setting(
            "retention_days",
            Kind::Int { min: 0, max: 36_500 },
            field!(StoreSettings, retention_days, Form::INT_OR_NONE),
            "How long rows of the request log are kept. 0 = for ever. The sums of usage are always kept.",
        ),
        setting(
            "max_log_mib",
            Kind::Int { min: 0, max: 1_000_000_000 },
            field!(StoreSettings, max_log_mib, Form::INT_OR_NONE),
            "The most MiB that the rows of the request log and the stored payloads may take. The oldest go first, each minute. 0 = no limit. The sums of usage stay.",
        ),
        setting(
            "progress_tokens",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(StoreSettings, progress_tokens, Form::INT),
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
        required_setting(
            "id",
            Kind::Text(&KEY_ID),
            field!(StoredKey, id, Form::TEXT),
            "The id: the first 12 characters of the key.",
        ),
        required_setting(
            "name",
            Kind::Text(&LINE),
            field!(StoredKey, name, Form::TEXT),
            "The name shown in lists and reports.",
        ),
        required_setting(
            "key_hash",
            Kind::Secret(&KEY_HASH),
            field!(StoredKey, hash, HASH),
            "The SHA-256 of the key.",
        ),
        setting(
            "role",
            Kind::Choice(&[("inference", &[]), ("viewer", &[]), ("operator", &[]), ("admin", &[])]),
            field!(StoredKey, role, Form::ROLE),
            "The role of the key.",
        ),
        setting(
            "team",
            Kind::Text(&TEAM_ID),
            field!(StoredKey, team, Form::OPTIONAL_TEXT),
            "The team, which must be in `[[store.teams]]`.",
        ),
        setting_or(
            "models",
            LINES,
            field!(StoredKey, models, Form::OPTIONAL_TEXTS),
            "all",
            "The models that the key may use.",
        ),
        RPM,
        BURST,
        TPM,
        MAX_IN_FLIGHT,
        BUDGET_USD,
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        setting(
            "log_payloads",
            Kind::Bool,
            field!(StoredKey, log_payloads, Form::BOOL),
            "Whether the texts of its requests and answers are stored.",
        ),
        setting(
            "trust_attribution",
            Kind::Bool,
            field!(StoredKey, trust_attribution, Form::BOOL),
            "Whether the gateway believes the end user and the tags that its requests name. Leave it off for keys that the end users hold themselves.",
        ),
        setting_or(
            "created_at",
            Kind::Time,
            field!(StoredKey, created_at, Form::TIME),
            "the start of 1970",
            "The time at which the key was created.",
        ),
        setting_or(
            "expires_at",
            Kind::Time,
            field!(StoredKey, expires_at, Form::OPTIONAL_TIME),
            "never",
            "The time at which the key expires.",
        ),
        setting(
            "revoked_at",
            Kind::Time,
            field!(StoredKey, revoked_at, Form::OPTIONAL_TIME),
            "The time since which the key is refused.",
        ),
        setting(
            "metadata",
            Kind::Text(&JSON_OBJECT),
            field!(StoredKey, metadata, Form::OPTIONAL_TEXT),
            "The metadata of the key, as JSON.",
        ),
        setting(
            "previous_key_hash",
            Kind::Secret(&KEY_HASH),
            &Change {
                form: HASH,
                apply: |key: &mut StoredKey, hash| key.previous = Some((hash, i64::MIN)),
                default: |_| None,
            },
            "The SHA-256 of the secret before a rotation.",
        ),
        setting(
            "previous_valid_until",
            Kind::Time,
            &Change {
                form: Form::TIME,
                apply: |key: &mut StoredKey, until| {
                    if let Some((_, end)) = &mut key.previous {
                        *end = until;
                    }
                },
                default: |_| None,
            },
            "The time until which this secret is accepted.",
        ),
    ],
};

static STORED_TEAM: Section = Section {
    doc: "Teams as `export` writes them: `[[store.teams]]`. The store gets a team at the start if it has none with this id.",
    keys: &[
        required_setting("id", Kind::Text(&TEAM_ID), field!(Team, id, Form::TEXT), "The name of the team."),
        RPM,
        BURST,
        TPM,
        MAX_IN_FLIGHT,
        BUDGET_USD,
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        setting_or(
            "created_at",
            Kind::Time,
            field!(Team, created_at, Form::TIME),
            "the start of 1970",
            "The time at which the team was created.",
        ),
    ],
};

static PAYLOADS: Section = Section {
    doc: "Payloads are the texts of requests and answers. They are stored only for keys with `log_payloads = true`. Images, sound \
          and files in them are always replaced by their size.",
    keys: &[
        setting(
            "redact",
            Kind::List { of: &Kind::Choice(&MASKS), min: 0 },
            field!(PayloadSettings, masks, MASKED),
            "The data that is masked before a payload is stored. It is recognised by its form. `[]` = none.",
        ),
        setting(
            "retention_days",
            Kind::Int { min: 1, max: 36_500 },
            field!(PayloadSettings, retention_days, Form::INT),
            "How long payloads are kept, but never longer than the row of their request.",
        ),
        setting(
            "max_kib",
            Kind::Int { min: 1, max: 4096 },
            field!(PayloadSettings, most, Form::KIB),
            "The stored size of each body in KiB. A longer body is cut and marked as cut.",
        ),
    ],
};

const MASKS: [Word; 4] = [("email", &[]), ("phone", &[]), ("card", &[]), ("secret", &[])];
