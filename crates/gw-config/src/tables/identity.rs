//! `[identity]` and `[[identity.issuers]]`.

use gw_engine::settings::{Limits, Role};
use gw_identity::{IssuerSettings, KeySource, LoginSettings, SigningAlgorithm};

use super::super::binding::{Change, Form, field, list, quoted, texts};
use super::super::formats::{BASE_URL, CREDENTIAL, LABEL, NAMED_ORIGIN, WORD};
use super::super::schema::{Kind, Section, key, required_setting, setting, setting_or};
use super::super::settings::IdentitySettings;
use super::super::tree::Checked;
use super::keys::{BUDGET_PERIOD, BUDGET_USD, MAX_IN_FLIGHT, ON_BUDGET, RPM, TPM, UNPRICED};

const WORDS: Kind = Kind::List { of: &Kind::Text(&WORD), min: 1 };
const LABELS: Kind = Kind::List { of: &Kind::Text(&LABEL), min: 1 };

/// A file with public keys.
const KEY_FILE: Form<KeySource> = Form {
    read: |value| match value {
        Checked::Path(path) => Some(KeySource::File(path.clone())),
        _ => None,
    },
    write: |_| String::new(),
};

/// A list of signature algorithms.
const SIGNATURES: Form<Vec<SigningAlgorithm>> = Form {
    read: |value| Some(texts(value)?.iter().filter_map(|name| SigningAlgorithm::parse(name)).collect()),
    write: |algorithms| {
        list(&algorithms.iter().map(|algorithm| algorithm.as_str().to_owned()).collect::<Vec<_>>())
    },
};

/// A role, or `none`.
const ROLE_OR_NONE: Form<Option<Role>> = Form {
    read: |value| Some(Role::parse(value.text()?)),
    write: |role| quoted(role.map_or("none", Role::as_str)),
};

pub(super) static IDENTITY: Section = Section {
    doc: "People and programs that other systems identify (docs/identity.md).",
    keys: &[
        setting_or(
            "public_url",
            Kind::Text(&NAMED_ORIGIN),
            field!(IdentitySettings, public_url, Form::OPTIONAL_TEXT),
            "none",
            "The address at which browsers reach the gateway's management API, such as `https://gateway.example`. The sign-in needs it.",
        ),
        key("issuers", Kind::Tables(&ISSUER), "", ""),
    ],
};

