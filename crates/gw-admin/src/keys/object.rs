//! A key as the answers show it.

use gw_engine::settings::KeySettings;
use gw_store::StoredKey;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::json::LimitsObject;
use crate::me::BindingLimit;
use crate::time::format_seconds;

/// A key of the store or of the configuration.
#[derive(Serialize)]
pub(super) struct KeyObject<'a> {
    object: &'static str,
    id: &'a str,
    name: &'a str,
    role: &'static str,
    team: Option<&'a str>,
    models: Option<&'a [String]>,
    #[serde(flatten)]
    limits: LimitsObject,
    log_payloads: bool,
    trust_attribution: bool,
    expires_at: Option<String>,
    created_at: Option<String>,
    revoked_at: Option<String>,
    metadata: Option<Box<RawValue>>,
    source: &'static str,
    rotated: Option<Rotated>,
    /// The limit of the key or its team with the smallest part left; null if there is none. Only a running gateway knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    binding_limit: Option<Option<BindingLimit>>,
    /// The secret, only in the answer to the request that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

#[derive(Serialize)]
struct Rotated {
    previous_valid_until: String,
}

impl<'a> KeyObject<'a> {
    /// Shows the secret of a key that was just created or rotated.
    pub(super) fn with_secret(self, secret: &'a str) -> Self {
        Self { key: Some(secret), ..self }
    }

    /// Shows the limit that binds the key now.
    pub(super) fn with_binding_limit(self, binding_limit: Option<Option<BindingLimit>>) -> Self {
        Self { binding_limit, ..self }
    }

    /// Leaves out the state of the budget.
    pub(super) fn without_spending(self) -> Self {
        Self { limits: self.limits.without_spending(), ..self }
    }

    /// `spent` is in femto-USD, in the current period of the budget.
    pub(super) fn of_store(key: &'a StoredKey, spent: i128, now: i64) -> Self {
        let until = key.previous.map(|(_, until)| until).filter(|until| *until > now);
        Self {
            object: "key",
            id: &key.id,
            name: &key.name,
            role: key.role.as_str(),
            team: key.team.as_deref(),
            models: key.models.as_deref(),
            limits: LimitsObject::new(&key.limits, spent, now),
            log_payloads: key.log_payloads,
            trust_attribution: key.trust_attribution,
            expires_at: key.expires_at.map(format_seconds),
            created_at: Some(format_seconds(key.created_at)),
            revoked_at: key.revoked_at.map(format_seconds),
            metadata: key.metadata.as_deref().and_then(parse_stored),
            source: "store",
            rotated: until.map(|until| Rotated { previous_valid_until: format_seconds(until) }),
            binding_limit: None,
            key: None,
        }
    }

    /// `spent` is in femto-USD, in the current period of the budget.
    pub(super) fn of_configuration(id: &'a str, key: &'a KeySettings, spent: i128, now: i64) -> Self {
        Self {
            object: "key",
            id,
            name: &key.name,
            role: key.role.as_str(),
            team: None,
            models: key.models.as_deref(),
            limits: LimitsObject::new(&key.limits, spent, now),
            log_payloads: key.log_payloads,
            trust_attribution: key.trust_attribution,
            expires_at: key.expires_at.map(format_seconds),
            created_at: None,
            revoked_at: None,
            metadata: None,
            source: "config",
            rotated: None,
            binding_limit: None,
            key: None,
        }
    }
}

/// The stored metadata; `None` if it is not valid JSON.
fn parse_stored(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}
