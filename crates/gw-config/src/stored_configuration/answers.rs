//! The answers that show the configuration: lists, entries, tables and the history.

use gw_admin::time::format_millis;
use gw_admin::{ConfigurationParameters, ConfigurationResponse};
use gw_engine::catalog::query::shown;
use gw_engine::error::{Error, Kind};
use gw_store::audit::AuditRecord;
use gw_store::configuration::ConfigurationChange;
use serde_json::{Map, Value, json};

use super::merge::FileState;
use super::overlay::{Overlay, OverlayEntry, masked, place};
use super::{StoredConfiguration, unavailable};
use crate::NAMED_LISTS;
use crate::effective::defaults;

impl StoredConfiguration {
    /// `GET /admin/v1/config/{section}` of a list.
    pub(super) async fn list(&self, section: &str) -> Result<ConfigurationResponse, Error> {
        let (file, overlay) = (self.file()?, self.overlay().await?);
        let own = file.raw.document.get(section).and_then(Value::as_array).into_iter().flatten();
        let configured = own.filter_map(|entry| of_file(&file, section, entry));
        let entries = overlay.entries.iter().filter(|entry| entry.section == section);
        let stored = entries.map(|entry| of_api(&file, entry));
        let data: Vec<Value> = configured.chain(stored).collect();
        Ok(json_response(&json!({"object": "list", "data": data, "has_more": false, "next": null}), None))
    }

    /// `GET /admin/v1/config/{section}/{name}`.
    pub(super) async fn show_entry(&self, section: &str, name: &str) -> Result<ConfigurationResponse, Error> {
        let file = self.file()?;
        let mut own = file.raw.document.get(section).and_then(Value::as_array).into_iter().flatten();
        let member = name_member(section);
        if let Some(entry) = own.find(|entry| entry.get(member).and_then(Value::as_str) == Some(name)) {
            let object = of_file(&file, section, entry).unwrap_or_default();
            return Ok(json_response(&object, Some(0)));
        }
        let overlay = self.overlay().await?;
        let entry = overlay.entry(section, name).ok_or_else(|| no_entry(section, name))?;
        Ok(json_response(&of_api(&file, entry), Some(entry.version)))
    }

    /// `GET /admin/v1/config/{section}` of a table.
    pub(super) async fn show_table(&self, section: &str) -> Result<ConfigurationResponse, Error> {
        let (file, overlay) = (self.file()?, self.overlay().await?);
        let object = table_object(&file, &overlay, section);
        let version = overlay.entry(section, "").map_or(0, |entry| entry.version);
        Ok(json_response(&object, Some(version)))
    }

    /// `GET /admin/v1/config/history`.
    pub(super) async fn list_changes(
        &self,
        page: ConfigurationParameters,
    ) -> Result<ConfigurationResponse, Error> {
        let limit = i64::try_from(page.limit).unwrap_or(i64::MAX - 1);
        let changes = self.store.configuration_changes(page.before, limit + 1).await;
        let mut changes = changes.map_err(|error| unavailable(&error))?;
        let has_more = changes.len() > page.limit;
        changes.truncate(page.limit);
        let next = changes.last().filter(|_| has_more).map(|change| change.version.to_string());
        let data: Vec<Value> = changes.iter().map(change_object).collect();
        Ok(json_response(&json!({"object": "list", "data": data, "has_more": has_more, "next": next}), None))
    }
}

/// The settings of a table, the place that sets each, and the defaults of the others.
fn table_object(file: &FileState, overlay: &Overlay, section: &str) -> Value {
    let own = file.raw.document.get(section).and_then(Value::as_object);
    let stored = overlay.entry(section, "");
    let mut value = stored.and_then(|entry| entry.value.as_object().cloned()).unwrap_or_default();
    value.extend(own.cloned().unwrap_or_default());
    let places: Map<String, Value> = value
        .keys()
        .map(|key| match file.raw.place(section, key) {
            Some(place) => (key.clone(), json!({"source": "file", "place": place.describe(&file.name())})),
            None => (key.clone(), json!({"source": "api", "place": null})),
        })
        .collect();
    let defaults = defaults(section, &value);
    json!({
        "object": "config_section",
        "section": section,
        "version": stored.map_or(0, |entry| entry.version),
        "value": masked(section, Value::Object(value)),
        "places": places,
        "defaults": defaults,
    })
}

/// An entry of the file.
fn of_file(file: &FileState, section: &str, entry: &Value) -> Option<Value> {
    let mut members = entry.as_object()?.clone();
    let name = members.remove(name_member(section))?;
    let name = name.as_str()?;
    let place = file.raw.place(section, name).map(|place| place.describe(&file.name()));
    Some(json!({
        "object": "config_entry",
        "section": section,
        "name": name,
        "source": "file",
        "place": place,
        "version": 0,
        "value": masked(section, Value::Object(members)),
    }))
}

/// An entry of the API. An entry that the file has, too, has no effect.
fn of_api(file: &FileState, entry: &OverlayEntry) -> Value {
    let shadow = file.raw.place(&entry.section, &entry.name).map(|place| place.describe(&file.name()));
    json!({
        "object": "config_entry",
        "section": entry.section,
        "name": entry.name,
        "source": "api",
        "place": shadow,
        "version": entry.version,
        "value": masked(&entry.section, entry.value.clone()),
    })
}

/// A value of a change, with masked secrets.
fn shown_value(section: &str, text: Option<&str>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(text).ok()).map(|value| masked(section, value))
}

/// The row of the audit log for a change, with masked secrets.
pub(super) fn audit_record(change: &ConfigurationChange, of: &AuditRecord) -> AuditRecord {
    let value =
        |text: &Option<String>| shown_value(&change.section, text.as_deref()).map(|value| value.to_string());
    AuditRecord {
        object: place(&change.section, &change.name),
        before: value(&change.before),
        after: value(&change.after),
        ..of.clone()
    }
}

/// A change of the history, with masked secrets.
pub(super) fn change_object(change: &ConfigurationChange) -> Value {
    let value = |text: &Option<String>| shown_value(&change.section, text.as_deref()).unwrap_or(Value::Null);
    json!({
        "object": "config_change",
        "version": change.version,
        "changed_at": format_millis(change.changed_at.saturating_mul(1000)),
        "actor": change.actor,
        "section": change.section,
        "name": Some(&change.name).filter(|name| !name.is_empty()),
        "before": value(&change.before),
        "after": value(&change.after),
        "undoes": change.undoes,
    })
}

/// The member that holds the name of an entry.
pub(super) fn name_member(section: &str) -> &'static str {
    NAMED_LISTS.into_iter().find(|(list, _)| *list == section).map_or("name", |(_, member)| member)
}

pub(super) fn no_entry(section: &str, name: &str) -> Error {
    let what = if name.is_empty() { "nothing in" } else { "no entry of" };
    let message = format!(
        "The API has made {what} the section '{section}'{}.",
        match name {
            "" => String::new(),
            name => format!(" with the name '{}'", shown(name)),
        }
    );
    Error::new(Kind::NotFound, message)
}

pub(super) fn json_response(value: &Value, version: Option<i64>) -> ConfigurationResponse {
    ConfigurationResponse { body: value.to_string().into(), is_new: false, is_toml: false, version }
}
