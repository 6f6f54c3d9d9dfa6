//! One row of model rules, read from TOML. The default of every member is the value without a restriction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::effort::{Effort, Efforts};

/// The place of the system prompt.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// The dialect's own place.
    #[default]
    Taken,
    /// The beginning of the user's first message, because the model refuses system prompts.
    InUserTurn,
}

/// Whether a request can force a tool call.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedTools {
    /// It can force any tool or a named one.
    #[default]
    Named,
    /// It can force any tool, but not a named one.
    Any,
    /// It cannot. The model refuses the request.
    Refused,
}

/// Whether a conversation may end with an assistant's message, which the model then continues.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefill {
    /// Yes.
    #[default]
    Taken,
    /// Yes, if the message is marked with `prefix: true`.
    Marked,
    /// Only while the model does not reason.
    WithoutThinking,
    /// No. The last message must be the user's.
    Refused,
}

/// When a model reasons, and how a request asks for it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinks {
    /// Unknown. No effort is sent.
    #[default]
    Unknown,
    /// Never.
    Never,
    /// On request, within a budget of tokens.
    Budget,
    /// On request.
    WhenAsked,
    /// By default, unless the request switches it off.
    Usually,
    /// Always.
    Always,
}

/// How a request switches reasoning off.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// By leaving the member out.
    #[default]
    Omit,
    /// By a value (`disabled`, `false`, `none`, a budget of 0).
    Disabled,
    /// By `between_tools`: the model reasons only between tool calls.
    BetweenTools,
    /// It cannot. The lowest effort is sent instead.
    Least,
}

/// The sampling parameters that a model accepts.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// `temperature` and `top_p`.
    #[default]
    Both,
    /// One of the two at a time.
    One,
    /// Neither. Values other than the default are refused or ignored.
    Fixed,
    /// Neither while the model reasons.
    FixedWhileThinking,
}

/// How an answer is bound to a JSON schema.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaRule {
    /// By the API's own structured output.
    #[default]
    Native,
    /// By a tool that must be called.
    Tool,
    /// By an instruction in the prompt.
    Words,
}

/// The language of a schema.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaDialect {
    /// JSON Schema.
    #[default]
    JsonSchema,
    /// The part of OpenAPI's schema language that Gemini reads.
    OpenApi,
    /// JSON Schema without members about the schema itself at its top level.
    Bare,
}

/// Whether a model reports log probabilities.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsRule {
    /// Yes.
    #[default]
    Reported,
    /// Only on Vertex AI.
    OnVertex,
    /// No. The model refuses the request.
    Refused,
}

/// The places where cache points are accepted.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePoints {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In messages and in the system prompt.
    Messages,
    /// In messages, in the system prompt and after tools.
    Tools,
}

/// The name of the limit of generated tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// `max_tokens`.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// The field of Bedrock's model-specific fields that holds the effort.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// `reasoning_effort`.
    #[default]
    ReasoningEffort,
    /// `reasoningConfig.maxReasoningEffort`.
    ReasoningConfig,
}

/// The efforts that are accepted beside function tools at `/chat/completions`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortBesideTools {
    /// Every effort of the model.
    #[default]
    Any,
    /// Only `none`, which is the default.
    Absent,
    /// Only `none`, which must be sent.
    None,
}

