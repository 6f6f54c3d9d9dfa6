//! The bodies of changes: values without references, whose secrets go to the store encrypted.

use std::collections::BTreeMap;

use gw_engine::catalog::query::invalid;
use gw_engine::error::Error;
use gw_providers::seal::SecretSealer;
use gw_wire::request::fields::{Path, refuse_repeated_members};
use gw_wire::request::parse_members;
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::overlay::{MASKED, secret_id, secret_reference};
use crate::{Leaf, visit_section};

/// A body, with references in place of its secrets.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) value: Map<String, Value>,
    /// The new secrets by their ids.
    pub(super) secrets: BTreeMap<String, SecretString>,
}

/// Reads a body. `old` is the value before the change: a secret that is written as `***` stays the same.
///
/// # Errors
/// The body is no JSON object, or holds a reference or a path. An operator of the API must not read the files and variables of
/// the machine.
pub(super) fn read(section: &str, body: &[u8], old: Option<&Value>) -> Result<Input, Error> {
    let mut value = Value::Object(object_of(body)?);
    let kept = old.map(|old| secrets_of(section, old)).unwrap_or_default();
    let (mut secrets, mut fault) = (BTreeMap::new(), None);
    visit_section(section, &mut value, &mut |path, leaf, value| {
        if fault.is_none() {
            fault = take(path, leaf, value, &kept, &mut secrets).err();
        }
    });
    match (fault, value) {
        (None, Value::Object(value)) => Ok(Input { value, secrets }),
        (fault, _) => Err(fault.unwrap_or_else(|| invalid("invalid_type", "Invalid body.".to_owned()))),
    }
}

/// The members of a body. A duplicate is refused, because a reader of the body may see the other one.
///
/// # Errors
/// `invalid_json`, `invalid_type`.
pub(super) fn object_of(body: &[u8]) -> Result<Map<String, Value>, Error> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| invalid("invalid_json", format!("The body is not valid JSON: {error}.")))?;
    let Value::Object(value) = value else {
        return Err(invalid("invalid_type", "Invalid body: expected a JSON object.".to_owned()));
    };
    for (name, member) in parse_members(body)? {
        refuse_repeated_members(&Path::Top(&name), member)?;
    }
    Ok(value)
}

/// Checks one string. A new secret is replaced by a reference.
fn take(
    path: &str,
    leaf: Leaf,
    value: &mut Value,
    kept: &BTreeMap<String, String>,
    secrets: &mut BTreeMap<String, SecretString>,
) -> Result<(), Error> {
    let refuse = |what: &str| Err(invalid("invalid_value", format!("Invalid '{path}': {what}")));
    match (leaf, &*value) {
        (_, Value::Null) => Ok(()),
        (Leaf::Path, _) => refuse("a path can only be set in the configuration file."),
        // `$${` stands for `${` in a text.
        (Leaf::Secret | Leaf::Text, Value::String(text)) if text.replace("$${", "").contains("${") => {
            refuse("a reference '${…}' can only be set in the configuration file; write the value itself.")
        }
        (Leaf::Secret, Value::String(text)) if text == MASKED => match kept.get(path) {
            Some(id) => {
                *value = secret_reference(id);
                Ok(())
            }
            None => refuse("'***' stands for a secret that is stored, and none is stored here."),
        },
        (Leaf::Secret, Value::String(text)) => {
            let secret = SecretString::from(text.as_str());
            let id = SecretSealer::new_row().map_err(|error| {
                Error::new(
                    gw_engine::error::Kind::InternalError,
                    format!("The secret was not stored: {error}."),
                )
            })?;
            *value = secret_reference(&id);
            secrets.insert(id, secret);
            Ok(())
        }
        (Leaf::Secret, _) => refuse("expected a string; a file can only be named in the configuration file."),
        _ => Ok(()),
    }
}

/// The ids of the secrets in a value, by their paths.
fn secrets_of(section: &str, value: &Value) -> BTreeMap<String, String> {
    let (mut copy, mut found) = (value.clone(), BTreeMap::new());
    visit_section(section, &mut copy, &mut |path, leaf, value| {
        if let Some(id) = secret_id(value).filter(|_| leaf == Leaf::Secret) {
            found.insert(path.to_owned(), id.to_owned());
        }
    });
    found
}

/// The members of an entry that decide the address to which its secrets are sent. A provider without a `base_url` has the address of
/// its `api`.
const ADDRESS_MEMBERS: [&str; 4] = ["base_url", "authority", "url", "api"];
/// A secret that signs messages. It is sent to nobody.
const SIGNING_SECRET: (&str, &str) = ("alerts", "secret");

/// Refuses a change that would send a stored secret to another address. Nobody can read a stored secret over the API, so
/// nobody may collect it with a server of their own either.
///
/// # Errors
/// An address changes, and a stored secret stays.
pub(super) fn refuse_moved_secrets(section: &str, before: &Value, after: &Value) -> Result<(), Error> {
    let has_address = after.get("base_url").is_some_and(Value::is_string);
    let decides = |name: &&str| *name != "api" || !has_address;
    let mut members = ADDRESS_MEMBERS.into_iter().filter(decides);
    let Some(changed) = members.find(|name| before.get(*name) != after.get(*name)) else {
        return Ok(());
    };
    let (known, kept) = (secrets_of(section, before), secrets_of(section, after));
    let is_moved = |(path, id): &(&String, &String)| {
        known.values().any(|of| of == *id) && (section, path.as_str()) != SIGNING_SECRET
    };
    let Some(path) = kept.iter().find(is_moved).map(|(path, _)| path) else { return Ok(()) };
    let message = format!(
        "Invalid '{changed}': a stored secret is sent only to the address that it was stored with. Write '{path}' again in \
         this change."
    );
    Err(invalid("invalid_value", message))
}