static ISSUER: Section = Section {
    doc: "An OpenID Connect issuer. Its signed tokens are accepted in the place of a gateway key.",
    keys: &[
        required_setting(
            "issuer",
            Kind::Text(&BASE_URL),
            field!(IssuerSettings, issuer, Form::TEXT),
            "The issuer's URL, exactly as its tokens name it: https, or http on this machine.",
        ),
        required_setting(
            "audiences",
            WORDS,
            field!(IssuerSettings, audiences, Form::TEXTS),
            "The accepted audiences of tokens (`aud`).",
        ),
        setting_or(
            "jwks_file",
            Kind::Path,
            field!(IssuerSettings, keys, KEY_FILE),
            "by discovery",
            "A file with the issuer's public keys (a JWK set). Without it the gateway fetches them from the issuer.",
        ),
        setting(
            "algorithms",
            Kind::List { of: &Kind::Choice(ALGORITHMS), min: 1 },
            field!(IssuerSettings, algorithms, SIGNATURES),
            "The accepted signature algorithms.",
        ),
        setting(
            "name_claim",
            Kind::Text(&WORD),
            field!(IssuerSettings, claims.name, Form::TEXT),
            "The claim with the name for logs and reports; else `email`, else `sub`.",
        ),
        setting_or(
            "team_claim",
            Kind::Text(&WORD),
            field!(IssuerSettings, claims.team, Form::OPTIONAL_TEXT),
            "none",
            "The claim with the team. A token with a team that does not exist is refused.",
        ),
        setting_or(
            "team",
            Kind::Text(&LABEL),
            field!(IssuerSettings, team, Form::OPTIONAL_TEXT),
            "none",
            "The team of identities without the team's claim.",
        ),
        setting_or(
            "role_claim",
            Kind::Text(&WORD),
            field!(IssuerSettings, claims.role, Form::OPTIONAL_TEXT),
            "none",
            "The claim with the roles at the issuer: a list, or words in one text. A dot leads into an object: `realm_access.roles`.",
        ),
        key("roles", Kind::Table(&ROLES), "", ""),
        setting(
            "default_role",
            Kind::Choice(&[
                ("none", &[]),
                ("inference", &[]),
                ("viewer", &[]),
                ("operator", &[]),
                ("admin", &[]),
            ]),
            field!(IssuerSettings, default_role, ROLE_OR_NONE),
            "The role of identities without one of `roles`. `none` refuses them.",
        ),
        setting_or(
            "models_claim",
            Kind::Text(&WORD),
            field!(IssuerSettings, claims.models, Form::OPTIONAL_TEXT),
            "none",
            "The claim with the allowed models, as `models` of a key. Without the claim all models are allowed.",
        ),
        setting_or(
            "limits_claim",
            Kind::Text(&WORD),
            field!(IssuerSettings, claims.limits, Form::OPTIONAL_TEXT),
            "none",
            "The claim with limits: an object with `rpm`, `burst`, `tpm`, `max_in_flight`, `budget_usd` and `budget_period`. They replace those of this table.",
        ),
        RPM.with_doc("As `rpm` of a key, for each identity."),
        setting_or(
            "burst",
            Kind::Int { min: 1, max: 10_000_000 },
            field!(Limits, burst, Form::OPTIONAL_INT),
            "all of `rpm`",
            "As `burst` of a key, for each identity.",
        ),
        TPM.with_doc("As `tpm` of a key, for each identity."),
        MAX_IN_FLIGHT.with_doc("As `max_in_flight` of a key, for each identity."),
        BUDGET_USD.with_doc("As `budget_usd` of a key, for each identity."),
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        setting_or(
            "client_id",
            Kind::Text(&WORD),
            field!(LoginSettings, client_id, Form::TEXT),
            "none",
            "The gateway's client id at the issuer. With it, browsers can sign in at `/auth/login`.",
        ),
        setting_or(
            "client_secret",
            Kind::Secret(&CREDENTIAL),
            field!(LoginSettings, client_secret, Form::OPTIONAL_SECRET),
            "none: a public client",
            "The gateway's client secret at the issuer.",
        ),
        setting(
            "scopes",
            WORDS,
            field!(LoginSettings, scopes, Form::TEXTS),
            "The scopes that the sign-in asks for beside `openid`.",
        ),
    ],
};

/// The row with the names of a role at the issuer. The rows stand in the order of their rights.
macro_rules! names_of {
    ($name:literal, $role:expr) => {
        setting_or(
            $name,
            LABELS,
            &Change {
                form: Form::TEXTS,
                apply: |issuer: &mut IssuerSettings, names| issuer.roles.push(($role, names)),
                default: |_| None,
            },
            "none",
            concat!("Roles at the issuer that give the role `", $name, "`."),
        )
    };
}

static ROLES: Section = Section {
    doc: "The roles at the issuer that give a role here. The role with the most rights counts.",
    keys: &[
        names_of!("admin", Role::Admin),
        names_of!("operator", Role::Operator),
        names_of!("viewer", Role::Viewer),
        names_of!("inference", Role::Inference),
    ],
};

const ALGORITHMS: &[super::super::schema::Word] = &[
    ("RS256", &[]),
    ("RS384", &[]),
    ("RS512", &[]),
    ("PS256", &[]),
    ("PS384", &[]),
    ("PS512", &[]),
    ("ES256", &[]),
    ("ES384", &[]),
    ("EdDSA", &[]),
];
