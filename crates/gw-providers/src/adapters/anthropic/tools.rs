//! Which tools are offered, which must be called, and what form the answer has: the three depend on each other, because
//! a form may have to be asked for by way of a tool.
//!
//! "Define tools", "Strict tool use" and "Structured outputs" at platform.claude.com.

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::json::{Kind, View};

use super::messages::called;
use super::object::Object;
use super::schema;
use crate::model_rules::{ForcedTools, ModelRules, SchemaRule};

/// The tool whose input is the answer.
const JSON_TOOL: &str = "structured_answer";

/// So many tools may be strict.
const MOST_STRICT: usize = 20;

/// `tool_choice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice<'c> {
    /// The model decides.
    Auto,
    /// None.
    Never,
    /// At least one.
    Any,
    /// This one.
    Named(Cow<'c, str>),
}

/// How the answer's form is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form<'c> {
    /// Not at all.
    Free,
    /// `output_config.format` with this schema.
    Schema(String),
    /// By a tool of this name.
    Tool { name: String, description: Option<Cow<'c, str>>, schema: &'c str },
    /// In words, which are a system block.
    Words(String),
}

/// All that a request says about tools and form.
#[derive(Debug)]
pub(super) struct Tooling<'c> {
    tools: &'c [Tool<'c>],
    /// Called earlier and offered no more: declared, because the API wants to know every tool of the conversation.
    former: Vec<&'c str>,
    /// For each tool: it is declared strict.
    strict: Vec<bool>,
    /// None leaves it out.
    pub(super) choice: Option<Choice<'c>>,
    single: bool,
    /// The answer's form.
    pub(super) form: Form<'c>,
    /// What is asked of the model in words, because this one cannot be forced to call a tool.
    pub(super) request: Option<String>,
}

impl<'c> Tooling<'c> {
    /// Of a conversation.
    pub(super) fn new(
        conversation: &'c Conversation<'c>,
        rules: ModelRules,
        warnings: &mut Vec<Cow<'static, str>>,
    ) -> Self {
        let former = if conversation.tools.is_empty() { called(conversation) } else { Vec::new() };
        let mut choice = match &conversation.tool_choice {
            _ if !former.is_empty() => Some(Choice::Never),
            _ if conversation.tools.is_empty() => None,
            ToolChoice::Unset => None,
            ToolChoice::Auto => Some(Choice::Auto),
            ToolChoice::Never => Some(Choice::Never),
            ToolChoice::Required => Some(Choice::Any),
            ToolChoice::Named(name) => Some(Choice::Named(name.clone())),
        };
        let forced = matches!(choice, Some(Choice::Any | Choice::Named(_)));
        let form = form(conversation, rules, forced, warnings);
        let mut single = conversation.parallel_tool_calls == Some(false);
        if let Form::Tool { name, .. } = &form {
            // Beside other tools that may be called, the model decides which; alone, there is nothing to decide.
            let alone = conversation.tools.is_empty() || choice == Some(Choice::Never);
            choice = Some(if alone { Choice::Named(Cow::Owned(name.clone())) } else { Choice::Any });
            single |= alone;
        }
        let mut request = None;
        if forced && rules.forced_tools == ForcedTools::Refused {
            request = Some(match &choice {
                Some(Choice::Named(name)) => format!("Call the tool `{name}` now."),
                _ => "Call at least one of the tools now.".to_owned(),
            });
            choice = Some(Choice::Auto);
            warnings.push(Cow::Borrowed("parameter_dropped:tool_choice"));
        }
        let strict = strict(&conversation.tools, rules, warnings);
        Self { tools: &conversation.tools, former, strict, choice, single, form, request }
    }

    /// Whether a tool must be called.
    pub(super) fn forces(&self) -> bool {
        matches!(self.choice, Some(Choice::Any | Choice::Named(_)))
    }

    /// Writes `tools` and `tool_choice`.
    pub(super) fn write(&self, body: &mut Object<'_>) {
        let answer = match &self.form {
            Form::Tool { name, description, schema } => {
                Some(Declared::Answer { name, description: description.as_deref(), schema })
            }
            Form::Free | Form::Schema(_) | Form::Words(_) => None,
        };
        let strict = self.strict.iter().copied().chain(std::iter::repeat(false));
        let offered = self.tools.iter().zip(strict).map(|(tool, strict)| Declared::Offered(tool, strict));
        let former = self.former.iter().copied().map(Declared::Former);
        let mut all = offered.chain(former).chain(answer).peekable();
        if all.peek().is_none() {
            return;
        }
        body.array("tools", all, |out, tool| tool.write(out));
        // Saying `auto` is what leaving it out means, but the limit to one call needs a place.
        let choice = self.choice.clone().or(self.single.then_some(Choice::Auto));
        if let Some(choice) = choice {
            choice.write(self.single, body.member("tool_choice"));
        }
    }
}

/// A tool as the API is told of it.
enum Declared<'t> {
    /// Strict or not.
    Offered(&'t Tool<'t>, bool),
    Former(&'t str),
    Answer {
        name: &'t str,
        description: Option<&'t str>,
        schema: &'t str,
    },
}

