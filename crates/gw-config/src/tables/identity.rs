//! `[identity]` and `[[identity.issuers]]`.

use super::super::formats::{BASE_URL, CREDENTIAL, LABEL, NAMED_ORIGIN, WORD};
use super::super::schema::{Kind, Section, key, required};
use super::keys::{BUDGET_PERIOD, ON_BUDGET, UNPRICED};

const WORDS: Kind = Kind::List { of: &Kind::Text(&WORD), min: 1 };
const LABELS: Kind = Kind::List { of: &Kind::Text(&LABEL), min: 1 };

pub(super) static IDENTITY: Section = Section {
    doc: "People and programs that other systems identify (docs/identity.md).",
    keys: &[
        key(
            "public_url",
            Kind::Text(&NAMED_ORIGIN),
            "none",
            "The address at which browsers reach the gateway's management API, such as `https://gateway.example`. The sign-in needs it.",
        ),
        key("issuers", Kind::Tables(&ISSUER), "", ""),
    ],
};

static ISSUER: Section = Section {
    doc: "An OpenID Connect issuer. Its signed tokens are accepted in the place of a gateway key.",
    keys: &[
        required(
            "issuer",
            Kind::Text(&BASE_URL),
            "The issuer's URL, exactly as its tokens name it: https, or http on this machine.",
        ),
        required("audiences", WORDS, "The accepted audiences of tokens (`aud`)."),
        key(
            "jwks_file",
            Kind::Path,
            "by discovery",
            "A file with the issuer's public keys (a JWK set). Without it the gateway fetches them from the issuer.",
        ),
        key(
            "algorithms",
            Kind::List { of: &Kind::Choice(ALGORITHMS), min: 1 },
            "[\"RS256\", \"PS256\", \"ES256\", \"EdDSA\"]",
            "The accepted signature algorithms.",
        ),
        key(
            "name_claim",
            Kind::Text(&WORD),
            "\"preferred_username\"",
            "The claim with the name for logs and reports; else `email`, else `sub`.",
        ),
        key(
            "team_claim",
            Kind::Text(&WORD),
            "none",
            "The claim with the team. A token with a team that does not exist is refused.",
        ),
        key("team", Kind::Text(&LABEL), "none", "The team of identities without the team's claim."),
        key(
            "role_claim",
            Kind::Text(&WORD),
            "none",
            "The claim with the roles at the issuer: a list, or words in one text. A dot leads into an object: `realm_access.roles`.",
        ),
        key("roles", Kind::Table(&ROLES), "", ""),
        key(
            "default_role",
            Kind::Choice(&[
                ("none", &[]),
                ("inference", &[]),
                ("viewer", &[]),
                ("operator", &[]),
                ("admin", &[]),
            ]),
            "\"none\"",
            "The role of identities without one of `roles`. `none` refuses them.",
        ),
        key(
            "models_claim",
            Kind::Text(&WORD),
            "none",
            "The claim with the allowed models, as `models` of a key. Without the claim all models are allowed.",
        ),
        key(
            "limits_claim",
            Kind::Text(&WORD),
            "none",
            "The claim with limits: an object with `rpm`, `burst`, `tpm`, `max_in_flight`, `budget_usd` and `budget_period`. They replace those of this table.",
        ),
        key(
            "rpm",
            Kind::Int { min: 1, max: 10_000_000 },
            "no limit",
            "As `rpm` of a key, for each identity.",
        ),
        key(
            "burst",
            Kind::Int { min: 1, max: 10_000_000 },
            "all of `rpm`",
            "As `burst` of a key, for each identity.",
        ),
        key(
            "tpm",
            Kind::Int { min: 1, max: 1_000_000_000_000 },
            "no limit",
            "As `tpm` of a key, for each identity.",
        ),
        key(
            "max_in_flight",
            Kind::Int { min: 1, max: 1_000_000 },
            "no limit",
            "As `max_in_flight` of a key, for each identity.",
        ),
        key("budget_usd", Kind::Price, "no limit", "As `budget_usd` of a key, for each identity."),
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        key(
            "client_id",
            Kind::Text(&WORD),
            "none",
            "The gateway's client id at the issuer. With it, browsers can sign in at `/auth/login`.",
        ),
        key(
            "client_secret",
            Kind::Secret(&CREDENTIAL),
            "none: a public client",
            "The gateway's client secret at the issuer.",
        ),
        key(
            "scopes",
            WORDS,
            "[\"profile\", \"email\"]",
            "The scopes that the sign-in asks for beside `openid`.",
        ),
    ],
};

static ROLES: Section = Section {
    doc: "The roles at the issuer that give a role here. The role with the most rights counts.",
    keys: &[
        key("admin", LABELS, "none", "Roles at the issuer that give the role `admin`."),
        key("operator", LABELS, "none", "Roles at the issuer that give the role `operator`."),
        key("viewer", LABELS, "none", "Roles at the issuer that give the role `viewer`."),
        key("inference", LABELS, "none", "Roles at the issuer that give the role `inference`."),
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
