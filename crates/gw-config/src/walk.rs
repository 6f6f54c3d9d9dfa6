//! Checks a parsed file against the schema, key by key, and collects all problems.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;
use toml::de::{DeArray, DeTable, DeValue};

use super::effective;
use super::interpolate::interpolate;
use super::problems::{Position, ProblemReport};
use super::scalar::{self, ValueError};
use super::schema::{Key, Kind, Section, TextFormat};
use super::secret;
use super::settings::Lookup;
use super::tables::ROOT;
use super::tree::{Checked, Node, Table, join};
use gw_wire::nearest::did_you_mean;

/// The most sections that a hint to a misplaced key names.
const MAX_PLACES: usize = 2;

/// One pass over a file.
pub(super) struct Walker<'a> {
    /// The environment for `${NAME}`. None: references are not replaced.
    pub(super) env: Option<Lookup<'a>>,
    /// The directory of relative paths.
    pub(super) directory: &'a Path,
    /// The problems so far.
    pub(super) report: ProblemReport,
}

impl Walker<'_> {
    /// Checks a table and everything below it.
    pub(super) fn table(
        &mut self,
        section: &'static Section,
        written: &DeTable<'_>,
        at: Position,
        path: &str,
    ) -> Table {
        let mut table = Table { at, ..Table::empty(section, path) };
        for (name, value) in written {
            let path = join(path, name.get_ref());
            let Some(key) = section.key(name.get_ref()) else {
                self.unknown(section, name.get_ref(), &Position::Offset(name.span().start), &path);
                continue;
            };
            table.written.push(key.name);
            // The position of a section is its name. The position of any other value is the value itself.
            let start = match value.get_ref() {
                DeValue::Table(_) => name.span().start,
                _ => value.span().start,
            };
            if let Some(node) = self.key(key, value.get_ref(), Position::Offset(start), path) {
                table.nodes.insert(key.name, node);
            }
        }
        for key in section.keys.iter().filter(|key| key.required && !table.written.contains(&key.name)) {
            self.report.fault(&table.at, &join(path, key.name), "is missing");
        }
        table
    }

    /// Checks the value of a known key.
    pub(super) fn key(
        &mut self,
        key: &'static Key,
        value: &DeValue<'_>,
        at: Position,
        path: String,
    ) -> Option<Node> {
        let value = self.value(&key.kind, value, &at, &path)?;
        Some(Node { at, path, value })
    }

    /// Checks one value. None: it has a problem, which is reported.
    fn value(
        &mut self,
        kind: &'static Kind,
        value: &DeValue<'_>,
        at: &Position,
        path: &str,
    ) -> Option<Checked> {
        let checked = match (kind, value) {
            (Kind::Table(section), DeValue::Table(table)) => {
                Ok(Checked::Table(self.table(section, table, at.clone(), path)))
            }
            (Kind::Tables(section), DeValue::Array(tables)) => {
                Ok(Checked::List(self.tables(section, tables, path)))
            }
            (Kind::List { of, min }, DeValue::Array(values)) => return self.list(of, *min, values, at, path),
            (Kind::Map { key, of }, DeValue::Table(entries)) => {
                Ok(Checked::Map(self.map(key, of, entries, path)))
            }
            (Kind::Json, _) => return self.json(value, at, path).map(Checked::Json),
            (Kind::Either(one, other), _) => match [one, other].into_iter().find(|kind| fits(kind, value)) {
                Some(kind) => return self.value(kind, value, at, path),
                None => Err(scalar::mistyped(kind, value)),
            },
            (Kind::Secret(format), DeValue::String(text)) => {
                let text = self.resolved(text, at, path)?;
                secret::checked(&text, format).map(Checked::Secret)
            }
            (Kind::Secret(format), DeValue::Table(file)) => return self.secret_file(format, file, at, path),
            (
                Kind::Text(_) | Kind::Choice(_) | Kind::ChoiceOr(..) | Kind::Path | Kind::Time,
                DeValue::String(text),
            ) => {
                let text = self.resolved(text, at, path)?;
                scalar::from_text(kind, &text, self.directory)
            }
            (
                Kind::Bool | Kind::Int { .. } | Kind::Number { .. } | Kind::Price | Kind::UnitPrice,
                DeValue::String(_),
            ) if matches!(at, Position::Variable(_)) => Err(scalar::unreadable_variable(kind)),
            (kind, value) => scalar::from_value(kind, value),
        };
        match checked {
            Ok(checked) => Some(checked),
            Err(ValueError { message, hint }) => {
                self.report.fault_with_hint(at, path, message, hint);
                None
            }
        }
    }

    /// `[[path]]`
    fn tables(&mut self, section: &'static Section, tables: &DeArray<'_>, path: &str) -> Vec<Node> {
        let mut nodes = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let at = Position::Offset(table.span().start);
            let path = format!("{path}[{index}]");
            match table.get_ref() {
                DeValue::Table(table) => {
                    let value = Checked::Table(self.table(section, table, at.clone(), &path));
                    nodes.push(Node { at, path, value });
                }
                _ => self.report.fault(&at, &path, "expected a table"),
            }
        }
        nodes
    }

    fn list(
        &mut self,
        of: &'static Kind,
        min: usize,
        values: &DeArray<'_>,
        at: &Position,
        path: &str,
    ) -> Option<Checked> {
        if values.len() < min {
            self.report.fault_with_hint(at, path, "is empty", Some("leave the key out instead".to_owned()));
            return None;
        }
        let mut nodes = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let at = Position::Offset(value.span().start);
            let path = format!("{path}[{index}]");
            if let Some(value) = self.value(of, value.get_ref(), &at, &path) {
                nodes.push(Node { at, path, value });
            }
        }
        Some(Checked::List(nodes))
    }

    /// Checks a table whose keys the user chooses.
    fn map(
        &mut self,
        names: &TextFormat,
        of: &'static Kind,
        entries: &DeTable<'_>,
        path: &str,
    ) -> Vec<(String, Node)> {
        let mut nodes = Vec::new();
        for (name, value) in entries {
            let path = join(path, name.get_ref());
            if let Err(message) = (names.check)(name.get_ref()) {
                self.report.fault(&Position::Offset(name.span().start), &path, message);
                continue;
            }
            let at = Position::Offset(value.span().start);
            if let Some(value) = self.value(of, value.get_ref(), &at, &path) {
                nodes.push((name.get_ref().to_string(), Node { at, path, value }));
            }
        }
        nodes
    }

    /// A value of any type, whose texts may hold references.
    fn json(&mut self, value: &DeValue<'_>, at: &Position, path: &str) -> Option<Value> {
        Some(match value {
            DeValue::String(text) => Value::from(&*self.resolved(text, at, path)?),
            DeValue::Array(values) => {
                let values = values.iter().map(|value| self.json(value.get_ref(), at, path));
                Value::Array(values.collect::<Option<_>>()?)
            }
            DeValue::Table(table) => {
                let members = table.iter().map(|(name, value)| {
                    Some((name.get_ref().to_string(), self.json(value.get_ref(), at, path)?))
                });
                Value::Object(members.collect::<Option<_>>()?)
            }
            DeValue::Integer(_) | DeValue::Float(_) => {
                let number = Some(effective::json(value)).filter(Value::is_number);
                if number.is_none() {
                    self.report.fault(at, path, "is not a number that JSON has");
                }
                number?
            }
            plain => effective::json(plain),
        })
    }

    /// `{ file = "path" }`
    fn secret_file(
        &mut self,
        format: &TextFormat,
        file: &DeTable<'_>,
        at: &Position,
        path: &str,
    ) -> Option<Checked> {
        let table = self.table(&secret::FILE, file, at.clone(), path);
        let file = table.file("file")?;
        match secret::read(&file).and_then(|text| secret::checked(&text, format)) {
            Ok(secret) => Some(Checked::Secret(secret)),
            Err(ValueError { message, hint }) => {
                self.report.fault_with_hint(table.position("file"), &table.path("file"), message, hint);
                None
            }
        }
    }

    /// Replaces the references in a string.
    fn resolved<'t>(&mut self, text: &'t str, at: &Position, path: &str) -> Option<Cow<'t, str>> {
        let Some(env) = self.env else { return Some(Cow::Borrowed(text)) };
        match interpolate(text, env) {
            Ok(text) => Some(text),
            Err(problems) => {
                for problem in problems {
                    self.report.fault_with_hint(at, path, problem.message, Some(problem.hint.to_owned()));
                }
                None
            }
        }
    }

    fn unknown(&mut self, section: &'static Section, name: &str, at: &Position, path: &str) {
        let hint =
            did_you_mean(name, section.names()).or_else(|| belongs_elsewhere(name)).unwrap_or_else(|| {
                let known: Vec<&str> = section.names().collect();
                format!("known here: {}", known.join(", "))
            });
        self.report.fault_with_hint(at, path, "unknown key", Some(hint));
    }
}

