//! The entries that were made over the API, with their secrets.

use std::collections::BTreeMap;

use gw_providers::seal::{SecretError, SecretSealer};
use gw_store::Store;
use gw_store::configuration::SealedSecret;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{AcceptedMembers, Leaf, visit_section};

/// The member that stands for a stored secret.
const SECRET_MEMBER: &str = "$secret";
/// The text that stands for a secret in answers.
pub const MASKED: &str = "***";

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlayEntry {
    /// The section.
    pub section: String,
    /// The name. Empty: the section is one table.
    pub name: String,
    /// The value. A secret in it is `{"$secret": id}`.
    pub value: Value,
    /// The number of the change that made it.
    pub version: i64,
}

/// All entries of one moment.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The entries, by section and name.
    pub entries: Vec<OverlayEntry>,
    /// The secrets of the entries, by their ids.
    pub secrets: BTreeMap<String, SecretString>,
    /// The number of the last change.
    pub version: i64,
}

/// The reason why the entries cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] gw_store::Error),
    /// A value is not JSON.
    #[error("the stored configuration of {0} is damaged")]
    Damaged(String),
    /// A secret does not open.
    #[error(
        "a secret of the stored configuration of {place} cannot be read: {fault}; start with the encryption key that \
         sealed it (MODEL_GATEWAY_ENCRYPTION_KEY, or MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY during a rotation)"
    )]
    Secret {
        /// The entry.
        place: String,
        /// The fault.
        fault: SecretError,
    },
}

/// Reads all entries and opens their secrets. Secrets that the previous encryption key sealed are sealed again.
///
/// # Errors
/// The store fails, or an entry is damaged.
pub async fn load(store: &Store, sealer: &SecretSealer) -> Result<Overlay, OverlayError> {
    // The version is read first. An entry that is newer than the version only makes a change fail and be tried again.
    let version = store.configuration_version().await?;
    let rows = store.configuration().await?;
    let sealed: BTreeMap<String, String> = if rows.is_empty() {
        BTreeMap::new()
    } else {
        store.configuration_secrets().await?.into_iter().map(|row| (row.id, row.sealed)).collect()
    };
    let mut overlay = Overlay { version, ..Overlay::default() };
    for row in rows {
        let place = place(&row.section, &row.name);
        let value: Value =
            serde_json::from_str(&row.value).map_err(|_| OverlayError::Damaged(place.clone()))?;
        for id in secret_ids(&row.section, &value) {
            let unopenable = |fault| OverlayError::Secret { place: place.clone(), fault };
            let text = sealed.get(&id).ok_or_else(|| unopenable(SecretError::Unopenable))?;
            let (secret, _) = sealer.open(&id, text).map_err(unopenable)?;
            overlay.secrets.insert(id, secret);
        }
        overlay.entries.push(OverlayEntry {
            section: row.section,
            name: row.name,
            value,
            version: row.version,
        });
    }
    Ok(overlay)
}

/// Seals the secrets of the store again that the previous encryption key sealed. Returns how many.
///
/// # Errors
/// The store fails. A secret that does not open stays as it is.
pub async fn reseal(store: &Store, sealer: &SecretSealer) -> Result<usize, gw_store::Error> {
    let mut changed: Vec<(SealedSecret, String)> = Vec::new();
    for row in store.configuration_secrets().await? {
        let Ok((secret, true)) = sealer.open(&row.id, &row.sealed) else { continue };
        if let Ok(sealed) = sealer.seal(&row.id, &secret) {
            changed.push((row, sealed));
        }
    }
    if !changed.is_empty() {
        store.replace_configuration_secrets(&changed).await?;
    }
    Ok(changed.len())
}

impl Overlay {
    /// The entry of this name.
    #[must_use]
    pub fn entry(&self, section: &str, name: &str) -> Option<&OverlayEntry> {
        self.entries.iter().find(|entry| entry.section == section && entry.name == name)
    }

    /// The names in `allow_members` of the providers. They were accepted when they were stored.
    #[must_use]
    pub fn accepted_members(&self) -> AcceptedMembers {
        let providers = self.entries.iter().filter(|entry| entry.section == "providers");
        let names = providers.flat_map(|entry| {
            let members = entry.value.get("allow_members").and_then(Value::as_array).into_iter().flatten();
            members.filter_map(Value::as_str).map(|member| (entry.name.clone(), member.to_owned()))
        });
        names.collect()
    }

    /// These entries with one entry changed. None removes it.
    #[must_use]
    pub fn with(&self, section: &str, name: &str, value: Option<Value>) -> Self {
        let mut changed = self.clone();
        changed.entries.retain(|entry| (entry.section.as_str(), entry.name.as_str()) != (section, name));
        if let Some(value) = value {
            let (section, name) = (section.to_owned(), name.to_owned());
            changed.entries.push(OverlayEntry { section, name, value, version: self.version + 1 });
        }
        changed
    }
}

/// A section and a name in words.
#[must_use]
pub fn place(section: &str, name: &str) -> String {
    if name.is_empty() { section.to_owned() } else { format!("{section}/{name}") }
}

/// A reference to a stored secret.
#[must_use]
pub fn secret_reference(id: &str) -> Value {
    json!({ SECRET_MEMBER: id })
}

/// The id of a stored secret, if this is a reference to one.
#[must_use]
pub fn secret_id(value: &Value) -> Option<&str> {
    value.get(SECRET_MEMBER)?.as_str()
}

fn secret_ids(section: &str, value: &Value) -> Vec<String> {
    let (mut copy, mut ids) = (value.clone(), Vec::new());
    visit_section(section, &mut copy, &mut |_, leaf, value| {
        if leaf == Leaf::Secret {
            ids.extend(secret_id(value).map(str::to_owned));
        }
    });
    ids
}

/// The value with its secrets masked.
#[must_use]
pub fn masked(section: &str, mut value: Value) -> Value {
    visit_section(section, &mut value, &mut |_, leaf, value| {
        if leaf == Leaf::Secret && !value.is_null() {
            *value = MASKED.into();
        }
    });
    value
}