impl Declared<'_> {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Offered(tool, strict) => offered(tool, strict, out),
            Self::Former(name) => declare(out, name, None, ANYTHING).close(),
            Self::Answer { name, description, schema } => {
                let description = description.unwrap_or("Gives the answer. Call it to answer.");
                declare(out, name, Some(description), schema).close();
            }
        }
    }
}

fn offered(tool: &Tool<'_>, strict: bool, out: &mut Vec<u8>) {
    let schema = tool.parameters.map_or(Cow::Borrowed(NOTHING), input_schema);
    let mut object = declare(out, &tool.name, tool.description.as_deref(), &schema);
    if strict {
        object.raw("strict", "true");
    }
    if let Some(marker) = tool.cache_control {
        object.raw("cache_control", marker.text());
    }
    object.close();
}

/// A function without parameters.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;

/// A function whose parameters nobody remembers.
const ANYTHING: &str = r#"{"type":"object"}"#;

fn declare<'o>(out: &'o mut Vec<u8>, name: &str, description: Option<&str>, schema: &str) -> Object<'o> {
    let mut object = Object::open(out);
    object.text("name", name);
    if let Some(description) = description.filter(|description| !description.is_empty()) {
        object.text("description", description);
    }
    object.raw("input_schema", schema);
    object
}

/// The client's schema to the letter; its type, which the API requires, is added where it is left out.
fn input_schema(schema: View<'_>) -> Cow<'_, str> {
    let names =
        |wanted: &str| schema.members().any(|(name, _)| name.string().is_some_and(|name| name == wanted));
    match schema.text().strip_prefix('{') {
        _ if schema.kind() != Kind::Object => Cow::Borrowed(NOTHING),
        Some(_) if names("type") => Cow::Borrowed(schema.text()),
        Some(_) if schema.members().next().is_none() => Cow::Borrowed(NOTHING),
        Some(rest) => Cow::Owned(format!(r#"{{"type":"object",{rest}"#)),
        None => Cow::Borrowed(NOTHING),
    }
}

impl Choice<'_> {
    fn write(&self, single: bool, out: &mut Vec<u8>) {
        let mut object = match self {
            Self::Auto => Object::of_type(out, "auto"),
            Self::Never => Object::of_type(out, "none"),
            Self::Any => Object::of_type(out, "any"),
            Self::Named(name) => {
                let mut object = Object::of_type(out, "tool");
                object.text("name", name);
                object
            }
        };
        if single && *self != Self::Never {
            object.raw("disable_parallel_tool_use", "true");
        }
        object.close();
    }
}

/// Which tools are declared strict. A tool that asks for it in vain gets a warning.
fn strict(tools: &[Tool<'_>], rules: ModelRules, warnings: &mut Vec<Cow<'static, str>>) -> Vec<bool> {
    let wanted = tools.iter().filter(|tool| tool.strict == Some(true)).count();
    if wanted == 0 {
        return Vec::new();
    }
    let is_native = rules.schema == SchemaRule::Native;
    let is_enforceable = |tool: &Tool<'_>| {
        tool.strict == Some(true) && is_native && tool.parameters.is_some_and(schema::is_enforceable)
    };
    let strict: Vec<bool> = tools.iter().map(is_enforceable).collect();
    let possible = strict.iter().filter(|is_strict| **is_strict).count();
    let too_many = possible > MOST_STRICT;
    if too_many || possible < wanted {
        warnings.push(Cow::Borrowed("parameter_dropped:strict"));
    }
    if too_many { Vec::new() } else { strict }
}

/// The way to ask for the answer's form. `forced`: the answer is a call of one of the client's tools and has none.
fn form<'c>(
    conversation: &'c Conversation<'c>,
    rules: ModelRules,
    forced: bool,
    warnings: &mut Vec<Cow<'static, str>>,
) -> Form<'c> {
    let (description, schema) = match &conversation.format {
        Format::Text => return Form::Free,
        _ if forced => return Form::Free,
        Format::Json | Format::Schema { schema: None, .. } => {
            return Form::Words(format!("Answer with one valid JSON object {ALONE}"));
        }
        Format::Schema { description, schema: Some(schema), .. } => (description, *schema),
    };
    if rules.schema == SchemaRule::Native
        && let Some(closed) = schema::closed(schema)
    {
        return Form::Schema(closed);
    }
    let is_object = schema.members().any(|(name, value)| {
        name.string().is_some_and(|name| name == "type")
            && value.string().is_some_and(|kind| kind == "object")
    });
    if rules.forced_tools != ForcedTools::Refused && is_object {
        let mut name = JSON_TOOL.to_owned();
        while conversation.tools.iter().any(|tool| tool.name == name) {
            name.push('_');
        }
        return Form::Tool { name, description: description.clone(), schema: schema.text() };
    }
    // Nothing holds the model to it.
    warnings.push(Cow::Borrowed("parameter_clamped:response_format"));
    let purpose = description.as_deref().map(|purpose| format!(" It is for: {purpose}")).unwrap_or_default();
    Form::Words(format!(
        "Answer with one valid JSON value {ALONE} It must be valid against this JSON Schema:\n{}{purpose}",
        schema.text()
    ))
}

/// What is said besides where JSON is wanted and nothing can enforce it.
const ALONE: &str = "and nothing else: no words before or after it, no code fence.";