/// Whether a value has the type of this kind, so that [`Kind::Either`] can choose.
fn fits(kind: &Kind, value: &DeValue<'_>) -> bool {
    match (kind, value) {
        (Kind::Secret(_), DeValue::Table(table)) => table.contains_key("file"),
        (Kind::Secret(_) | Kind::Choice(_) | Kind::ChoiceOr(..) | Kind::Text(_), DeValue::String(_))
        | (Kind::Int { .. }, DeValue::Integer(_))
        | (Kind::Bool, DeValue::Boolean(_))
        | (Kind::Table(_) | Kind::Map { .. }, DeValue::Table(_))
        | (Kind::List { .. } | Kind::Tables(_), DeValue::Array(_)) => true,
        _ => false,
    }
}

/// The sections in which a misplaced key would be right. None: there are none, or so many that the key says nothing about its
/// place, as `name` does.
fn belongs_elsewhere(name: &str) -> Option<String> {
    let places = ROOT.keys.iter().filter_map(|parent| {
        let (section, shown) = match parent.kind {
            Kind::Table(section) => (section, format!("[{}]", parent.name)),
            Kind::Tables(section) => (section, format!("[[{}]]", parent.name)),
            _ => return None,
        };
        section.key(name).map(|_| shown)
    });
    let places: Vec<String> = places.collect();
    (1..=MAX_PLACES).contains(&places.len()).then(|| format!("'{name}' belongs in {}", places.join(" or ")))
}
