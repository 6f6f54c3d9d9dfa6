//! The forms of values: how a field of the settings is read from a checked value, and written as TOML.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use gw_engine::settings::Role;
use gw_wire::money::{Price, UnitPrice};
use secrecy::SecretString;

use super::super::tree::{Checked, Node};
use super::defaults::Defaults;
use super::filled;

/// How a value of type `V` is read from the file and written.
pub(crate) struct Form<V> {
    /// The value. None: the checked value has another type.
    pub(crate) read: fn(&Checked) -> Option<V>,
    /// The value as TOML. Empty: it cannot be written, because nothing is set.
    pub(crate) write: fn(&V) -> String,
}

/// A text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// Writes a value that may be missing.
fn optional<V>(value: Option<&V>, write: fn(&V) -> String) -> String {
    value.map(write).unwrap_or_default()
}

fn whole(value: &Checked) -> Option<u64> {
    value.int()
}

impl Form<bool> {
    pub(crate) const BOOL: Self = Self {
        read: |value| match value {
            Checked::Bool(value) => Some(*value),
            _ => None,
        },
        write: ToString::to_string,
    };
}

impl<V: TryFrom<i64> + TryInto<i64> + Copy + Display> Form<V> {
    /// An integer.
    pub(crate) const INT: Self = Self { read: Checked::int, write: |value| value.to_string() };
    /// Bytes, written in MiB.
    pub(crate) const MIB: Self =
        Self { read: |value| shifted(value, 20), write: |value| unshifted(*value, 20) };
    /// Bytes, written in KiB.
    pub(crate) const KIB: Self =
        Self { read: |value| shifted(value, 10), write: |value| unshifted(*value, 10) };
}

fn shifted<V: TryFrom<i64>>(value: &Checked, bits: u32) -> Option<V> {
    V::try_from(value.int::<i64>()? << bits).ok()
}

fn unshifted<V: TryInto<i64>>(value: V, bits: u32) -> String {
    value.try_into().map(|bytes: i64| (bytes >> bits).to_string()).unwrap_or_default()
}

impl<V: TryFrom<i64> + Copy + Display + PartialEq + Default> Form<Option<V>> {
    /// An integer that may be missing.
    pub(crate) const OPTIONAL_INT: Self =
        Self { read: |value| value.int().map(Some), write: |value| optional(value.as_ref(), V::to_string) };
    /// An integer. 0 means None.
    pub(crate) const INT_OR_NONE: Self = Self {
        read: |value| value.int().map(|value| Some(value).filter(|value| *value != V::default())),
        write: |value| value.unwrap_or_default().to_string(),
    };
}

impl Form<Option<usize>> {
    /// Bytes that may be missing, written in MiB.
    pub(crate) const OPTIONAL_MIB: Self = Self {
        read: |value| shifted(value, 20).map(Some),
        write: |value| optional(value.as_ref(), |value| unshifted(*value, 20)),
    };
}

impl Form<f64> {
    /// A number.
    pub(crate) const NUMBER: Self = Self { read: number, write: ToString::to_string };
    /// A number that is written with a point.
    pub(crate) const RATIO: Self = Self { read: number, write: |value| format!("{value:?}") };
}

fn number(value: &Checked) -> Option<f64> {
    match value {
        Checked::Number(value) => Some(*value),
        _ => None,
    }
}

impl Form<Option<f64>> {
    /// A number that may be missing.
    pub(crate) const OPTIONAL_NUMBER: Self = Self {
        read: |value| number(value).map(Some),
        write: |value| optional(value.as_ref(), ToString::to_string),
    };
}

impl Form<f32> {
    /// A part of one.
    #[expect(clippy::cast_possible_truncation, reason = "a part of one")]
    pub(crate) const PART: Self =
        Self { read: |value| number(value).map(|value| value as f32), write: ToString::to_string };
}

