//! The types of the schema: what a key of gateway.toml may hold. [`super::tables`] is written with them.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;

use super::tree::Checked;

/// A table of gateway.toml.
#[derive(Debug)]
pub(super) struct Section {
    /// One or two sentences for the reference.
    pub(super) doc: &'static str,
    /// Its keys in the order of the reference.
    pub(super) keys: &'static [Key],
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// The field of the settings that the key sets. None: the code that builds the section reads the key.
    pub(super) binding: Option<&'static dyn Binding>,
    /// The default as TOML or in words. Empty: no default. None: the value of the field in the settings of an empty file.
    stated_default: Option<&'static str>,
    pub(super) doc: &'static str,
}

/// The field that a key sets.
pub(super) trait Binding: fmt::Debug + Sync {
    /// Sets the field, if `settings` are those that have it.
    fn set(&self, settings: &mut dyn Any, value: &Checked);
    /// The value of the field in the settings of an empty file, as TOML. Empty: it has none.
    fn default(&self) -> String;
}

/// The kind of a value.
#[derive(Debug)]
pub(super) enum Kind {
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// An exact decimal, not negative.
    Price,
    /// The price of one unit: an exact decimal, not negative, with up to 15 digits after the point.
    UnitPrice,
    Text(&'static TextFormat),
    /// A string or `{ file = "path" }` that is never shown.
    Secret(&'static TextFormat),
    /// A path, relative to the directory of the configuration file.
    Path,
    /// One of several words, each with its other spellings.
    Choice(&'static [Word]),
    /// One of several words, or a text of this shape.
    ChoiceOr(&'static [Word], &'static TextFormat),
    /// A date and time with an offset.
    Time,
    /// A list with at least `min` values.
    List {
        of: &'static Kind,
        min: usize,
    },
    /// A table whose keys the user chooses.
    Map {
        key: &'static TextFormat,
        of: &'static Kind,
    },
    /// Any value, as JSON.
    Json,
    Table(&'static Section),
    /// `[[name]]`
    Tables(&'static Section),
    Either(&'static Kind, &'static Kind),
}

/// A word and its other spellings.
pub(super) type Word = (&'static str, &'static [&'static str]);

/// The shape of a string.
#[derive(Debug)]
pub(super) struct TextFormat {
    /// The shape in words, to follow "a string: ".
    pub(super) shape: &'static str,
    /// Checks a text.
    pub(super) check: Check,
}

/// Checks a text. The error is a constant, so it cannot show the text.
pub(super) type Check = fn(&str) -> Result<(), &'static str>;

/// An optional key without a field of its own: a table whose keys have fields.
pub(super) const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { stated_default: Some(default), ..row(name, kind, doc) }
}

/// A required key.
pub(super) const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { required: true, stated_default: Some(""), ..row(name, kind, doc) }
}

/// A required key that sets a field.
pub(super) const fn required_setting(
    name: &'static str,
    kind: Kind,
    binding: &'static dyn Binding,
    doc: &'static str,
) -> Key {
    Key { binding: Some(binding), ..required(name, kind, doc) }
}

/// A key that sets a field, and has its default there.
pub(super) const fn setting(
    name: &'static str,
    kind: Kind,
    binding: &'static dyn Binding,
    doc: &'static str,
) -> Key {
    Key { binding: Some(binding), ..row(name, kind, doc) }
}

/// A key that sets a field. `default` says what holds without the key.
pub(super) const fn setting_or(
    name: &'static str,
    kind: Kind,
    binding: &'static dyn Binding,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key { stated_default: Some(default), ..setting(name, kind, binding, doc) }
}

/// A key that sets a field by words.
pub(super) const fn words_of(
    name: &'static str,
    (kind, binding): (Kind, &'static dyn Binding),
    doc: &'static str,
) -> Key {
    setting(name, kind, binding, doc)
}

const fn row(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, required: false, binding: None, stated_default: None, doc }
}

impl Key {
    /// The key with another meaning.
    pub(super) const fn with_doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// The default as TOML or in words. Empty: no default.
    pub(super) fn default(&self) -> Cow<'static, str> {
        match (self.stated_default, self.binding) {
            (Some(default), _) => Cow::Borrowed(default),
            (None, Some(binding)) => Cow::Owned(binding.default()),
            (None, None) => Cow::Borrowed(""),
        }
    }
}

impl Section {
    /// The key of this name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The names of all keys.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }
}

impl Kind {
    /// Whether an environment variable can hold it.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Int { .. }
            | Self::Number { .. }
            | Self::Price
            | Self::UnitPrice
            | Self::Text(_)
            | Self::Secret(_)
            | Self::Path
            | Self::Choice(_)
            | Self::ChoiceOr(..)
            | Self::Time => true,
            Self::List { .. }
            | Self::Map { .. }
            | Self::Json
            | Self::Table(_)
            | Self::Tables(_)
            | Self::Either(..) => false,
        }
    }

    /// The expected values in words.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Price | Self::UnitPrice => "a decimal number, not negative".to_owned(),
            Self::Text(format) => format!("a string: {}", format.shape),
            Self::Secret(format) => format!("a string ({}) or {{ file = \"path\" }}", format.shape),
            Self::Path => "a string: a path, relative to the configuration file".to_owned(),
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
            Self::ChoiceOr(words, format) => {
                format!("{}, or a string: {}", Self::Choice(words).describe(), format.shape)
            }
            Self::Time => "a date and time with an offset, such as 2027-01-01T00:00:00Z".to_owned(),
            Self::List { of, .. } => format!("a list, each {}", of.describe()),
            Self::Map { key, of } => format!("a table of {} = {}", key.shape, of.describe()),
            Self::Json => "any value".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) => "a list of tables".to_owned(),
            Self::Either(one, other) => format!("{}, or {}", one.describe(), other.describe()),
        }
    }
}
