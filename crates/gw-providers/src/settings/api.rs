//! The dialect of a provider, as a row of the table in `registry.rs`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use gw_wire::request::native_policy::Surface;

use super::{ProviderSettings, SettingsError};
use crate::adapter::Built;
use crate::model_rules::RuleSource;
use crate::presets::Quirks;

/// Everything that the gateway knows about a dialect beside its adapter.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent facts, not a state")]
pub struct ApiRow {
    /// The name in gateway.toml.
    pub name: &'static str,
    /// `gen_ai.provider.name` of OpenTelemetry's conventions. None: each provider keeps its own name.
    pub semantic_name: Option<&'static str>,
    /// Sets the adapter up for one provider. The message of an error holds no secret.
    pub build: fn(&ProviderSettings) -> Result<Built, SettingsError>,
    /// Where the rules of its models stand.
    pub rules: RuleSource,
    /// The members with a [`gw_wire::request::Rule`] that the dialect can forward, in the API's spelling; None means
    /// all of them.
    pub guarded_members: Option<&'static [&'static str]>,
    /// The surface whose requests a provider of this API gets as the client wrote them.
    pub native_surface: Option<Surface>,
    /// The settings of a provider that only some dialects have and that this one has.
    pub options: &'static [&'static str],
    /// The most inputs of one embeddings call. None: the preset of the provider says it.
    pub embedding_batch: Option<usize>,
    /// The deviations from OpenAI's dialect of every provider. None: the preset of the provider says them.
    pub quirks: Option<Quirks>,
    /// The kind of value in the usual environment variable of a provider.
    pub variable: VariableHolds,
    /// Many vendors have this API, so it gives no address.
    pub is_shared: bool,
    /// The upstream is the demo in this process: it has no address, no key and no price.
    pub is_demo: bool,
    /// The API can have the name of a model in its URLs.
    pub names_models_in_urls: bool,
    /// Answers report the web searches that a chat with `web_search_options` made.
    pub counts_searches: bool,
    /// Answers have OpenAI's format.
    pub answers_as_openai: bool,
    /// The media type of a stream.
    pub stream_type: &'static str,
    /// The statuses of an answer to a request with a wrong key.
    pub wrong_key_statuses: &'static [u16],
}

/// The kind of value in the usual environment variable of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableHolds {
    /// The key, and the provider needs nothing else.
    Key,
    /// The key. The environment must have the region too.
    KeyBesideRegion,
    /// The address of a server. Its models come from its own list.
    Address,
}

/// The dialect of a provider. Two are equal if their names are.
#[derive(Clone, Copy)]
pub struct Api(&'static ApiRow);

impl Api {
    pub(crate) const fn new(row: &'static ApiRow) -> Self {
        Self(row)
    }

    /// The name in gateway.toml.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0.name
    }
}

impl Deref for Api {
    type Target = ApiRow;

    fn deref(&self) -> &ApiRow {
        self.0
    }
}

impl PartialEq for Api {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Api {}

impl Hash for Api {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