impl Form<Duration> {
    /// Milliseconds.
    pub(crate) const MILLIS: Self = Self {
        read: |value| whole(value).map(Duration::from_millis),
        write: |value| value.as_millis().to_string(),
    };
    /// Seconds.
    pub(crate) const SECONDS: Self = Self {
        read: |value| whole(value).map(Duration::from_secs),
        write: |value| value.as_secs().to_string(),
    };
}

impl Form<Option<Duration>> {
    /// Milliseconds that may be missing.
    pub(crate) const OPTIONAL_MILLIS: Self = Self {
        read: |value| whole(value).map(Duration::from_millis).map(Some),
        write: |value| optional(value.as_ref(), |value| value.as_millis().to_string()),
    };
    /// Seconds that may be missing.
    pub(crate) const OPTIONAL_SECONDS: Self = Self {
        read: |value| whole(value).map(Duration::from_secs).map(Some),
        write: |value| optional(value.as_ref(), |value| value.as_secs().to_string()),
    };
    /// Minutes that may be missing.
    pub(crate) const OPTIONAL_MINUTES: Self = Self {
        read: |value| whole(value).map(|minutes| Some(Duration::from_secs(minutes * 60))),
        write: |value| optional(value.as_ref(), |value| (value.as_secs() / 60).to_string()),
    };
    /// Seconds. 0 means None.
    pub(crate) const SECONDS_OR_NONE: Self = Self {
        read: |value| {
            whole(value).map(|seconds| Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero()))
        },
        write: |value| value.unwrap_or_default().as_secs().to_string(),
    };
}

impl Form<String> {
    /// A text.
    pub(crate) const TEXT: Self =
        Self { read: |value| value.text().map(str::to_owned), write: |value| quoted(value) };
}

impl Form<Option<String>> {
    /// A text that may be missing.
    pub(crate) const OPTIONAL_TEXT: Self = Self {
        read: |value| value.text().map(|text| Some(text.to_owned())),
        write: |value| optional(value.as_ref(), |text| quoted(text)),
    };
}

pub(crate) fn texts(value: &Checked) -> Option<Vec<String>> {
    match value {
        Checked::List(nodes) => {
            Some(nodes.iter().filter_map(|node| node.value.text().map(str::to_owned)).collect())
        }
        _ => None,
    }
}

pub(crate) fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

impl Form<Vec<String>> {
    /// A list of texts.
    pub(crate) const TEXTS: Self = Self { read: texts, write: |value| list(value) };
}

impl Form<Option<Vec<String>>> {
    /// A list of texts that may be missing.
    pub(crate) const OPTIONAL_TEXTS: Self = Self {
        read: |value| texts(value).map(Some),
        write: |value| optional(value.as_ref(), |texts| list(texts)),
    };
}

impl Form<Price> {
    /// An exact decimal.
    pub(crate) const PRICE: Self = Self {
        read: |value| match value {
            Checked::Price(price) => Some(*price),
            _ => None,
        },
        write: |price| {
            let digits = price.to_string();
            if digits.contains('.') { digits } else { digits + ".0" }
        },
    };
}

impl Form<UnitPrice> {
    /// The price of one unit.
    pub(crate) const UNIT_PRICE: Self = Self {
        read: |value| match value {
            Checked::UnitPrice(price) => Some(*price),
            _ => None,
        },
        write: ToString::to_string,
    };
}

impl Form<Option<UnitPrice>> {
    /// The price of one unit, which may be missing.
    pub(crate) const OPTIONAL_UNIT_PRICE: Self = Self {
        read: |value| match value {
            Checked::UnitPrice(price) => Some(Some(*price)),
            _ => None,
        },
        write: |value| optional(value.as_ref(), ToString::to_string),
    };
}

impl<V: Defaults> Form<V> {
    /// A table. It is never written.
    pub(crate) const TABLE: Self =
        Self { read: |value| Some(filled(Some(value.table()?))), write: |_| String::new() };
}

impl<V: Defaults> Form<Option<V>> {
    /// A table that may be missing. It is never written.
    pub(crate) const OPTIONAL_TABLE: Self =
        Self { read: |value| Some(Some(filled(Some(value.table()?)))), write: |_| String::new() };
}

