//! The holder of a session, as the store keeps it: a key by its digest, or a person by what the issuer said.

use gw_identity::Identity;
use gw_store::sessions::StoredSession;
use gw_store::{Limits, Role};
use gw_wire::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ABSOLUTE_SECONDS;
use crate::body::parse_team_limits;
use crate::json::LimitsObject;

/// The holder of a session.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SessionHolder {
    Key(KeyHolder),
    Person(PersonHolder),
}

/// A key. The session ends when the key ends or gets another role.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyHolder {
    /// The SHA-256 of the key.
    key_hash: String,
    role: String,
}

/// A person whom an issuer has identified.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PersonHolder {
    pub(super) issuer: String,
    name: String,
    role: String,
    team: Option<String>,
    models: Option<Vec<String>>,
    /// The limits, named as in the management API. Sessions of older versions have none and have ended.
    limits: Value,
    /// A digest of the rules that gave the role. A session of other rules has ended.
    rules: String,
}

impl SessionHolder {
    pub(super) fn of_key(hash: [u8; 32], role: Role) -> Self {
        Self::Key(KeyHolder { key_hash: hex::encode(&hash), role: role.as_str().to_owned() })
    }

    pub(super) fn of_person(identity: &Identity, rules: String) -> Self {
        Self::Person(PersonHolder {
            issuer: identity.issuer.clone(),
            name: identity.name.clone(),
            role: identity.role.as_str().to_owned(),
            team: identity.team.clone(),
            models: identity.models.clone(),
            limits: written(&identity.limits),
            rules,
        })
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl KeyHolder {
    /// The SHA-256 of the key.
    pub(super) fn hash(&self) -> Option<[u8; 32]> {
        hex::decode(&self.key_hash)?.try_into().ok()
    }

    pub(super) fn has_role(&self, role: Role) -> bool {
        self.role == role.as_str()
    }
}

impl PersonHolder {
    /// The identity. None: its issuer is no longer configured, or its rules for roles are other ones now. `rules` are today's.
    pub(super) fn identity(self, session: &StoredSession, rules: Option<&str>) -> Option<Identity> {
        if rules != Some(&*self.rules) {
            return None;
        }
        Some(Identity {
            id: session.subject.clone(),
            issuer: self.issuer,
            name: self.name,
            team: self.team,
            role: Role::parse(&self.role)?,
            models: self.models,
            limits: parse_team_limits(self.limits.to_string().as_bytes()).ok()?,
            expires_at: session.created_at.saturating_add(ABSOLUTE_SECONDS),
        })
    }
}

/// The limits as an object that [`parse_team_limits`] reads.
fn written(limits: &Limits) -> Value {
    let object = LimitsObject::new(limits, 0, 0).without_spending();
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}

#[cfg(test)]
mod tests {
    use gw_store::{Budget, OnBudget, Period, UnpricedPolicy};

    use super::*;

    fn identity(limits: Limits) -> Identity {
        Identity {
            id: "oidc-1".to_owned(),
            issuer: "https://idp.example".to_owned(),
            name: "ann".to_owned(),
            team: Some("blue".to_owned()),
            role: Role::Operator,
            models: Some(vec!["acme/*".to_owned()]),
            limits,
            expires_at: 100 + ABSOLUTE_SECONDS,
        }
    }

    #[test]
    fn a_person_keeps_role_models_and_limits_and_a_key_its_digest() {
        let budget = Some(Budget { nano: 1_500_000_000, period: Period::Week });
        let (on_budget, unpriced) = (OnBudget::Cut, UnpricedPolicy::Refuse);
        let limits =
            Limits { rpm: Some(60), burst: Some(5), budget, on_budget, unpriced, ..Limits::default() };
        for limits in [Limits::default(), limits] {
            let identity = identity(limits);
            let text = SessionHolder::of_person(&identity, "r".to_owned()).to_json();
            let session = StoredSession {
                hash: [0; 32],
                subject: "oidc-1".to_owned(),
                identity: text.clone(),
                created_at: 100,
                seen_at: 100,
            };
            let person = |text: &str| match SessionHolder::parse(text) {
                Some(SessionHolder::Person(person)) => person,
                other => panic!("{other:?}"),
            };
            assert_eq!(person(&text).identity(&session, Some("r")), Some(identity));
            assert_eq!(person(&text).identity(&session, Some("s")), None, "the rules have changed");
            assert_eq!(person(&text).identity(&session, None), None);
        }
        let key = SessionHolder::parse(&SessionHolder::of_key([7; 32], Role::Viewer).to_json());
        let Some(SessionHolder::Key(key)) = key else { panic!("{key:?}") };
        assert_eq!(
            (key.hash(), key.has_role(Role::Viewer), key.has_role(Role::Admin)),
            (Some([7; 32]), true, false)
        );
        let old = r#"{"issuer":"i","name":"n","role":"admin","team":null,"models":null,"rules":"r"}"#;
        assert_eq!(SessionHolder::parse(old), None, "it would have no limits");
    }
}
