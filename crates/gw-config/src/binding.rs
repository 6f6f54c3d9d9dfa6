//! The fields that the keys of the schema set. A row of the schema names its field, so a setting is spelled once: the row has the key, its
//! values, its meaning and its field, and the default is the value that the field has in the settings of an empty file.

mod defaults;
mod form;

use std::any::Any;
use std::fmt;

use self::defaults::Defaults;
pub(super) use self::form::{Form, list, quoted, texts};
use super::schema::Binding;
use super::tree::{Checked, Table};

/// A field of the settings `S`.
pub(super) struct Field<S: 'static, V: 'static> {
    /// The field.
    pub(super) place: fn(&mut S) -> &mut V,
    /// How its value is written in the file.
    pub(super) form: Form<V>,
}

impl<S, V> fmt::Debug for Field<S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<S>())
    }
}

impl<S: Defaults, V> Binding for Field<S, V> {
    fn set(&self, settings: &mut dyn Any, value: &Checked) {
        if let (Some(settings), Some(value)) = (settings.downcast_mut(), (self.form.read)(value)) {
            *(self.place)(settings) = value;
        }
    }

    fn default(&self) -> String {
        (self.form.write)((self.place)(&mut S::defaults()))
    }
}

/// A change of the settings `S`, for a key whose value is not that of one field.
pub(super) struct Change<S: 'static, V: 'static> {
    /// How the value is written in the file.
    pub(super) form: Form<V>,
    /// Changes the settings. The keys of a table do it in the order of their rows.
    pub(super) apply: fn(&mut S, V),
    /// The value in the settings of an empty file, if they have one.
    pub(super) default: fn(&S) -> Option<V>,
}

impl<S, V> fmt::Debug for Change<S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<S>())
    }
}

impl<S: Defaults, V> Binding for Change<S, V> {
    fn set(&self, settings: &mut dyn Any, value: &Checked) {
        if let (Some(settings), Some(value)) = (settings.downcast_mut(), (self.form.read)(value)) {
            (self.apply)(settings, value);
        }
    }

    fn default(&self) -> String {
        (self.default)(&S::defaults()).map(|value| (self.form.write)(&value)).unwrap_or_default()
    }
}

/// Sets the fields of `settings` that the written keys of a table have, and those of the tables in it.
pub(super) fn fill<S: 'static>(settings: &mut S, table: &Table) {
    for key in table.section.keys {
        match (key.binding, table.nodes.get(key.name).map(|node| &node.value)) {
            (Some(binding), Some(value)) => binding.set(settings, value),
            (None, Some(Checked::Table(below))) => fill(settings, below),
            _ => {}
        }
    }
}

/// The settings of a table, which may be missing.
pub(super) fn filled<S: Defaults>(table: Option<&Table>) -> S {
    let mut settings = S::defaults();
    if let Some(table) = table {
        fill(&mut settings, table);
    }
    settings
}

/// The field of a key: `field!(ServerSettings, listen, Form::TEXT)`.
macro_rules! field {
    ($settings:ty, $($field:ident).+ $([$index:literal])?, $form:expr) => {
        &$crate::binding::Field {
            place: |settings: &mut $settings| &mut settings.$($field).+ $([$index])?,
            form: $form,
        }
    };
}

/// The words of a key and the values that they set: `words!(RoutingSettings, drain_on_disconnect, "cancel" => false, "drain" => true)`.
/// Other spellings of a word follow it after a bar.
macro_rules! words {
    ($settings:ty, $($field:ident).+, $($word:literal $(| $spelling:literal)* => $value:expr),+ $(,)?) => {
        (
            $crate::schema::Kind::Choice(&[$(($word, &[$($spelling),*])),+]),
            &$crate::binding::Field {
                place: |settings: &mut $settings| &mut settings.$($field).+,
                form: $crate::binding::Form {
                    read: |value| match value.text()? {
                        $($word => Some($value),)+
                        _ => None,
                    },
                    write: |value| {
                        let all = [$(($word, $value)),+];
                        let found = all.iter().find(|(_, other)| other == value);
                        found.map(|(word, _)| $crate::binding::quoted(word)).unwrap_or_default()
                    },
                },
            },
        )
    };
}

pub(super) use {field, words};