impl<V: Defaults> Form<Option<Vec<V>>> {
    /// A list of tables that may be missing. It is never written.
    pub(crate) const OPTIONAL_TABLES: Self = Self {
        read: |value| match value {
            Checked::List(nodes) => {
                Some(Some(nodes.iter().filter_map(|node| Some(filled(Some(node.value.table()?)))).collect()))
            }
            _ => None,
        },
        write: |_| String::new(),
    };
}

impl Form<Vec<(String, SecretString)>> {
    /// Headers. They are never written.
    pub(crate) const HEADERS: Self = Self {
        read: |value| match value {
            Checked::Map(entries) => {
                let header = |(name, node): &(String, Node)| Some((name.clone(), secret(&node.value)?));
                Some(entries.iter().filter_map(header).collect())
            }
            _ => None,
        },
        write: |_| String::new(),
    };
}

impl Form<toml::Value> {
    /// A value that an adapter reads. It is never written.
    pub(crate) const OPTION: Self = Self { read: as_toml, write: |_| String::new() };
}

/// A text, a path, a number, a boolean or a map as TOML.
fn as_toml(value: &Checked) -> Option<toml::Value> {
    Some(match value {
        Checked::Int(value) => toml::Value::Integer(*value),
        Checked::Bool(value) => toml::Value::Boolean(*value),
        Checked::Path(path) => toml::Value::String(path.to_str()?.to_owned()),
        Checked::Map(entries) => {
            let entries =
                entries.iter().filter_map(|(name, node)| Some((name.clone(), as_toml(&node.value)?)));
            toml::Value::Table(entries.collect())
        }
        other => toml::Value::String(other.text()?.to_owned()),
    })
}

impl Form<Option<SecretString>> {
    /// A secret that may be missing. It is never written.
    pub(crate) const OPTIONAL_SECRET: Self =
        Self { read: |value| secret(value).map(Some), write: |_| String::new() };
}

impl Form<Option<Price>> {
    /// An exact decimal that may be missing.
    pub(crate) const OPTIONAL_PRICE: Self = Self {
        read: |value| match value {
            Checked::Price(price) => Some(Some(*price)),
            _ => None,
        },
        write: |value| optional(value.as_ref(), ToString::to_string),
    };
}

impl Form<SecretString> {
    /// A secret. It is never written.
    pub(crate) const SECRET: Self = Self { read: secret, write: |_| String::new() };
}

fn secret(value: &Checked) -> Option<SecretString> {
    match value {
        Checked::Secret(secret) => Some(secret.clone()),
        _ => None,
    }
}

fn time(value: &Checked) -> Option<i64> {
    match value {
        Checked::Time(seconds) => Some(*seconds),
        _ => None,
    }
}

impl Form<i64> {
    /// A time in unix seconds.
    pub(crate) const TIME: Self = Self { read: time, write: ToString::to_string };
}

impl Form<Option<i64>> {
    /// A time in unix seconds that may be missing.
    pub(crate) const OPTIONAL_TIME: Self = Self {
        read: |value| time(value).map(Some),
        write: |value| optional(value.as_ref(), ToString::to_string),
    };
}

impl Form<Role> {
    /// The role of a key.
    pub(crate) const ROLE: Self =
        Self { read: |value| Role::parse(value.text()?), write: |role| quoted(role.as_str()) };
}

impl Form<PathBuf> {
    /// A path.
    pub(crate) const FILE: Self = Self {
        read: |value| match value {
            Checked::Path(path) => Some(path.clone()),
            _ => None,
        },
        write: |path| quoted(&path.to_string_lossy()),
    };
}

impl Form<Option<PathBuf>> {
    /// A path that may be missing.
    pub(crate) const OPTIONAL_FILE: Self = Self {
        read: |value| match value {
            Checked::Path(path) => Some(Some(path.clone())),
            _ => None,
        },
        write: |value| optional(value.as_ref(), |path| quoted(&path.to_string_lossy())),
    };
}
