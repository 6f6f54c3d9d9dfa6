//! Tools, tool choice and the answer's format. They depend on each other, because a tool may carry the formatted
//! answer.
//!
//! "Define tools", "Strict tool use" and "Structured outputs" at platform.claude.com.

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::json::{Kind, ObjectWriter, View};

use super::messages::called_functions;
use super::schema;
use crate::model_rules::{ForcedTools, ModelRules, SchemaRule};

/// The tool whose input is the answer.
const JSON_TOOL: &str = "structured_answer";

/// The most strict tools of a request.
const MAX_STRICT_TOOLS: usize = 20;

/// `tool_choice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnthropicToolChoice<'c> {
    /// The model decides.
    Auto,
    /// The model must not call a tool.
    Never,
    /// The model must call a tool.
    Any,
    /// The model must call this tool.
    Named(Cow<'c, str>),
}

/// How a request asks for the answer's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerFormat<'c> {
    /// The answer has no format.
    Free,
    /// `output_config.format` holds this schema.
    Schema(String),
    /// The input of this tool is the answer.
    Tool { name: String, description: Option<Cow<'c, str>>, schema: &'c str },
    /// A system block describes the format.
    Instruction(String),
}

/// The members of a request that concern tools and the answer's format.
#[derive(Debug)]
pub(super) struct Tooling<'c> {
    tools: &'c [Tool<'c>],
    /// Tools that were called earlier and are no longer offered. The API requires a declaration of every tool in the
    /// conversation.
    former: Vec<&'c str>,
    /// Whether each tool is declared strict.
    strict: Vec<bool>,
    /// The tool choice; None leaves the member out.
    pub(super) choice: Option<AnthropicToolChoice<'c>>,
    is_single: bool,
    /// The format of the answer.
    pub(super) format: AnswerFormat<'c>,
    /// An instruction to call a tool, for models that cannot be forced to.
    pub(super) call_instruction: Option<String>,
}

impl<'c> Tooling<'c> {
    /// Derives the members from a conversation.
    pub(super) fn new(
        conversation: &'c Conversation<'c>,
        rules: ModelRules,
        warnings: &mut Vec<Cow<'static, str>>,
    ) -> Self {
        let former = if conversation.tools.is_empty() { called_functions(conversation) } else { Vec::new() };
        let mut choice = match &conversation.tool_choice {
            _ if !former.is_empty() => Some(AnthropicToolChoice::Never),
            _ if conversation.tools.is_empty() => None,
            ToolChoice::Unset => None,
            ToolChoice::Auto => Some(AnthropicToolChoice::Auto),
            ToolChoice::Never => Some(AnthropicToolChoice::Never),
            ToolChoice::Required => Some(AnthropicToolChoice::Any),
            ToolChoice::Named(name) => Some(AnthropicToolChoice::Named(name.clone())),
        };
        let is_forced = matches!(choice, Some(AnthropicToolChoice::Any | AnthropicToolChoice::Named(_)));
        let format = answer_format(conversation, rules, is_forced, warnings);
        let mut is_single = conversation.parallel_tool_calls == Some(false);
        if let AnswerFormat::Tool { name, .. } = &format {
            // Beside other callable tools the model chooses between them; a lone tool is forced by name.
            let is_alone = conversation.tools.is_empty() || choice == Some(AnthropicToolChoice::Never);
            choice = Some(if is_alone {
                AnthropicToolChoice::Named(Cow::Owned(name.clone()))
            } else {
                AnthropicToolChoice::Any
            });
            is_single |= is_alone;
        }
        let mut call_instruction = None;
        if is_forced && rules.forced_tools == ForcedTools::Refused {
            call_instruction = Some(match &choice {
                Some(AnthropicToolChoice::Named(name)) => format!("Call the tool `{name}` now."),
                _ => "Call at least one of the tools now.".to_owned(),
            });
            choice = Some(AnthropicToolChoice::Auto);
            warnings.push(Cow::Borrowed("parameter_dropped:tool_choice"));
        }
        let strict = strict_tools(&conversation.tools, rules, warnings);
        Self { tools: &conversation.tools, former, strict, choice, is_single, format, call_instruction }
    }

