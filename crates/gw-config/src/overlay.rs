//! `MODEL_GATEWAY_<SECTION>__<KEY>`: single values from the environment, which override those of the file.

use std::borrow::Cow;

use toml::de::DeValue;

use super::problems::Position;
use super::schema::{Key, Kind, Section};
use super::settings::Lookup;
use super::tables::{FROM_ENVIRONMENT, ROOT};
use super::tree::{Checked, Node, Table, join};
use super::walk::Walker;
use gw_wire::nearest::did_you_mean;

/// The prefix of the gateway's variables.
const PREFIX: &str = "MODEL_GATEWAY_";

/// Applies the environment. `names` are all variables that are set.
pub(super) fn apply(walker: &mut Walker<'_>, env: Lookup<'_>, names: &[String], root: &mut Table) {
    // References are not replaced in the value of a variable.
    let references = walker.env.take();
    for (parent, section, key) in overlays() {
        let name = variable(parent.name, key.name);
        if let Some(text) = env(&name) {
            set(walker, root, parent, section, key, &text, name);
        }
    }
    walker.env = references;
    let known: Vec<String> = overlays().map(|(parent, _, key)| variable(parent.name, key.name)).collect();
    for name in names.iter().filter(|name| is_overlay(name) && !known.contains(name)) {
        let hint = hint(name);
        let at = Position::Variable(name.clone());
        walker.report.fault_with_hint(&at, "", "names no setting that an environment variable can set", hint);
    }
}

/// Every key that a variable can set, with its section.
pub(super) fn overlays() -> impl Iterator<Item = (&'static Key, &'static Section, &'static Key)> {
    FROM_ENVIRONMENT.iter().filter_map(|name| ROOT.key(name)).flat_map(|parent| {
        let section = match parent.kind {
            Kind::Table(section) => Some(section),
            _ => None,
        };
        section.into_iter().flat_map(move |section| {
            let scalars = section.keys.iter().filter(|key| key.kind.is_scalar());
            scalars.map(move |key| (parent, section, key))
        })
    })
}

/// The name of a key's variable.
pub(super) fn variable(section: &str, key: &str) -> String {
    format!("{PREFIX}{}__{}", section.to_ascii_uppercase(), key.to_ascii_uppercase())
}

/// A hint for an unknown variable: a similar name, or the reason why no variable can set this key.
fn hint(name: &str) -> Option<String> {
    let (section, key) = name.strip_prefix(PREFIX)?.split_once("__")?;
    let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
    if ROOT.key(&section).is_none() {
        return did_you_mean(&section, FROM_ENVIRONMENT);
    }
    if !FROM_ENVIRONMENT.contains(&section.as_str()) {
        return Some("this section can only be written in the file".to_owned());
    }
    let of_section = || overlays().filter(|(parent, ..)| parent.name == section);
    if of_section().any(|(_, section, _)| section.key(&key).is_some()) {
        return Some("a list or a table can only be written in the file".to_owned());
    }
    let names: Vec<String> = of_section().map(|(_, _, key)| key.name.to_ascii_uppercase()).collect();
    did_you_mean(&key, names.iter().map(String::as_str))
}

/// Whether a variable has the form of an overlay.
fn is_overlay(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains("__"))
}

fn set(
    walker: &mut Walker<'_>,
    root: &mut Table,
    parent: &'static Key,
    section: &'static Section,
    key: &'static Key,
    text: &str,
    name: String,
) {
    let at = Position::Variable(name);
    let node = walker.key(key, &value(&key.kind, text), at.clone(), join(parent.name, key.name));
    if !root.written.contains(&parent.name) {
        root.written.push(parent.name);
    }
    let table = root.nodes.entry(parent.name).or_insert_with(|| Node {
        at,
        path: parent.name.to_owned(),
        value: Checked::Table(Table::empty(section, parent.name)),
    });
    if let Checked::Table(table) = &mut table.value {
        table.written.push(key.name);
        if let Some(node) = node {
            table.nodes.insert(key.name, node);
        }
    }
}

/// The text of a variable as a TOML value: bare for numbers and switches, quoted for all others.
fn value<'a>(kind: &Kind, text: &'a str) -> DeValue<'a> {
    let bare =
        matches!(kind, Kind::Bool | Kind::Int { .. } | Kind::Number { .. } | Kind::Price | Kind::UnitPrice);
    match DeValue::parse(text.trim()) {
        Ok(value) if bare && !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)) => {
            value.into_inner()
        }
        _ => DeValue::String(Cow::Borrowed(text)),
    }
}
