//! Changes of entries: checked as a whole, stored with their history, put into force, undone.

use gw_admin::{AdminMethod, ConfigurationRequest, ConfigurationResponse};
use gw_engine::catalog::query::{invalid, shown};
use gw_engine::error::{Error, Kind};
use gw_store::configuration::{ConfigurationChange, SealedSecret};
use gw_wire::calendar::unix_seconds;
use serde_json::{Map, Value, json};

use super::answers::{audit_record, change_object, json_response, name_member, no_entry};
use super::input::{self, Input, object_of};
use super::merge::{self, FileState, MergeCheck};
use super::overlay::{Overlay, place};
use super::{StoredConfiguration, unavailable};

/// How often a change is tried again when another replica makes one at the same moment.
const ATTEMPTS: usize = 5;
/// The most problems that an error names.
const SHOWN_PROBLEMS: usize = 5;
/// The changes that `undo` looks back over.
const UNDO_DEPTH: i64 = 1_000;

/// A change that is checked and not stored yet.
struct CheckedChange {
    change: ConfigurationChange,
    secrets: Vec<SealedSecret>,
    verdict: MergeCheck,
    is_new: bool,
}

impl StoredConfiguration {
    /// `PUT`, `PATCH` and `DELETE` of an entry.
    pub(super) async fn change_entry(
        &self,
        section: &str,
        name: &str,
        request: &ConfigurationRequest,
    ) -> Result<ConfigurationResponse, Error> {
        let _guard = self.changing.lock().await;
        for _ in 0..ATTEMPTS {
            let (file, overlay) = (self.file()?, self.overlay().await?);
            let draft = self.draft(section, name, request, &file, &overlay)?;
            if let Some(answer) = self.complete(draft, request).await? {
                return Ok(answer);
            }
        }
        Err(Error::new(Kind::VersionMismatch, "Other changes came between; read the entry again and retry."))
    }

    fn draft(
        &self,
        section: &str,
        name: &str,
        request: &ConfigurationRequest,
        file: &FileState,
        overlay: &Overlay,
    ) -> Result<CheckedChange, Error> {
        let old = overlay.entry(section, name);
        if !name.is_empty() {
            refuse_configured(file, section, name)?;
        }
        check_version(request.if_match.as_deref(), old.map_or(0, |entry| entry.version))?;
        let before = old.map(|entry| entry.value.clone());
        let mut candidate = overlay.clone();
        let (after, new_secrets) = match request.method {
            AdminMethod::Delete => {
                old.ok_or_else(|| no_entry(section, name))?;
                (None, Vec::new())
            }
            method => {
                let Input { value, secrets } = input::read(section, &request.body, before.as_ref())?;
                let value = if method == AdminMethod::Patch {
                    if before.is_none() && !name.is_empty() {
                        return Err(no_entry(section, name));
                    }
                    patched(before.as_ref(), value)
                } else {
                    value
                };
                let value = own_members(file, section, name, value)?;
                input::refuse_null_parameters(section, &value)?;
                let mut sealed = Vec::new();
                for (id, secret) in secrets {
                    let text = self.sealer.seal(&id, &secret).map_err(|error| {
                        Error::new(Kind::InternalError, format!("The secret was not stored: {error}."))
                    })?;
                    sealed.push(SealedSecret { id: id.clone(), sealed: text });
                    candidate.secrets.insert(id, secret);
                }
                let value = Value::Object(value);
                if let Some(before) = &before {
                    input::refuse_moved_secrets(section, before, &value)?;
                }
                (Some(value), sealed)
            }
        };
        let is_new = before.is_none();
        let candidate = candidate.with(section, name, after.clone());
        let verdict = merge::check(file, &candidate, overlay.accepted_members());
        let change = ConfigurationChange {
            version: overlay.version + 1,
            changed_at: unix_seconds(),
            actor: request.record.actor.id.clone(),
            section: section.to_owned(),
            name: name.to_owned(),
            before: before.map(|value| value.to_string()),
            after: after.map(|value| value.to_string()),
            undoes: None,
        };
        Ok(CheckedChange { change, secrets: new_secrets, verdict, is_new })
    }

