//! The problems of a catalogue.

use std::fmt;

/// A model, an alias or a document that the catalogue cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogProblem {
    /// The entry of the configuration that has the problem. None: it is in a document of the catalogue.
    pub entry: Option<ConfiguredEntry>,
    /// The problem, as a sentence for the operator.
    pub message: String,
}

/// An entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfiguredEntry {
    /// The model with this id. It may also be known from the shipped catalogue or a provider's list alone.
    Model(String),
    /// The alias of this name.
    Alias(String),
}

impl CatalogProblem {
    /// A problem of a document.
    pub(super) fn of_document(message: String) -> Self {
        Self { entry: None, message }
    }

    /// A problem of the model with this id.
    pub(super) fn of_model(id: &str, message: String) -> Self {
        Self { entry: Some(ConfiguredEntry::Model(id.to_owned())), message }
    }

    /// A problem of the alias of this name.
    pub(super) fn of_alias(name: &str, message: String) -> Self {
        Self { entry: Some(ConfiguredEntry::Alias(name.to_owned())), message }
    }
}

impl fmt::Display for CatalogProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
