//! The identity that the claims of a token give: name, team, role, models and limits.

use gw_store::Role;
use gw_store::limits::{Budget, Limits, Period};
use gw_wire::hex;
use gw_wire::money::Price;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::settings::IssuerSettings;
use crate::token::{Claims, TokenError, expires_at};

/// The longest name, team or model of a claim, in characters.
const MAX_CLAIM_CHARS: usize = 200;
/// The longest subject, in bytes.
const MAX_SUBJECT_BYTES: usize = 1_000;
/// The most models of a claim.
const MAX_MODELS: usize = 1_000;

/// A person or a program that an issuer has identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `oidc-` and 24 hexadecimal digits of the SHA-256 of the issuer and the subject. It stays the same in every token.
    pub id: String,
    /// The issuer.
    pub issuer: String,
    /// The name for logs and reports.
    pub name: String,
    /// The team.
    pub team: Option<String>,
    /// The role.
    pub role: Role,
    /// The allowed models; None = all.
    pub models: Option<Vec<String>>,
    /// The limits.
    pub limits: Limits,
    /// The unix second at which the token expires.
    pub expires_at: i64,
}

impl Identity {
    /// Reads the identity of verified claims.
    ///
    /// # Errors
    /// A claim is missing or has a wrong form, or the claims give no role.
    pub(crate) fn of_claims(claims: &Claims, settings: &IssuerSettings) -> Result<Self, TokenError> {
        let subject = claims.get("sub").and_then(Value::as_str);
        let subject = subject.filter(|text| !text.is_empty() && text.len() <= MAX_SUBJECT_BYTES);
        let subject = subject.ok_or(TokenError::Claims)?;
        let names = &settings.claims;
        let named =
            [names.name.as_str(), "email", "sub"].into_iter().find_map(|name| line(find(claims, name)?));
        let team = match names.team.as_deref().and_then(|name| find(claims, name)) {
            None | Some(Value::Null) => settings.team.clone(),
            Some(team) => Some(line(team).ok_or(TokenError::Claims)?),
        };
        let models = match names.models.as_deref().and_then(|name| find(claims, name)) {
            None => None,
            // No model list means all models, so an empty claim must not pass for a missing one.
            Some(models) => {
                Some(words(models).filter(|models| models.len() <= MAX_MODELS).ok_or(TokenError::Claims)?)
            }
        };
        let limits = match names.limits.as_deref().and_then(|name| find(claims, name)) {
            None | Some(Value::Null) => settings.limits,
            Some(limits) => claimed_limits(limits, settings.limits).ok_or(TokenError::Claims)?,
        };
        Ok(Self {
            id: identity_id(&settings.issuer, subject),
            issuer: settings.issuer.clone(),
            name: named.unwrap_or_else(|| subject.chars().take(MAX_CLAIM_CHARS).collect()),
            team,
            role: role(claims, settings)?,
            models,
            limits,
            expires_at: expires_at(claims).ok_or(TokenError::Claims)?,
        })
    }
}

/// The id of a subject of an issuer.
fn identity_id(issuer: &str, subject: &str) -> String {
    let mut digest = Sha256::new();
    digest.update((issuer.len() as u64).to_be_bytes());
    digest.update(issuer);
    digest.update(subject);
    let mut id = hex::encode(&digest.finalize());
    id.truncate(24);
    format!("oidc-{id}")
}

/// The role with the most rights that the claims give.
fn role(claims: &Claims, settings: &IssuerSettings) -> Result<Role, TokenError> {
    let claimed = settings.claims.role.as_deref().and_then(|name| find(claims, name));
    let claimed = claimed.and_then(words).unwrap_or_default();
    let given = settings.roles.iter().filter(|(_, names)| names.iter().any(|name| claimed.contains(name)));
    let best =
        given.map(|(role, _)| *role).reduce(|one, other| if other.includes(one) { other } else { one });
    best.or(settings.default_role).ok_or(TokenError::NoRole)
}

/// A claim by the names of the objects around it, or by its whole name. The nested claim counts first: an issuer writes it
/// itself, and a person may be able to add a claim of any name.
fn find<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    let nested = || {
        let (first, rest) = name.split_once('.')?;
        find(claims.get(first)?.as_object()?, rest)
    };
    nested().or_else(|| claims.get(name))
}

/// A text on one line.
fn line(value: &Value) -> Option<String> {
    let text = value.as_str().map(str::trim).filter(|text| !text.is_empty())?;
    let is_short = text.chars().count() <= MAX_CLAIM_CHARS && !text.chars().any(char::is_control);
    is_short.then(|| text.to_owned())
}

/// A list of texts, or the words of one text.
fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
        Value::Array(items) => items.iter().map(line).collect(),
        _ => None,
    }
}