    /// Stores a checked change and puts it into force. None: another change came first, so this one must be checked again.
    async fn complete(
        &self,
        draft: CheckedChange,
        request: &ConfigurationRequest,
    ) -> Result<Option<ConfigurationResponse>, Error> {
        let CheckedChange { change, secrets, verdict, is_new } = draft;
        let mut object = change_object(&change);
        let applies = if self.applier().is_some() { "now" } else { "at_next_start" };
        if request.parameters.is_dry_run {
            set(&mut object, "object", json!("config_check"));
            set(&mut object, "is_valid", json!(verdict.problems.is_empty()));
            set(&mut object, "problems", json!(verdict.problems));
            set(&mut object, "notes", json!(verdict.notes));
            set(&mut object, "applies", json!(applies));
            return Ok(Some(json_response(&object, None)));
        }
        if verdict.setup.is_none() {
            return Err(refused(&verdict.problems));
        }
        let record = audit_record(&change, &request.record);
        let stored = self.store.change_configuration(&change, &secrets, &record).await;
        if !stored.map_err(|error| unavailable(&error))? {
            return Ok(None);
        }
        tracing::info!(
            actor = change.actor,
            version = change.version,
            "the configuration of {} was changed over the API",
            place(&change.section, &change.name)
        );
        let applied = match self.applier() {
            None => json!({"applies": "at_next_start"}),
            Some(applier) => match applier.apply().await {
                Ok(restart_required) => applied(&change.section, restart_required),
                Err(error) => {
                    tracing::warn!("a change of the configuration is stored but not in force: {error}");
                    json!({"applies": "at_next_start", "reason": error.to_string()})
                }
            },
        };
        if let (Value::Object(object), Value::Object(applied)) = (&mut object, applied) {
            object.extend(applied);
        }
        set(&mut object, "notes", json!(verdict.notes));
        let version = change.after.is_some().then_some(change.version);
        let is_new = is_new && version.is_some();
        Ok(Some(ConfigurationResponse { is_new, ..json_response(&object, version) }))
    }

    /// `POST /admin/v1/config/undo`: undoes the newest change that is neither an undo nor undone, or the named one.
    pub(super) async fn undo_change(
        &self,
        request: &ConfigurationRequest,
    ) -> Result<ConfigurationResponse, Error> {
        let wanted = wanted_version(&request.body)?;
        let _guard = self.changing.lock().await;
        for _ in 0..ATTEMPTS {
            let (file, overlay) = (self.file()?, self.overlay().await?);
            let draft = self.undo_draft(wanted, request, &file, &overlay).await?;
            if let Some(answer) = self.complete(draft, request).await? {
                return Ok(ConfigurationResponse { is_new: false, ..answer });
            }
        }
        Err(Error::new(
            Kind::VersionMismatch,
            "Other changes came between; read the history again and retry.",
        ))
    }

    async fn undo_draft(
        &self,
        wanted: Option<i64>,
        request: &ConfigurationRequest,
        file: &FileState,
        overlay: &Overlay,
    ) -> Result<CheckedChange, Error> {
        let changes = self.store.configuration_changes(i64::MAX, UNDO_DEPTH).await;
        let changes = changes.map_err(|error| unavailable(&error))?;
        let is_undone = |version| changes.iter().any(|change| change.undoes == Some(version));
        let found = changes.iter().find(|change| match wanted {
            Some(version) => change.version == version,
            None => change.undoes.is_none() && !is_undone(change.version),
        });
        let Some(found) = found else {
            return Err(Error::new(Kind::NotFound, "There is no such change that can be undone."));
        };
        let now = overlay.entry(&found.section, &found.name).map(|entry| entry.value.to_string());
        if now != found.after {
            let message = format!(
                "The entry {} was changed after the change {}; undo the later change first.",
                place(&found.section, &found.name),
                found.version
            );
            return Err(Error::new(Kind::VersionMismatch, message));
        }
        let after = found.before.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let mut candidate = overlay.with(&found.section, &found.name, after.clone());
        self.open_secrets(&mut candidate).await?;
        // The entry that comes back was accepted, too.
        let verdict = merge::check(file, &candidate, candidate.accepted_members());
        let change = ConfigurationChange {
            version: overlay.version + 1,
            changed_at: unix_seconds(),
            actor: request.record.actor.id.clone(),
            section: found.section.clone(),
            name: found.name.clone(),
            before: now,
            after: after.map(|value| value.to_string()),
            undoes: Some(found.version),
        };
        Ok(CheckedChange { change, secrets: Vec::new(), verdict, is_new: false })
    }

