//! The bodies of the management API: every member is known, every value is in its range, and null differs from absent.

mod fields;
mod limits;

use gw_engine::error::{Error, Kind};
use gw_store::limits::Limits;
use gw_store::{Role, StoredKey};
use gw_wire::request::fields::{Path, clip, integer, missing};
use gw_wire::request::{Invalid, parse_members};

pub(crate) use self::fields::boolean;
use self::fields::{Patch, line, metadata, models, nullable, role, timestamp};
use self::limits::{LIMIT_MEMBERS, LimitChanges};
use crate::error::AdminError;
use crate::ids::MAX_TEAM_ID_CHARS;

/// Maximum length of a key's name, in characters.
const MAX_KEY_NAME_CHARS: usize = 200;
/// The longest grace time of a rotation: a week.
const MAX_GRACE_SECONDS: i64 = 604_800;
/// The grace time of a rotation whose body has no `grace_seconds`.
const DEFAULT_GRACE_SECONDS: i64 = 3600;

/// The members of a key's body other than limits.
const KEY_MEMBERS: [&str; 8] =
    ["name", "role", "team", "models", "log_payloads", "trust_attribution", "expires_at", "metadata"];

/// The body of a new key, or the changes of a key.
#[derive(Debug, Default)]
pub(crate) struct KeyChanges {
    name: Option<String>,
    role: Option<Role>,
    /// The team's id.
    pub(crate) team: Patch<String>,
    models: Patch<Vec<String>>,
    limits: LimitChanges,
    log_payloads: Patch<bool>,
    trust_attribution: Patch<bool>,
    /// Unix seconds.
    pub(crate) expires_at: Patch<i64>,
    /// The text of a JSON object.
    metadata: Patch<String>,
}

impl KeyChanges {
    /// Reads a body.
    ///
    /// # Errors
    /// The first error in the body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, AdminError> {
        let mut changes = Self::default();
        for (name, value) in parse_members(body)? {
            let path = &Path::Top(&name);
            match &*name {
                "name" => changes.name = Some(line(path, value, MAX_KEY_NAME_CHARS)?),
                "role" => changes.role = Some(role(path, value)?),
                "team" => changes.team = nullable(value, |value| line(path, value, MAX_TEAM_ID_CHARS))?,
                "models" => changes.models = nullable(value, |value| models(path, value))?,
                "log_payloads" => changes.log_payloads = nullable(value, |value| boolean(path, value))?,
                "trust_attribution" => {
                    changes.trust_attribution = nullable(value, |value| boolean(path, value))?;
                }
                "expires_at" => changes.expires_at = nullable(value, |value| timestamp(path, value))?,
                "metadata" => changes.metadata = nullable(value, |value| metadata(path, value))?,
                _ if changes.limits.read(&name, value)? => {}
                _ => return Err(unknown_member(&name, &[&KEY_MEMBERS[..], &LIMIT_MEMBERS].concat()).into()),
            }
        }
        Ok(changes)
    }

    /// The name, which a new key must have.
    ///
    /// # Errors
    /// `missing_required_parameter`.
    pub(crate) fn required_name(&self) -> Result<&str, Invalid> {
        self.name.as_deref().ok_or_else(|| missing(&Path::Top("name")))
    }

    /// Changes the key. A member that is null gets the value of a new key.
    ///
    /// # Errors
    /// `invalid_value` for a limit that requires another one; the key is unchanged then.
    pub(crate) fn apply(&self, key: &mut StoredKey) -> Result<(), Invalid> {
        key.limits = self.limits.apply(key.limits)?;
        if let Some(name) = &self.name {
            key.name.clone_from(name);
        }
        key.role = self.role.unwrap_or(key.role);
        key.expires_at = self.expires_at.unwrap_or(key.expires_at);
        key.log_payloads = self.log_payloads.map_or(key.log_payloads, Option::unwrap_or_default);
        let trusts = self.trust_attribution;
        key.trust_attribution = trusts.map_or(key.trust_attribution, Option::unwrap_or_default);
        for (field, change) in [(&mut key.team, &self.team), (&mut key.metadata, &self.metadata)] {
            if let Some(change) = change {
                field.clone_from(change);
            }
        }
        if let Some(models) = &self.models {
            key.models.clone_from(models);
        }
        Ok(())
    }
}

/// Reads the body of a team, which may be empty.
///
/// # Errors
/// The first error in the body.
pub(crate) fn parse_team_limits(body: &[u8]) -> Result<Limits, AdminError> {
    let mut changes = LimitChanges::default();
    if !body.trim_ascii().is_empty() {
        for (name, value) in parse_members(body)? {
            if !changes.read(&name, value)? {
                return Err(unknown_member(&name, &LIMIT_MEMBERS).into());
            }
        }
    }
    Ok(changes.apply(Limits::default())?)
}

/// Reads the body of a rotation, which may be empty: the seconds for which the old secret stays valid.
///
/// # Errors
/// The first error in the body.
pub(crate) fn parse_grace_seconds(body: &[u8]) -> Result<i64, AdminError> {
    let mut grace_seconds = DEFAULT_GRACE_SECONDS;
    if !body.trim_ascii().is_empty() {
        for (name, value) in parse_members(body)? {
            if &*name != "grace_seconds" {
                return Err(unknown_member(&name, &["grace_seconds"]).into());
            }
            grace_seconds = integer(&Path::Top(&name), value, &(0..=MAX_GRACE_SECONDS))?;
        }
    }
    Ok(grace_seconds)
}

/// The error for a member that a body does not have.
pub(crate) fn unknown_member(name: &str, known: &[&str]) -> Error {
    let message =
        format!("Invalid '{}': there is no such field. The fields are {}.", clip(name), known.join(", "));
    Error::new(Kind::UnsupportedParameter, message)
}

#[cfg(test)]
mod tests;
