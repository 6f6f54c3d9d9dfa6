//! `toolConfig`, and what it has to do with structured output. API Reference, `ToolConfiguration`, `ToolChoice`.

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::json::View;
use serde_json::value::RawValue;

use super::blocks::{Choice, Json, OutputConfig, Schema, ToolConfig, ToolEntry, ToolSpec};
use super::messages::{cache_point, member};
use crate::adapters::anthropic::schema::closed;
use crate::model_rules::{self, CachePoints, ForcedTools, ModelRules, SchemaDialect};

/// Of a tool without parameters, and of one that is only known from the history.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
const ANY_PARAMETERS: &str = r#"{"type":"object"}"#;

/// Of `type`, `properties`, `required` and these, the first Nova models know only the first three.
const REFUSED_BY_NOVA: [&str; 4] = ["$schema", "title", "description", "additionalProperties"];

const JSON_TOOL: &str = "json_response";
const JSON_TOOL_WORDS: &str = "Gives the answer to the user. Its input is the whole answer.";
const JSON_WORDS: &str =
    "Answer with a single JSON object and nothing else: no words around it and no code fence.";
const SCHEMA_WORDS: &str = "Answer with JSON and nothing else: no words around it and no code fence. It must be valid against this JSON Schema:";

/// What becomes of tools and of the wanted form of the answer.
#[derive(Debug, Default)]
pub(super) struct Plan<'c> {
    pub(super) config: Option<ToolConfig<'c>>,
    /// The tool whose input is the answer.
    pub(super) json_tool: Option<String>,
    /// What is added to the system prompt; the answer may then stand in a code fence.
    pub(super) words: Option<String>,
    /// A schema was only asked for in words.
    pub(super) weakened: bool,
    /// The answer is held to a schema by `outputConfig`.
    pub(super) output: Option<OutputConfig<'c>>,
    /// What is asked of the model in words, because this one cannot be forced to call a tool.
    pub(super) request: Option<String>,
}

impl Plan<'_> {
    /// Whether some tool must be called; Claude then does not think.
    pub(super) fn forces(&self) -> bool {
        let choice = self.config.as_ref().and_then(|config| config.tool_choice.as_ref());
        matches!(choice, Some(Choice::Any {} | Choice::Tool { .. }))
    }
}

