//! `toolConfig`, and structured output where it needs a tool. API Reference, `ToolConfiguration`, `ToolChoice`.

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::json::View;
use serde_json::value::RawValue;

use super::messages::{cache_point, member};
use super::wire::{
    BedrockJson, BedrockToolChoice, BedrockToolConfig, OutputConfig, ToolEntry, ToolInputSchema, ToolSpec,
};
use crate::adapters::anthropic::schema::translate;
use crate::model_rules::{self, CachePoints, ForcedTools, ModelRules, SchemaDialect};

/// The schema of a tool without parameters, and of a tool that is known only from earlier calls.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
const ANY_PARAMETERS: &str = r#"{"type":"object"}"#;

/// Keywords that the first Nova models refuse at the top of a schema. Those models know `type`, `properties` and
/// `required` only.
const REFUSED_BY_NOVA: [&str; 4] = ["$schema", "title", "description", "additionalProperties"];

const JSON_TOOL: &str = "json_response";
const JSON_TOOL_DESCRIPTION: &str = "Gives the answer to the user. Its input is the whole answer.";
const JSON_INSTRUCTION: &str =
    "Answer with a single JSON object and nothing else: no words around it and no code fence.";
const SCHEMA_INSTRUCTION: &str = "Answer with JSON and nothing else: no words around it and no code fence. It must be valid against this JSON Schema:";

/// The tools of a request, and the way in which it asks for the answer's format.
#[derive(Debug, Default)]
pub(super) struct ToolPlan<'c> {
    pub(super) config: Option<BedrockToolConfig<'c>>,
    /// The tool whose input is the answer.
    pub(super) json_tool: Option<String>,
    /// Instructions for the system prompt. The answer may then be inside a code fence.
    pub(super) instructions: Option<String>,
    /// The schema is only described in the system prompt; nothing enforces it.
    pub(super) is_weakened: bool,
    /// The `outputConfig` that holds the answer to a schema.
    pub(super) output: Option<OutputConfig<'c>>,
    /// An instruction to call a tool, for models that cannot be forced to.
    pub(super) call_instruction: Option<String>,
}

impl ToolPlan<'_> {
    /// Whether the model must call a tool. Claude does not think in this case.
    pub(super) fn is_call_forced(&self) -> bool {
        let choice = self.config.as_ref().and_then(|config| config.tool_choice.as_ref());
        matches!(choice, Some(BedrockToolChoice::Any {} | BedrockToolChoice::Tool { .. }))
    }
}