    /// Whether a tool must be called.
    pub(super) fn is_call_forced(&self) -> bool {
        matches!(self.choice, Some(AnthropicToolChoice::Any | AnthropicToolChoice::Named(_)))
    }

    /// Writes `tools` and `tool_choice`.
    pub(super) fn write(&self, body: &mut ObjectWriter<'_>) {
        let answer = match &self.format {
            AnswerFormat::Tool { name, description, schema } => {
                Some(ToolDeclaration::Answer { name, description: description.as_deref(), schema })
            }
            AnswerFormat::Free | AnswerFormat::Schema(_) | AnswerFormat::Instruction(_) => None,
        };
        let strict = self.strict.iter().copied().chain(std::iter::repeat(false));
        let offered =
            self.tools.iter().zip(strict).map(|(tool, strict)| ToolDeclaration::Offered(tool, strict));
        let former = self.former.iter().copied().map(ToolDeclaration::Former);
        let mut all = offered.chain(former).chain(answer).peekable();
        if all.peek().is_none() {
            return;
        }
        body.array("tools", all, |out, tool| tool.write(out));
        // `auto` is the default, but limiting the answer to one call needs the member.
        let choice = self.choice.clone().or(self.is_single.then_some(AnthropicToolChoice::Auto));
        if let Some(choice) = choice {
            choice.write(self.is_single, body.member("tool_choice"));
        }
    }
}

/// A declaration of a tool.
enum ToolDeclaration<'t> {
    /// A tool of the client, and whether it is strict.
    Offered(&'t Tool<'t>, bool),
    Former(&'t str),
    Answer {
        name: &'t str,
        description: Option<&'t str>,
        schema: &'t str,
    },
}

impl ToolDeclaration<'_> {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Offered(tool, strict) => write_offered(tool, strict, out),
            Self::Former(name) => declare(out, name, None, ANY_PARAMETERS).finish(),
            Self::Answer { name, description, schema } => {
                let description = description.unwrap_or("Gives the answer. Call it to answer.");
                declare(out, name, Some(description), schema).finish();
            }
        }
    }
}

fn write_offered(tool: &Tool<'_>, is_strict: bool, out: &mut Vec<u8>) {
    let schema = tool.parameters.map_or(Cow::Borrowed(NO_PARAMETERS), input_schema);
    let mut object = declare(out, &tool.name, tool.description.as_deref(), &schema);
    if is_strict {
        object.boolean("strict", true);
    }
    if let Some(marker) = tool.cache_control {
        object.raw("cache_control", marker.text());
    }
    object.finish();
}

/// The schema of a function without parameters.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// The schema of a function with unknown parameters.
const ANY_PARAMETERS: &str = r#"{"type":"object"}"#;

fn declare<'o>(
    out: &'o mut Vec<u8>,
    name: &str,
    description: Option<&str>,
    schema: &str,
) -> ObjectWriter<'o> {
    let mut object = ObjectWriter::begin(out);
    object.string("name", name);
    if let Some(description) = description.filter(|description| !description.is_empty()) {
        object.string("description", description);
    }
    object.raw("input_schema", schema);
    object
}