    /// Opens the secrets of the history, of which an undone change may need some.
    async fn open_secrets(&self, overlay: &mut Overlay) -> Result<(), Error> {
        let rows = self.store.configuration_secrets().await.map_err(|error| unavailable(&error))?;
        for row in rows {
            if let Ok((secret, _)) = self.sealer.open(&row.id, &row.sealed) {
                overlay.secrets.insert(row.id, secret);
            }
        }
        Ok(())
    }
}

/// The version in the body of `undo`.
fn wanted_version(body: &[u8]) -> Result<Option<i64>, Error> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let members = object_of(body)?;
    if let Some(unknown) = members.keys().find(|name| *name != "version") {
        let message = format!("Unknown parameter: '{}'. The parameter is 'version'.", shown(unknown));
        return Err(invalid("unknown_parameter", message));
    }
    match members.get("version") {
        None | Some(Value::Null) => Ok(None),
        Some(version) => version.as_i64().map(Some).ok_or_else(|| {
            invalid("invalid_type", "Invalid 'version': expected the version of a change.".to_owned())
        }),
    }
}

/// Refuses an entry or a key that the file or the environment sets.
fn refuse_configured(file: &FileState, section: &str, name: &str) -> Result<(), Error> {
    let Some(found) = file.raw.place(section, name) else { return Ok(()) };
    let message = format!("'{}' is set by {}; change it there.", shown(name), found.describe(&file.name()));
    Err(Error::new(Kind::ConfiguredInFile, message))
}

/// The members of a value, without the name, which the URL has. Refuses keys of a table that the file sets.
fn own_members(
    file: &FileState,
    section: &str,
    name: &str,
    mut value: Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    if name.is_empty() {
        for key in value.keys() {
            refuse_configured(file, section, key)?;
        }
        return Ok(value);
    }
    let member = name_member(section);
    if let Some(written) = value.remove(member)
        && written != name
    {
        let message =
            format!("Invalid '{member}': the URL names '{}'. An entry cannot be renamed.", shown(name));
        return Err(invalid("invalid_value", message));
    }
    Ok(value)
}

fn patched(before: Option<&Value>, patch: Map<String, Value>) -> Map<String, Value> {
    let mut value = before.and_then(|value| value.as_object().cloned()).unwrap_or_default();
    input::merge_patch(&mut value, patch);
    value
}

/// Compares `If-Match` with the version of the entry; 0 stands for an entry that does not exist.
fn check_version(if_match: Option<&str>, version: i64) -> Result<(), Error> {
    let Some(wanted) = if_match.map(str::trim) else { return Ok(()) };
    let plain = wanted.trim_start_matches("W/").trim_matches('"');
    let is_same = if wanted == "*" { version > 0 } else { plain.parse() == Ok(version) };
    if is_same {
        return Ok(());
    }
    let message = format!("The entry has the version {version}, and If-Match asks for another one.");
    Err(Error::new(Kind::VersionMismatch, message))
}

fn refused(problems: &[String]) -> Error {
    let shown: Vec<&str> = problems.iter().take(SHOWN_PROBLEMS).map(String::as_str).collect();
    let more = problems.len().saturating_sub(SHOWN_PROBLEMS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    invalid("invalid_configuration", format!("The configuration cannot be used: {}{more}.", shown.join("; ")))
}

/// Whether a change is in force. Some settings need a restart.
fn applied(section: &str, mut restart_required: Vec<String>) -> Value {
    restart_required.retain(|path| path.split('.').next() == Some(section));
    if restart_required.is_empty() {
        return json!({"applies": "now"});
    }
    let reason = format!("only a restart applies {}", restart_required.join(", "));
    json!({"applies": "at_next_start", "reason": reason})
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}