/// Decides how the tools and the answer's format are requested.
pub(super) fn plan<'c>(conversation: &'c Conversation<'_>, rules: ModelRules) -> ToolPlan<'c> {
    let mut plan = ToolPlan::default();
    let mut tools = declared(conversation, rules);
    let can_force = rules.forced_tools != ForcedTools::Refused;
    let mut choice = match &conversation.tool_choice {
        // `auto` is the default and needs no member; `none` does not exist.
        ToolChoice::Unset | ToolChoice::Never => None,
        ToolChoice::Auto => Some(BedrockToolChoice::Auto {}),
        ToolChoice::Required if can_force => Some(BedrockToolChoice::Any {}),
        ToolChoice::Named(name) if can_force => Some(named(Cow::Borrowed(name), &mut tools, rules)),
        ToolChoice::Required => {
            plan.call_instruction = Some("Call at least one of the tools now.".to_owned());
            Some(BedrockToolChoice::Auto {})
        }
        ToolChoice::Named(name) => {
            plan.call_instruction = Some(format!("Call the tool `{name}` now."));
            Some(BedrockToolChoice::Auto {})
        }
    };
    let is_call_required = matches!(conversation.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    match &conversation.format {
        Format::Text => {}
        Format::Json => plan.instructions = Some(JSON_INSTRUCTION.to_owned()),
        // The model must call a tool of the client, so there is no text to format.
        Format::Schema { .. } if is_call_required => {}
        Format::Schema { schema, description, name, .. } => {
            let native =
                schema.filter(|_| rules.schema == model_rules::SchemaRule::Native).and_then(translate);
            if let Some(schema) = native {
                plan.output = Some(OutputConfig::of_schema(schema, name, filled(description.as_deref())));
            } else if can_force && schema.is_none_or(is_of_object) {
                // Tools that may not be called are removed, so that the model cannot call one instead of the answer's tool.
                if conversation.tools.is_empty() || conversation.tool_choice == ToolChoice::Never {
                    tools.clear();
                }
                let name = free_name(&tools);
                let is_alone = tools.is_empty();
                tools.push(json_tool(name.clone(), description.as_deref(), *schema, rules));
                choice = Some(if is_alone {
                    named(Cow::Owned(name.clone()), &mut tools, rules)
                } else {
                    BedrockToolChoice::Any {}
                });
                plan.json_tool = Some(name);
            } else {
                let schema = schema.map_or(ANY_PARAMETERS, View::text);
                plan.instructions = Some(format!("{SCHEMA_INSTRUCTION}\n{schema}"));
                plan.is_weakened = true;
            }
        }
    }
    plan.config = (!tools.is_empty()).then_some(BedrockToolConfig { tools, tool_choice: choice });
    plan
}

/// Returns the client's tools. Without any, it returns the tools that the history calls, because Converse refuses tool
/// blocks without a `toolConfig`. Tools that may not be called are left out unless the history needs them.
fn declared<'c>(conversation: &'c Conversation<'_>, rules: ModelRules) -> Vec<ToolEntry<'c>> {
    let mut tools = Vec::new();
    let calls = || conversation.messages.iter().flat_map(|message| &message.tool_calls);
    let is_called = calls().next().is_some();
    if conversation.tool_choice != ToolChoice::Never || is_called {
        for tool in &conversation.tools {
            tools.push(ToolEntry::ToolSpec(spec(tool, rules)));
            let marker = tool.cache_control.filter(|_| rules.cache_points == CachePoints::Tools);
            tools.extend(marker.map(|marker| ToolEntry::CachePoint(cache_point(marker, rules))));
        }
    }
    if tools.is_empty() {
        let mut known = HashSet::new();
        let names = calls().map(|call| &*call.name).filter(|name| known.insert(*name));
        tools.extend(names.map(|name| {
            ToolEntry::ToolSpec(ToolSpec {
                name: Cow::Borrowed(name),
                description: None,
                input_schema: ToolInputSchema { json: raw_json(ANY_PARAMETERS) },
            })
        }));
    }
    tools
}

fn spec<'c>(tool: &'c Tool<'_>, rules: ModelRules) -> ToolSpec<'c> {
    ToolSpec {
        name: Cow::Borrowed(&tool.name),
        description: filled(tool.description.as_deref()).map(Cow::Borrowed),
        input_schema: ToolInputSchema { json: parameters(tool.parameters, rules) },
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
        Some(purpose) => Cow::Owned(format!("{JSON_TOOL_DESCRIPTION} {purpose}")),
        None => Cow::Borrowed(JSON_TOOL_DESCRIPTION),
    };
    let input_schema = ToolInputSchema { json: parameters(schema, rules) };
    ToolEntry::ToolSpec(ToolSpec { name: Cow::Owned(name), description: Some(description), input_schema })
}

/// Returns a name that no other tool has.
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

/// Returns the choice that forces this tool. Models that cannot be forced to a named tool are offered only this one.
fn named<'n>(name: Cow<'n, str>, tools: &mut Vec<ToolEntry<'_>>, rules: ModelRules) -> BedrockToolChoice<'n> {
    if rules.forced_tools == ForcedTools::Named {
        return BedrockToolChoice::Tool { name };
    }
    tools.retain(|entry| matches!(entry, ToolEntry::ToolSpec(spec) if spec.name == name));
    BedrockToolChoice::Any {}
}

/// Whether a tool input can have this schema: every tool input is an object.
fn is_of_object(schema: View<'_>) -> bool {
    let kind = member(schema, "type");
    kind.is_none_or(|kind| kind.string().is_some_and(|kind| kind == "object"))
}

/// Returns the schema with every key that the model takes. Two kinds of schemas need a change: one without a type, and,
/// for the first Nova models, one with descriptive keywords at the top ("Troubleshooting tool calls").
fn parameters(schema: Option<View<'_>>, rules: ModelRules) -> BedrockJson<'_> {
    let Some(schema) = schema else { return raw_json(NO_PARAMETERS) };
    let is_bare = rules.schema_dialect == SchemaDialect::Bare;
    let is_refused = |name: &str| is_bare && REFUSED_BY_NOVA.contains(&name);
    let is_typed = member(schema, "type").is_some();
    let has_refused = schema.members().any(|(name, _)| name.string().is_some_and(|name| is_refused(&name)));
    if is_typed && !has_refused {
        return raw_json(schema.text());
    }
    let mut members: Vec<String> = Vec::new();
    if !is_typed {
        members.push(r#""type":"object""#.to_owned());
    }
    let kept = schema.members().filter(|(name, _)| !name.string().is_some_and(|name| is_refused(&name)));
    members.extend(kept.map(|(name, value)| format!("{}:{}", name.text(), value.text())));
    let made = RawValue::from_string(format!("{{{}}}", members.join(",")));
    made.map_or_else(|_| raw_json(ANY_PARAMETERS), BedrockJson::Made)
}

/// Wraps JSON text that was checked before.
pub(super) fn raw_json(text: &str) -> BedrockJson<'_> {
    serde_json::from_str(text).map_or(BedrockJson::Empty {}, BedrockJson::Written)
}
