//! The configuration: reads gateway.toml, checks it as a whole, builds the settings of the other crates, and keeps what the management
//! API changes beside the file.
//!
//! [`load`] reads the file against the schema of its settings. [`setup`] completes the settings with the providers of the environment
//! and builds what needs no network. [`stored_configuration`] merges the file with the entries that the API has stored.

mod binding;
mod build;
pub mod catalogue_update;
pub mod default_providers;
mod document;
mod effective;
pub mod encryption_key;
mod entry_locations;
mod file;
mod fingerprint;
mod formats;
mod interpolate;
mod json_schema;
pub mod key_strength;
mod loader;
mod masked;
pub mod opened_members;
mod overlay;
pub mod paths;
mod preset_names;
mod problems;
mod raw;
mod reference;
mod report_api;
mod scalar;
mod schema;
mod secret;
mod settings;
pub mod setup;
pub mod stored_configuration;
mod tables;
mod tree;
mod variable_hints;
mod visit;
mod walk;

#[cfg(test)]
mod tests;

pub use self::document::toml_text;
pub use self::effective::{EffectiveValue, Origin};
pub use self::fingerprint::{Fingerprints, provider_path};
pub use self::json_schema::json_schema;
pub use self::loader::{effective, load, load_text, parse, read_text};
pub use self::problems::{AcceptedMembers, Location, Problem};
pub use self::raw::{NAMED_LISTS, Place, RawFile, raw_file};
pub use self::reference::reference;
pub use self::report_api::ReportApi;
pub use self::settings::{
    CacheSettings, Config, IdentitySettings, Loaded, Lookup, Readable, ReconcileSettings, Refused, Source,
    StoreContent, StoreSettings,
};
pub use self::visit::{Leaf, section_keys, visit_section};