/// Returns the client's schema unchanged, except that a missing `type`, which the API requires, is added.
fn input_schema(schema: View<'_>) -> Cow<'_, str> {
    let names =
        |wanted: &str| schema.members().any(|(name, _)| name.string().is_some_and(|name| name == wanted));
    match schema.text().strip_prefix('{') {
        _ if schema.kind() != Kind::Object => Cow::Borrowed(NO_PARAMETERS),
        Some(_) if names("type") => Cow::Borrowed(schema.text()),
        Some(_) if schema.members().next().is_none() => Cow::Borrowed(NO_PARAMETERS),
        Some(rest) => Cow::Owned(format!(r#"{{"type":"object",{rest}"#)),
        None => Cow::Borrowed(NO_PARAMETERS),
    }
}

impl AnthropicToolChoice<'_> {
    fn write(&self, is_single: bool, out: &mut Vec<u8>) {
        let mut object = match self {
            Self::Auto => ObjectWriter::begin_typed(out, "auto"),
            Self::Never => ObjectWriter::begin_typed(out, "none"),
            Self::Any => ObjectWriter::begin_typed(out, "any"),
            Self::Named(name) => {
                let mut object = ObjectWriter::begin_typed(out, "tool");
                object.string("name", name);
                object
            }
        };
        if is_single && *self != Self::Never {
            object.boolean("disable_parallel_tool_use", true);
        }
        object.finish();
    }
}

/// Decides which tools are declared strict. A warning tells of tools for which this is impossible.
fn strict_tools(tools: &[Tool<'_>], rules: ModelRules, warnings: &mut Vec<Cow<'static, str>>) -> Vec<bool> {
    let wanted = tools.iter().filter(|tool| tool.strict == Some(true)).count();
    if wanted == 0 {
        return Vec::new();
    }
    let is_native = rules.schema == SchemaRule::Native;
    let is_enforceable = |tool: &Tool<'_>| {
        tool.strict == Some(true) && is_native && tool.parameters.is_some_and(schema::is_enforceable)
    };
    let strict: Vec<bool> = tools.iter().map(is_enforceable).collect();
    let enforceable = strict.iter().filter(|is_strict| **is_strict).count();
    let too_many = enforceable > MAX_STRICT_TOOLS;
    if too_many || enforceable < wanted {
        warnings.push(Cow::Borrowed("parameter_dropped:strict"));
    }
    if too_many { Vec::new() } else { strict }
}

/// Decides how to ask for the answer's format. `is_forced`: the answer is a call of a client's tool and has no format.
fn answer_format<'c>(
    conversation: &'c Conversation<'c>,
    rules: ModelRules,
    is_forced: bool,
    warnings: &mut Vec<Cow<'static, str>>,
) -> AnswerFormat<'c> {
    let (description, schema) = match &conversation.format {
        Format::Text => return AnswerFormat::Free,
        _ if is_forced => return AnswerFormat::Free,
        Format::Json | Format::Schema { schema: None, .. } => {
            return AnswerFormat::Instruction(format!("Answer with one valid JSON object {ONLY_JSON}"));
        }
        Format::Schema { description, schema: Some(schema), .. } => (description, *schema),
    };
    if rules.schema == SchemaRule::Native
        && let Some(closed) = schema::translate(schema)
    {
        return AnswerFormat::Schema(closed);
    }
    let is_object = schema.members().any(|(name, value)| {
        name.string().is_some_and(|name| name == "type")
            && value.string().is_some_and(|kind| kind == "object")
    });
    if rules.forced_tools != ForcedTools::Refused && is_object {
        let mut name = JSON_TOOL.to_owned();
        let taken: HashSet<&str> = conversation.tools.iter().map(|tool| &*tool.name).collect();
        while taken.contains(&*name) {
            name.push('_');
        }
        return AnswerFormat::Tool { name, description: description.clone(), schema: schema.text() };
    }
    // Anthropic does not enforce the format.
    warnings.push(Cow::Borrowed("parameter_clamped:response_format"));
    let purpose = description.as_deref().map(|purpose| format!(" It is for: {purpose}")).unwrap_or_default();
    AnswerFormat::Instruction(format!(
        "Answer with one valid JSON value {ONLY_JSON} It must be valid against this JSON Schema:\n{}{purpose}",
        schema.text()
    ))
}

/// The ending of instructions that ask for JSON without enforcing it.
const ONLY_JSON: &str = "and nothing else: no words before or after it, no code fence.";