/// The limits of a claim over those of the configuration. None: the claim has a member that cannot be read.
fn claimed_limits(claim: &Value, configured: Limits) -> Option<Limits> {
    let mut limits = configured;
    let small =
        |value: &Value| value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
    let period = |value: Option<&Value>| match value {
        None => Some(Period::default()),
        Some(value) => value.as_str().and_then(Period::parse),
    };
    for (name, value) in claim.as_object()? {
        match name.as_str() {
            "rpm" => limits.rpm = Some(small(value)?),
            "burst" => limits.burst = Some(small(value)?),
            "tpm" => limits.tpm = Some(value.as_u64().filter(|count| *count > 0)?),
            "max_in_flight" => limits.max_in_flight = Some(small(value)?),
            "budget_usd" => {
                let digits = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let nano = Price::parse(&digits).ok()?.nanos();
                limits.budget = Some(Budget { nano, period: period(claim.get("budget_period"))? });
            }
            "budget_period" => _ = period(Some(value))?,
            _ => return None,
        }
    }
    Some(limits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::{ClaimNames, KeySource};

    fn settings() -> IssuerSettings {
        IssuerSettings {
            issuer: "https://i".to_owned(),
            audiences: vec!["gw".to_owned()],
            keys: KeySource::Discovery,
            algorithms: Vec::new(),
            claims: ClaimNames {
                name: "preferred_username".to_owned(),
                team: Some("org.team".to_owned()),
                role: Some("https://x/roles".to_owned()),
                models: Some("models".to_owned()),
                limits: Some("limits".to_owned()),
            },
            roles: vec![
                (Role::Admin, vec!["root".to_owned()]),
                (Role::Viewer, vec!["staff".to_owned(), "guest".to_owned()]),
            ],
            default_role: Some(Role::Inference),
            team: Some("everyone".to_owned()),
            limits: Limits { rpm: Some(9), ..Limits::default() },
            login: None,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test writes values")]
    fn identity(more: Value) -> Result<Identity, TokenError> {
        let mut claims = json!({ "sub": "a", "exp": 5 });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Identity::of_claims(claims.as_object().unwrap(), &settings())
    }

    #[test]
    fn claims_give_the_name_the_team_the_role_the_models_and_the_limits() {
        let plain = identity(json!({})).unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.team.as_deref(), plain.role),
            ("a", Some("everyone"), Role::Inference)
        );
        assert_eq!((plain.models, plain.limits.rpm, plain.expires_at), (None, Some(9), 5));
        assert!(plain.id.starts_with("oidc-") && plain.id.len() == 29, "{}", plain.id);
        let full = identity(json!({ "preferred_username": "ann", "org": { "team": "blue" }, "https://x/roles": ["guest", "root"],
            "models": "acme/* beta/fast", "limits": { "tpm": 7, "budget_usd": "0.5", "budget_period": "day" } }))
        .unwrap();
        assert_eq!((full.name.as_str(), full.team.as_deref(), full.role), ("ann", Some("blue"), Role::Admin));
        assert_eq!(full.models.unwrap(), ["acme/*", "beta/fast"]);
        let budget = Budget { nano: 500_000_000, period: Period::Day };
        assert_eq!((full.limits.rpm, full.limits.tpm, full.limits.budget), (Some(9), Some(7), Some(budget)));
        assert_eq!(full.id, plain.id, "the id is the subject's");
        assert_eq!(identity(json!({ "https://x/roles": "staff other" })).unwrap().role, Role::Viewer);
        assert_ne!(identity(json!({ "sub": "b" })).unwrap().id, plain.id);
    }

    #[test]
    fn a_nested_claim_counts_before_a_literal_one() {
        for (more, team) in [
            (json!({ "org": { "team": "blue" }, "org.team": "red" }), "blue"),
            (json!({ "org.team": "red" }), "red"),
            (json!({ "org": { "name": "x" }, "org.team": "red" }), "red"),
            (json!({ "org": "x", "org.team": "red" }), "red"),
        ] {
            assert_eq!(identity(more.clone()).unwrap().team.as_deref(), Some(team), "{more}");
        }
        let mut settings = settings();
        settings.claims.role = Some("realm_access.roles".to_owned());
        let claims = json!({ "sub": "a", "exp": 5, "realm_access": { "roles": ["staff"] },
            "realm_access.roles": ["root"] });
        let identity = Identity::of_claims(claims.as_object().unwrap(), &settings).unwrap();
        assert_eq!(identity.role, Role::Viewer);
    }

    #[test]
    fn claims_that_cannot_be_read_are_refused_and_not_ignored() {
        for more in [
            json!({ "sub": "" }),
            json!({ "sub": 7 }),
            json!({ "exp": null }),
            json!({ "org": { "team": ["blue"] } }),
            json!({ "models": { "a": 1 } }),
            json!({ "models": null }),
            json!({ "models": ["acme/*", null] }),
            json!({ "limits": [] }),
            json!({ "limits": { "rpm": 0 } }),
            json!({ "limits": { "rpm": -1 } }),
            json!({ "limits": { "rps": 5 } }),
            json!({ "limits": { "budget_usd": -1 } }),
            json!({ "limits": { "budget_usd": 1, "budget_period": "year" } }),
        ] {
            assert_eq!(identity(more.clone()), Err(TokenError::Claims), "{more}");
        }
        let strict = IssuerSettings { default_role: None, ..settings() };
        let claims = json!({ "sub": "a", "exp": 5 });
        assert_eq!(Identity::of_claims(claims.as_object().unwrap(), &strict), Err(TokenError::NoRole));
    }
}