/// The rules of one model, or of several similar ones.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent demands, not a state")]
pub struct Row {
    /// The name of the row in documents and warnings.
    pub name: String,
    /// The names of the models; see the module.
    #[serde(skip_serializing)]
    pub names: Vec<String>,
    /// The families whose newest model this is.
    #[serde(skip_serializing)]
    pub newest_of: Vec<String>,
    /// The source of the facts.
    pub source: String,
    /// The date on which the source was read.
    pub as_of: String,
    /// The place of the system prompt.
    pub system: System,
    /// Whether a request can force a tool call.
    pub forced_tools: ForcedTools,
    /// Whether the conversation may end with an assistant's message.
    pub prefill: Prefill,
    /// When the model reasons.
    pub thinks: Thinks,
    /// How a request switches reasoning off.
    pub thinking_off: Off,
    /// The efforts that the model accepts by name.
    pub efforts: Efforts,
    /// Replacements for efforts that the model does not accept.
    pub instead: BTreeMap<Effort, Effort>,
    /// The field of Bedrock that holds the effort.
    pub effort_field: EffortField,
    /// The efforts that OpenAI's own API accepts beside function tools.
    pub effort_beside_tools: EffortBesideTools,
    /// The highest effort that is accepted while reasoning is off.
    pub effort_most_when_off: Option<Effort>,
    /// The token budget of each effort, for models whose reasoning is bounded by tokens.
    pub budgets: BTreeMap<Effort, u64>,
    /// The effort beside which the model accepts neither a token limit nor sampling parameters.
    pub unbound_at: Option<Effort>,
    /// The model shows the text of its reasoning only on request.
    pub hides_thoughts: bool,
    /// The sampling parameters that the model accepts.
    pub sampling: Sampling,
    /// Whether the model accepts stop sequences.
    pub stop: bool,
    /// The highest temperature.
    pub temperature_most: f64,
    /// The bounds of `top_p`.
    pub top_p: [f64; 2],
    /// `top_p` must be 1 when the temperature is 0.
    pub greedy_top_p: bool,
    /// The bounds of both penalties. Equal bounds mean that penalties are refused.
    pub penalties: [f64; 2],
    /// Whether the model reports log probabilities.
    pub logprobs: LogprobsRule,
    /// How an answer is bound to a schema.
    pub schema: SchemaRule,
    /// The language of a schema.
    pub schema_dialect: SchemaDialect,
    /// The model refuses a response format beside tools.
    pub schema_without_tools: bool,
    /// Answers hold signed reasoning or calls, which the next request must return.
    pub signs: bool,
    /// The result of a tool may have a status.
    pub result_status: bool,
    /// The places where cache points are accepted.
    pub cache_points: CachePoints,
    /// A cache point may last an hour.
    pub cache_hour: bool,
    /// The name of the token limit.
    pub limit_name: LimitName,
    /// The model completes text between `prompt` and `suffix`.
    pub fills_in: bool,
    /// The model makes images by `predict` instead of `generateContent`.
    pub predicts_images: bool,
    /// Answers on OpenAI's Responses API may consist of several messages with a `phase` each.
    pub answers_in_phases: bool,
    /// Tokens of prompt and answer together, if equal for all models of the row.
    pub context_tokens: Option<u64>,
    /// The most tokens of an answer, if equal for all models of the row.
    pub max_output_tokens: Option<u64>,
    /// The source of these two limits; empty without limits.
    pub limits_source: String,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            name: "any".to_owned(),
            names: Vec::new(),
            newest_of: Vec::new(),
            source: String::new(),
            as_of: String::new(),
            system: System::default(),
            forced_tools: ForcedTools::default(),
            prefill: Prefill::default(),
            thinks: Thinks::default(),
            thinking_off: Off::default(),
            efforts: Efforts::default(),
            instead: BTreeMap::new(),
            effort_field: EffortField::default(),
            effort_beside_tools: EffortBesideTools::default(),
            effort_most_when_off: None,
            budgets: BTreeMap::new(),
            unbound_at: None,
            hides_thoughts: false,
            sampling: Sampling::default(),
            stop: true,
            temperature_most: 2.0,
            top_p: [0.0, 1.0],
            greedy_top_p: false,
            penalties: [-2.0, 2.0],
            logprobs: LogprobsRule::default(),
            schema: SchemaRule::default(),
            schema_dialect: SchemaDialect::default(),
            schema_without_tools: false,
            signs: false,
            result_status: false,
            cache_points: CachePoints::default(),
            cache_hour: false,
            limit_name: LimitName::default(),
            fills_in: false,
            predicts_images: false,
            answers_in_phases: false,
            context_tokens: None,
            max_output_tokens: None,
            limits_source: String::new(),
        }
    }
}

impl Row {
    /// Whether the model reasons about a request that says nothing about it.
    #[must_use]
    pub fn reasons_unasked(&self) -> bool {
        match self.thinks {
            Thinks::Usually | Thinks::Always => true,
            // A model whose reasoning must be switched off reasons until then.
            Thinks::Budget => self.thinking_off != Off::Omit,
            Thinks::Unknown | Thinks::Never | Thinks::WhenAsked => false,
        }
    }

    /// The effort that replaces a requested one; None when the model accepts no effort by name.
    #[must_use]
    pub fn effort(&self, wanted: Effort) -> Option<Effort> {
        self.efforts.fit(wanted, &self.instead)
    }

    /// Whether the model accepts penalties.
    #[must_use]
    pub fn takes_penalties(&self) -> bool {
        let [least, most] = self.penalties;
        least < most
    }

    /// Whether the model accepts cache points in messages.
    #[must_use]
    pub fn caches(&self) -> bool {
        self.cache_points != CachePoints::Nowhere
    }
}