/// Decides it.
pub(super) fn plan<'c>(conversation: &'c Conversation<'_>, rules: ModelRules) -> Plan<'c> {
    let mut plan = Plan::default();
    let mut tools = declared(conversation, rules);
    let can_force = rules.forced_tools != ForcedTools::Refused;
    let mut choice = match &conversation.tool_choice {
        // The same as auto, which is the default.
        ToolChoice::Unset | ToolChoice::Never => None,
        ToolChoice::Auto => Some(Choice::Auto {}),
        ToolChoice::Required if can_force => Some(Choice::Any {}),
        ToolChoice::Named(name) if can_force => Some(named(Cow::Borrowed(name), &mut tools, rules)),
        ToolChoice::Required => {
            plan.request = Some("Call at least one of the tools now.".to_owned());
            Some(Choice::Auto {})
        }
        ToolChoice::Named(name) => {
            plan.request = Some(format!("Call the tool `{name}` now."));
            Some(Choice::Auto {})
        }
    };
    let calls = matches!(conversation.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    match &conversation.format {
        Format::Text => {}
        Format::Json => plan.words = Some(JSON_WORDS.to_owned()),
        // A tool of the client's must be called, so there will be no text to shape.
        Format::Schema { .. } if calls => {}
        Format::Schema { schema, description, name, .. } => {
            let native = schema.filter(|_| rules.schema == model_rules::SchemaRule::Native).and_then(closed);
            if let Some(schema) = native {
                plan.output = Some(OutputConfig::of_schema(schema, name, filled(description.as_deref())));
            } else if can_force && schema.is_none_or(is_of_object) {
                // Tools that the client does not offer now may not be called in the answer's place.
                if conversation.tools.is_empty() || conversation.tool_choice == ToolChoice::Never {
                    tools.clear();
                }
                let name = free_name(&tools);
                let alone = tools.is_empty();
                tools.push(json_tool(name.clone(), description.as_deref(), *schema, rules));
                choice = Some(if alone {
                    named(Cow::Owned(name.clone()), &mut tools, rules)
                } else {
                    Choice::Any {}
                });
                plan.json_tool = Some(name);
            } else {
                let schema = schema.map_or(ANY_PARAMETERS, View::text);
                plan.words = Some(format!("{SCHEMA_WORDS}\n{schema}"));
                plan.weakened = true;
            }
        }
    }
    plan.config = (!tools.is_empty()).then_some(ToolConfig { tools, tool_choice: choice });
    plan
}

/// The client's tools; without any, those that the history calls, because Converse refuses tool blocks without a
/// `toolConfig`. Tools that may not be called are left out, unless the history needs them.
fn declared<'c>(conversation: &'c Conversation<'_>, rules: ModelRules) -> Vec<ToolEntry<'c>> {
    let mut tools = Vec::new();
    let called = || conversation.messages.iter().flat_map(|message| &message.tool_calls);
    let is_called = called().next().is_some();
    if conversation.tool_choice != ToolChoice::Never || is_called {
        for tool in &conversation.tools {
            tools.push(ToolEntry::ToolSpec(spec(tool, rules)));
            let marker = tool.cache_control.filter(|_| rules.cache_points == CachePoints::Tools);
            tools.extend(marker.map(|marker| ToolEntry::CachePoint(cache_point(marker, rules))));
        }
    }
    if tools.is_empty() {
        let mut known = HashSet::new();
        let names = called().map(|call| &*call.name).filter(|name| known.insert(*name));
        tools.extend(names.map(|name| {
            ToolEntry::ToolSpec(ToolSpec {
                name: Cow::Borrowed(name),
                description: None,
                input_schema: Schema { json: written(ANY_PARAMETERS) },
            })
        }));
    }
    tools
}

fn spec<'c>(tool: &'c Tool<'_>, rules: ModelRules) -> ToolSpec<'c> {
    ToolSpec {
        name: Cow::Borrowed(&tool.name),
        description: filled(tool.description.as_deref()).map(Cow::Borrowed),
        input_schema: Schema { json: parameters(tool.parameters, rules) },
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn json_tool<'c>(
    name: String,
    description: Option<&str>,
    schema: Option<View<'c>>,
    rules: ModelRules,
) -> ToolEntry<'c> {
    let description = match filled(description) {
        Some(words) => Cow::Owned(format!("{JSON_TOOL_WORDS} {words}")),
        None => Cow::Borrowed(JSON_TOOL_WORDS),
    };
    let input_schema = Schema { json: parameters(schema, rules) };
    ToolEntry::ToolSpec(ToolSpec { name: Cow::Owned(name), description: Some(description), input_schema })
}

/// A name that no other tool has.
fn free_name(tools: &[ToolEntry<'_>]) -> String {
    let mut name = JSON_TOOL.to_owned();
    let is_taken = |name: &str| {
        tools.iter().any(|entry| matches!(entry, ToolEntry::ToolSpec(spec) if spec.name == name))
    };
    while is_taken(&name) {
        name.push('_');
    }
    name
}

/// A call of this tool. Where one of several cannot be named, the others are not offered.
fn named<'n>(name: Cow<'n, str>, tools: &mut Vec<ToolEntry<'_>>, rules: ModelRules) -> Choice<'n> {
    if rules.forced_tools == ForcedTools::Named {
        return Choice::Tool { name };
    }
    tools.retain(|entry| matches!(entry, ToolEntry::ToolSpec(spec) if spec.name == name));
    Choice::Any {}
}

/// Whether a tool's input can have this schema: only objects can be inputs.
fn is_of_object(schema: View<'_>) -> bool {
    let kind = member(schema, "type");
    kind.is_none_or(|kind| kind.string().is_some_and(|kind| kind == "object"))
}

/// The schema as it was written, every key kept. Two things are refused or make the tool unknown to the model: a schema
/// without a type, and, by the first Nova models ("Troubleshooting tool calls"), words about the schema at its top.
fn parameters(schema: Option<View<'_>>, rules: ModelRules) -> Json<'_> {
    let Some(schema) = schema else { return written(NO_PARAMETERS) };
    let plain = rules.schema_dialect == SchemaDialect::Bare;
    let is_refused = |name: &str| plain && REFUSED_BY_NOVA.contains(&name);
    let is_typed = member(schema, "type").is_some();
    let has_refused = schema.members().any(|(name, _)| name.string().is_some_and(|name| is_refused(&name)));
    if is_typed && !has_refused {
        return written(schema.text());
    }
    let mut members: Vec<String> = Vec::new();
    if !is_typed {
        members.push(r#""type":"object""#.to_owned());
    }
    let kept = schema.members().filter(|(name, _)| !name.string().is_some_and(|name| is_refused(&name)));
    members.extend(kept.map(|(name, value)| format!("{}:{}", name.text(), value.text())));
    let made = RawValue::from_string(format!("{{{}}}", members.join(",")));
    made.map_or_else(|_| written(ANY_PARAMETERS), Json::Made)
}

/// JSON text that was checked before.
pub(super) fn written(text: &str) -> Json<'_> {
    serde_json::from_str(text).map_or(Json::Empty {}, Json::Written)
}