/// Refuses null as the value of a preset's parameter: a file has no null, so it would have no effect.
///
/// # Errors
/// A parameter is null.
pub(super) fn refuse_null_parameters(section: &str, value: &Map<String, Value>) -> Result<(), Error> {
    for list in ["defaults", "overrides"] {
        let Some(Value::Object(parameters)) = value.get(list).filter(|_| section == "aliases") else {
            continue;
        };
        if let Some((name, _)) = parameters.iter().find(|(_, value)| value.is_null()) {
            let message =
                format!("Invalid '{list}.{name}': null is no value. 'strip' takes a parameter out.");
            return Err(invalid("invalid_value", message));
        }
    }
    Ok(())
}

/// Applies a merge patch (RFC 7396).
pub(super) fn merge_patch(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => _ = target.remove(&name),
            Value::Object(members) if secret_id(&Value::Object(members.clone())).is_none() => {
                let below = target.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if !below.is_object() {
                    *below = Value::Object(Map::new());
                }
                if let Value::Object(below) = below {
                    merge_patch(below, members);
                }
            }
            value => _ = target.insert(name, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::{merge_patch, read, refuse_moved_secrets};

    #[test]
    fn secrets_leave_the_body_and_stay_when_they_are_masked() {
        let first = read("providers", br#"{"api_key":"sk-canary","base_url":"http://h/v1"}"#, None).unwrap();
        let id = first.value["api_key"]["$secret"].as_str().unwrap().to_owned();
        assert_eq!(first.secrets[&id].expose_secret(), "sk-canary");
        assert_eq!(first.value["base_url"], "http://h/v1");
        let old = serde_json::Value::Object(first.value);
        let second = read("providers", br#"{"api_key":"***"}"#, Some(&old)).unwrap();
        assert_eq!((second.value["api_key"]["$secret"].as_str(), second.secrets.len()), (Some(&*id), 0));
    }

    #[test]
    fn references_paths_and_foreign_secrets_are_refused() {
        for (section, body) in [
            ("providers", r#"{"api_key":"${HOME}"}"#),
            ("providers", r#"{"base_url":"http://h/${HOME}"}"#),
            ("providers", r#"{"headers":{"x":"${HOME}"}}"#),
            ("providers", r#"{"api_key":{"file":"/etc/passwd"}}"#),
            ("providers", r#"{"api_key":{"$secret":"00"}}"#),
            ("providers", r#"{"credentials_file":"/etc/passwd"}"#),
            ("providers", r#"{"api_key":"***"}"#),
            ("providers", r#"{"base_url":"https://a/v1","base_url":"https://b/v1"}"#),
            ("providers", r#"{"headers":{"x":"1","y":"2","x":"3"}}"#),
            ("aliases", r#"{"targets":[{"model":"a/b","model":"a/c"}]}"#),
            ("providers", "[]"),
            ("providers", "{"),
        ] {
            assert_eq!(read(section, body.as_bytes(), None).unwrap_err().status(), 400, "{body}");
        }
    }

    #[test]
    fn a_stored_secret_stays_with_its_address() {
        let before = json!({"base_url": "https://a/v1", "api_key": {"$secret": "1"}, "headers": {"x": {"$secret": "2"}}});
        let refused = [
            json!({"base_url": "https://b/v1", "api_key": {"$secret": "1"}}),
            json!({"base_url": "http://a/v1", "api_key": {"$secret": "3"}, "headers": {"x": {"$secret": "2"}}}),
            json!({"api_keys": [{"key": {"$secret": "1"}}]}),
            json!({"base_url": "https://a/v1", "authority": "https://b", "api_key": {"$secret": "1"}}),
        ];
        let preset = json!({"api": "openai", "api_key": {"$secret": "1"}});
        let moved = json!({"api": "mistral", "api_key": {"$secret": "1"}});
        assert_eq!(refuse_moved_secrets("providers", &preset, &moved).unwrap_err().status(), 400);
        for after in &refused {
            assert_eq!(
                refuse_moved_secrets("providers", &before, after).unwrap_err().status(),
                400,
                "{after}"
            );
        }
        let allowed = [
            json!({"base_url": "https://b/v1", "api_key": {"$secret": "3"}}),
            json!({"base_url": "https://b/v1"}),
            json!({"base_url": "https://a/v1", "api_key": {"$secret": "1"}, "region": "eu"}),
            json!({"base_url": "https://a/v1", "api_key": {"$secret": "1"}, "api": "mistral"}),
        ];
        for after in &allowed {
            assert!(refuse_moved_secrets("providers", &before, after).is_ok(), "{after}");
        }
    }

    #[test]
    fn a_patch_removes_replaces_and_adds() {
        let mut value = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": 3}).as_object().unwrap().clone();
        let patch = json!({"a": null, "b": {"c": 5}, "e": {"f": null, "g": 1}, "h": [1]});
        merge_patch(&mut value, patch.as_object().unwrap().clone());
        let expected = json!({"b": {"c": 5, "d": 2}, "e": {"g": 1}, "h": [1]});
        assert_eq!(serde_json::Value::Object(value), expected);
    }
}
