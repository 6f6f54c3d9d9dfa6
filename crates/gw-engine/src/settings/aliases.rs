//! The settings of aliases: their targets, and their changes to requests.

use std::collections::BTreeMap;

use gw_providers::settings::PromptCacheSettings;
use serde_json::Value;

/// The aliases by their names.
pub type Aliases = BTreeMap<String, AliasSettings>;

/// One alias.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AliasSettings {
    /// The ids, bare names or other aliases that the alias stands for, each once.
    pub targets: Vec<String>,
    /// The targets with their conditions. Empty: no target has one.
    pub conditional: Vec<ConditionalTarget>,
    /// Whether the alias has a second name that the model discovery of Claude Code keeps.
    pub has_claude_name: bool,
    /// Breakpoints of prompt caches in requests that name the alias.
    pub prompt_cache: Option<PromptCacheSettings>,
    /// The changes that the alias makes to requests.
    pub preset: PresetSettings,
    /// Identifies this state of the alias: the number of the change for an entry of the API, else a hash of the entry.
    pub version: String,
}

impl AliasSettings {
    /// Whether the alias does no more than stand for its targets.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.conditional.is_empty() && self.preset == PresetSettings::default()
    }
}

/// The changes that an alias makes to requests. The names of parameters are those of chat completions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresetSettings {
    /// Parameters for requests that do not have them.
    pub defaults: Vec<(String, Value)>,
    /// Parameters for all requests.
    pub overrides: Vec<(String, Value)>,
    /// Parameters that no request keeps.
    pub strip: Vec<String>,
    /// A system prompt.
    pub system: Option<String>,
    /// The place of the system prompt.
    pub system_mode: SystemMode,
}

/// The place of a preset's system prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemMode {
    /// Before the system prompts of the client.
    #[default]
    Prepend,
    /// In place of the system prompts of the client.
    Replace,
}

/// A target, and the requests that it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionalTarget {
    /// The id, bare name or other alias.
    pub model: String,
    /// None: the target is for the requests that no other target matches.
    pub condition: Option<TargetMatch>,
}

/// The requests that a target is for. A request must match each member that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetMatch {
    /// Headers with their values. The names are in lower case.
    pub headers: Vec<(String, String)>,
    /// Tags, of which the request has one.
    pub tags: Vec<String>,
    /// Names or ids of keys.
    pub keys: Vec<String>,
    /// Teams of keys.
    pub teams: Vec<String>,
    /// Features that the request needs, each of them.
    pub features: Vec<ModelFeature>,
    /// The prompt has more tokens than this.
    pub prompt_tokens_above: Option<u64>,
    /// The prompt has fewer tokens than this.
    pub prompt_tokens_below: Option<u64>,
}

/// A feature of models that a request may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFeature {
    /// Tools.
    FunctionCalling,
    /// Images in the messages.
    Vision,
    /// Audio in the messages.
    Audio,
    /// `response_format` of the type `json_object`.
    JsonMode,
    /// `response_format` of the type `json_schema`.
    JsonSchema,
}
