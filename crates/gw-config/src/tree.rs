//! The checked configuration: every value with its type, position and path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use gw_wire::money::{Price, UnitPrice};
use secrecy::SecretString;

use super::problems::Position;
use super::schema::Section;

/// A value that passed its checks.
#[derive(Debug)]
pub(super) enum Checked {
    Bool(bool),
    Int(i64),
    Number(f64),
    Price(Price),
    UnitPrice(UnitPrice),
    Text(String),
    Secret(SecretString),
    Path(PathBuf),
    Choice(&'static str),
    /// Unix seconds.
    Time(i64),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    Json(serde_json::Value),
    Table(Table),
}

/// A value, with its position and its path.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) path: String,
    pub(super) value: Checked,
}

/// A table, without the values that have a problem.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) at: Position,
    pub(super) path: String,
    pub(super) section: &'static Section,
    pub(super) nodes: BTreeMap<&'static str, Node>,
    /// The written keys, with valid and invalid values.
    pub(super) written: Vec<&'static str>,
}

impl Table {
    /// A table without values.
    pub(super) fn empty(section: &'static Section, path: &str) -> Self {
        Self {
            at: Position::Whole,
            path: path.to_owned(),
            section,
            nodes: BTreeMap::new(),
            written: Vec::new(),
        }
    }

    /// The value of a key, if it is set and valid.
    pub(super) fn node(&self, key: &str) -> Option<&Node> {
        debug_assert!(self.section.key(key).is_some(), "{}.{key} is in no table of the schema", self.path);
        self.nodes.get(key)
    }

    /// Whether the key is written, with a valid or an invalid value.
    pub(super) fn has(&self, key: &str) -> bool {
        debug_assert!(self.section.key(key).is_some(), "{}.{key} is in no table of the schema", self.path);
        self.written.contains(&key)
    }

    /// The position of a key, or of the table when the key is not set.
    pub(super) fn position(&self, key: &str) -> &Position {
        self.node(key).map_or(&self.at, |node| &node.at)
    }

    /// The path of a key.
    pub(super) fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub(super) fn bool(&self, key: &str) -> Option<bool> {
        match self.node(key)?.value {
            Checked::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.node(key)?.value.text().map(str::to_owned)
    }

    pub(super) fn secret(&self, key: &str) -> Option<&SecretString> {
        match &self.node(key)?.value {
            Checked::Secret(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn file(&self, key: &str) -> Option<PathBuf> {
        match &self.node(key)?.value {
            Checked::Path(value) => Some(value.clone()),
            _ => None,
        }
    }

    pub(super) fn choice(&self, key: &str) -> Option<&'static str> {
        match self.node(key)?.value {
            Checked::Choice(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn list(&self, key: &str) -> Option<&[Node]> {
        match &self.node(key)?.value {
            Checked::List(values) => Some(values),
            _ => None,
        }
    }

    /// The tables of `[[key]]`.
    pub(super) fn tables(&self, key: &str) -> impl Iterator<Item = &Self> {
        self.list(key).unwrap_or_default().iter().filter_map(|node| node.value.table())
    }

    pub(super) fn table(&self, key: &str) -> Option<&Self> {
        self.node(key)?.value.table()
    }

    /// The entries of a table whose keys the user chooses. Empty when the key is not set.
    pub(super) fn map(&self, key: &str) -> impl Iterator<Item = &(String, Node)> {
        let entries = match self.node(key).map(|node| &node.value) {
            Some(Checked::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter()
    }
}

impl Checked {
    pub(super) fn int<T: TryFrom<i64>>(&self) -> Option<T> {
        match self {
            Self::Int(value) => T::try_from(*value).ok(),
            _ => None,
        }
    }

    pub(super) fn table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// A text, or the word of a choice.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            Self::Choice(value) => Some(value),
            _ => None,
        }
    }
}

/// `path.key`, quoted where TOML would quote it.
pub(super) fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let key = if bare { Cow::Borrowed(key) } else { Cow::Owned(format!("\"{}\"", key.escape_debug())) };
    if path.is_empty() { key.into_owned() } else { format!("{path}.{key}") }
}
