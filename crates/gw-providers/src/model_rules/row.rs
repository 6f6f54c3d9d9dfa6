//! One row: what a model demands. Plain data, read from TOML; every member has a value that forbids nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::effort::{Effort, Efforts};

/// Where the system prompt goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Where the dialect has it.
    #[default]
    Taken,
    /// The model refuses one: its text begins the user's first turn.
    InUserTurn,
}

/// Whether a tool call can be forced.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedTools {
    /// Any, or one of several by its name.
    #[default]
    Named,
    /// Any, but none by its name.
    Any,
    /// No: such a request is refused.
    Refused,
}

/// Whether a conversation may end with the assistant, so that the model goes on with that text.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefill {
    /// Yes.
    #[default]
    Taken,
    /// Yes, if the last message is marked `prefix: true`.
    Marked,
    /// Only while the model does not think.
    WithoutThinking,
    /// No: the user must speak last.
    Refused,
}

/// When a model thinks, and how it is asked to.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinks {
    /// Nobody knows: an effort is not sent.
    #[default]
    Unknown,
    /// Not at all.
    Never,
    /// Within a budget of tokens, when asked.
    Budget,
    /// When asked.
    WhenAsked,
    /// By itself, unless told not to.
    Usually,
    /// By itself, and cannot be told not to.
    Always,
}

/// How a model is told not to think.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// By not asking it to.
    #[default]
    Omit,
    /// In so many words (`disabled`, `false`, `none`, a budget of 0).
    Disabled,
    /// `between_tools`: it thinks between tool calls only.
    BetweenTools,
    /// It cannot be told: the least effort stands in.
    Least,
}

/// Which of `temperature` and `top_p` are taken.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Both.
    #[default]
    Both,
    /// One of the two.
    One,
    /// Neither: any value but the default is refused or ignored.
    Fixed,
    /// Neither while the model thinks.
    FixedWhileThinking,
}

/// How an answer is held to a JSON schema.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaRule {
    /// By the API's own structured output.
    #[default]
    Native,
    /// By a tool that must be called.
    Tool,
    /// In words only.
    Words,
}

/// What a schema is written in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaDialect {
    /// JSON Schema as it is.
    #[default]
    JsonSchema,
    /// The subset of OpenAPI's that Gemini reads.
    OpenApi,
    /// JSON Schema without words about the schema at its top.
    Bare,
}

/// Whether log probabilities are told.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsRule {
    /// Yes.
    #[default]
    Told,
    /// On Vertex AI only.
    OnVertex,
    /// No: such a request is refused.
    Refused,
}

/// Where cache points may stand.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePoints {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In messages and in the system prompt.
    Messages,
    /// There, and behind tools.
    Tools,
}

/// What the limit of generated tokens is called.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// `max_tokens`.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// Where an effort stands among the fields that Bedrock hands on to the model.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// `reasoning_effort`.
    #[default]
    ReasoningEffort,
    /// `reasoningConfig.maxReasoningEffort`.
    ReasoningConfig,
}

/// Which effort may stand beside function tools at `/chat/completions`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortBesideTools {
    /// Each that the model takes.
    #[default]
    Any,
    /// None but `none`, which is the default.
    Absent,
    /// `none`, and it must stand there.
    None,
}

/// What one model, or several of the same kind, demand of a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent demands, not a state")]
pub struct Row {
    /// The row's name, shown to people.
    pub name: String,
    /// The names that it holds for; see the module.
    #[serde(skip_serializing)]
    pub names: Vec<String>,
    /// The families of which it is the newest.
    #[serde(skip_serializing)]
    pub newest_of: Vec<String>,
    /// Where the facts are from.
    pub source: String,
    /// When they were read there.
    pub as_of: String,
    /// Where the system prompt goes.
    pub system: System,
    /// Whether a tool call can be forced.
    pub forced_tools: ForcedTools,
    /// Whether the conversation may end with the assistant.
    pub prefill: Prefill,
    /// When it thinks.
    pub thinks: Thinks,
    /// How it is told not to think.
    pub thinking_off: Off,
    /// The efforts that it takes by name.
    pub efforts: Efforts,
    /// Efforts that stand for others which it does not take.
    pub instead: BTreeMap<Effort, Effort>,
    /// Where Bedrock hands an effort on.
    pub effort_field: EffortField,
    /// Which effort may stand beside function tools at OpenAI's own API.
    pub effort_beside_tools: EffortBesideTools,
    /// The greatest effort that is taken while thinking is off.
    pub effort_most_when_off: Option<Effort>,
    /// The tokens that each effort stands for, where thinking is bounded by tokens.
    pub budgets: BTreeMap<Effort, u64>,
    /// The greatest effort takes no token limit and no sampling parameters beside it.
    pub unbound_at: Option<Effort>,
    /// The text of its thoughts is given only on demand.
    pub hides_thoughts: bool,
    /// Which sampling parameters are taken.
    pub sampling: Sampling,
    /// Whether stop sequences are taken.
    pub stop: bool,
    /// The highest temperature.
    pub temperature_most: f64,
    /// The bounds of `top_p`.
    pub top_p: [f64; 2],
    /// `top_p` must be 1 where the temperature is 0.
    pub greedy_top_p: bool,
    /// The bounds of both penalties; equal bounds mean that they are refused.
    pub penalties: [f64; 2],
    /// Whether log probabilities are told.
    pub logprobs: LogprobsRule,
    /// How an answer is held to a schema.
    pub schema: SchemaRule,
    /// What a schema is written in.
    pub schema_dialect: SchemaDialect,
    /// A form of the answer is refused beside tools.
    pub schema_without_tools: bool,
    /// Signed thoughts or calls come with its answers and must come back.
    pub signs: bool,
    /// The result of a tool may carry a status.
    pub result_status: bool,
    /// Where cache points may stand.
    pub cache_points: CachePoints,
    /// A cache point may ask for an hour.
    pub cache_hour: bool,
    /// What the token limit is called.
    pub limit_name: LimitName,
    /// Completes text between `prompt` and `suffix`.
    pub fills_in: bool,
    /// Tokens of prompt and answer together, where all models of the row have the same.
    pub context_tokens: Option<u64>,
    /// The most tokens of an answer, where all models of the row have the same.
    pub max_output_tokens: Option<u64>,
    /// Where these two are from; empty when there are none.
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
            context_tokens: None,
            max_output_tokens: None,
            limits_source: String::new(),
        }
    }
}

impl Row {
    /// The effort that is sent for a wanted one; None where the model takes none by name.
    #[must_use]
    pub fn effort(&self, wanted: Effort) -> Option<Effort> {
        self.efforts.fit(wanted, &self.instead)
    }

    /// Whether penalties are taken at all.
    #[must_use]
    pub fn takes_penalties(&self) -> bool {
        let [least, most] = self.penalties;
        least < most
    }

    /// Whether cache points may stand in messages.
    #[must_use]
    pub fn caches(&self) -> bool {
        self.cache_points != CachePoints::Nowhere
    }
}
