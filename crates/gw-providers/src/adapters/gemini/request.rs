//! A conversation as the body of `generateContent`: <https://ai.google.dev/api/generate-content>.

use std::borrow::Cow;

use bytes::Bytes;
use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::failure::{Failure, FailureKind};

use super::Flavour;
use super::contents::contents;
use super::schema::{self, Budget, Kind};
use super::shape::{
    Content, FunctionCallingConfig, FunctionDeclaration, GenerationConfig, Part, Request, ThinkingConfig,
    ToolConfig, Tools,
};
use super::thinking::{self, Thinking};
use crate::adapter::{Reading, Target};
use crate::adapters::native::{dropped, unsupported};
use crate::model_rules::{LogprobsRule, ModelRules, SchemaDialect, System};
use crate::settings::Api;

type Warnings = Vec<Cow<'static, str>>;

/// The largest number that the API's 32-bit integers hold.
const MOST_TOKENS: u64 = i32::MAX as u64;

const IN_WORDS: &str = "Answer with a single JSON object and nothing else: no other text and no code fence.";

/// A body and what goes with it.
#[derive(Debug)]
pub(in crate::adapters) struct Body {
    pub(in crate::adapters) bytes: Bytes,
    pub(in crate::adapters) reading: Reading,
    pub(in crate::adapters) warnings: Warnings,
}

/// Writes the body.
pub(in crate::adapters) fn body(
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    flavour: Flavour,
) -> Result<Body, Failure> {
    let rules = target.rules(Api::Gemini);
    let mut warnings = dropped(conversation, &["logit_bias"]);
    if conversation.parallel_tool_calls == Some(false) {
        warnings.extend(dropped(conversation, &["parallel_tool_calls"]));
    }
    let (system_instruction, contents) = contents(conversation, rules, flavour)?;
    let mut request = Request { system_instruction, contents, ..Request::default() };
    let mut budget = Budget::default();
    tools(conversation, rules, &mut budget, &mut request, &mut warnings)?;
    request.generation_config = config(conversation, rules, target, &mut warnings);
    if let Some(most) = conversation.logprobs {
        if tells_logprobs(rules, flavour) {
            request.generation_config.response_logprobs = Some(true);
            request.generation_config.logprobs = (most > 0).then_some(most);
        } else {
            warnings.push(Cow::Borrowed("parameter_dropped:logprobs"));
        }
    }
    let reading = format(conversation, rules, &mut budget, &mut request, &mut warnings)?;
    let bytes = serde_json::to_vec(&request).map_err(|fault| {
        Failure::new(FailureKind::BadRequest, "The request cannot be written for this provider.")
            .with_detail(fault)
    })?;
    Ok(Body { bytes: bytes.into(), reading, warnings })
}

fn tools<'a>(
    conversation: &'a Conversation<'a>,
    rules: ModelRules,
    budget: &mut Budget,
    request: &mut Request<'a>,
    warnings: &mut Warnings,
) -> Result<(), Failure> {
    if conversation.tools.is_empty() {
        return Ok(());
    }
    let mut is_simplified = false;
    let declarations =
        conversation.tools.iter().map(|tool| declaration(tool, rules, budget, &mut is_simplified));
    let function_declarations = declarations.collect::<Result<Vec<_>, _>>()?;
    if is_simplified {
        warnings.push(Cow::Borrowed("parameter_simplified:tools"));
    }
    request.tools.push(Tools { function_declarations });
    let allowed = || conversation.allowed_tools.iter().flatten().map(|name| Cow::Borrowed(&**name)).collect();
    let (mode, allowed_function_names) = match &conversation.tool_choice {
        // "This should only be set when the Mode is ANY or VALIDATED" (`FunctionCallingConfig` of v1beta, read 2026-11-22).
        // VALIDATED leaves the choice between words and a call to the model. Vertex AI has it in v1beta1 only.
        ToolChoice::Auto if conversation.allowed_tools.is_some() => ("VALIDATED", allowed()),
        ToolChoice::Required if conversation.allowed_tools.is_some() => ("ANY", allowed()),
        ToolChoice::Unset => return Ok(()),
        ToolChoice::Auto => ("AUTO", Vec::new()),
        ToolChoice::Never => ("NONE", Vec::new()),
        ToolChoice::Required => ("ANY", Vec::new()),
        ToolChoice::Named(name) => ("ANY", vec![Cow::Borrowed(&**name)]),
    };
    let function_calling_config = FunctionCallingConfig { mode, allowed_function_names };
    request.tool_config = Some(ToolConfig { function_calling_config });
    Ok(())
}

/// "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores, dots, colons and dashes, with a
/// maximum length of 64" (`FunctionDeclaration` of Vertex AI's v1, read 2026-11-22; google-genai 3.4.0 says 128).
pub(in crate::adapters) fn is_tool_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && name.len() <= 64 && name.bytes().all(fits)
}

/// A schema without properties is left out: it says nothing, and older models refuse it.
fn declaration<'a>(
    tool: &'a Tool<'_>,
    rules: ModelRules,
    budget: &mut Budget,
    is_simplified: &mut bool,
) -> Result<FunctionDeclaration<'a>, Failure> {
    let mut declaration = FunctionDeclaration {
        name: Cow::Borrowed(&*tool.name),
        description: tool.description.as_deref().map(Cow::Borrowed),
        parameters: None,
        parameters_json_schema: None,
    };
    let kind = kind(rules);
    let Some(parameters) = tool.parameters else { return Ok(declaration) };
    let written = schema::write_parameters(parameters, kind, budget).map_err(|_| too_large("tools"))?;
    let Some(written) = written else { return Ok(declaration) };
    *is_simplified |= written.is_simplified;
    match kind {
        Kind::Json => declaration.parameters_json_schema = Some(written.schema),
        Kind::OpenApi => declaration.parameters = Some(written.schema),
    }
    Ok(declaration)
}

/// What a schema is written in.
fn kind(rules: ModelRules) -> Kind {
    match rules.schema_dialect {
        SchemaDialect::JsonSchema | SchemaDialect::Bare => Kind::Json,
        SchemaDialect::OpenApi => Kind::OpenApi,
    }
}

fn tells_logprobs(rules: ModelRules, flavour: Flavour) -> bool {
    match rules.logprobs {
        LogprobsRule::Told => true,
        LogprobsRule::OnVertex => flavour == Flavour::Vertex,
        LogprobsRule::Refused => false,
    }
}

fn too_large(field: &str) -> Failure {
    unsupported(format!(
        "Invalid '{field}': a JSON schema is too large for this provider once its references are resolved."
    ))
}

fn config<'a>(
    conversation: &'a Conversation<'_>,
    rules: ModelRules,
    target: &Target<'_>,
    warnings: &mut Warnings,
) -> GenerationConfig<'a> {
    let asked = target.max_tokens(conversation.max_tokens);
    if asked > Some(MOST_TOKENS) {
        warnings.push(Cow::Borrowed("parameter_clamped:max_tokens"));
    }
    let mut penalty = |name: &'static str, asked: Option<f64>| {
        let asked = asked.filter(|asked| *asked != 0.0)?;
        if rules.takes_penalties() {
            return Some(asked);
        }
        warnings.push(Cow::Owned(format!("parameter_dropped:{name}")));
        None
    };
    let frequency_penalty = penalty("frequency_penalty", conversation.frequency_penalty);
    let presence_penalty = penalty("presence_penalty", conversation.presence_penalty);
    let stops = conversation.stop.iter().filter(|stop| !stop.is_empty());
    GenerationConfig {
        candidate_count: (conversation.n > 1).then_some(conversation.n),
        max_output_tokens: asked.map(|asked| asked.min(MOST_TOKENS)),
        temperature: conversation.temperature,
        top_p: conversation.top_p,
        stop_sequences: stops.map(|stop| Cow::Borrowed(&**stop)).collect(),
        seed: conversation.seed.map(fold),
        presence_penalty,
        frequency_penalty,
        thinking_config: thinking_config(conversation, rules, warnings),
        ..GenerationConfig::default()
    }
}

/// The API's seed has 32 bits. One that fits is sent as it is; of another, both halves count (exclusive or), so that
/// seeds that differ anywhere stay different as a rule.
#[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
pub(super) fn fold(seed: i64) -> i32 {
    i32::try_from(seed).unwrap_or((seed ^ (seed >> 32)) as i32)
}

fn thinking_config(
    conversation: &Conversation<'_>,
    rules: ModelRules,
    warnings: &mut Warnings,
) -> Option<ThinkingConfig> {
    let effort = conversation.reasoning_effort.as_deref()?;
    let Some((thinking, is_exact)) = thinking::thinking(&rules, effort) else {
        // A model that does not think does what `none` asks for.
        if effort != "none" {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
        }
        return None;
    };
    if !is_exact {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    let (thinking_level, thinking_budget) = match thinking {
        Thinking::Level(level) => (Some(level), None),
        Thinking::Budget(budget) => (None, Some(budget)),
    };
    Some(ThinkingConfig { thinking_level, thinking_budget, include_thoughts: effort != "none" })
}

/// Says something for the system: behind its instruction, or in front of the user's words where there is none.
fn say<'a>(words: Part<'a>, rules: ModelRules, request: &mut Request<'a>) {
    let first = request.contents.first_mut().filter(|_| rules.system == System::InUserTurn);
    match first {
        Some(first) => first.parts.insert(0, words),
        None => {
            let system = request.system_instruction.get_or_insert(Content { role: None, parts: Vec::new() });
            system.parts.push(words);
        }
    }
}

/// `response_format`. Models before Gemini 3 refuse it beside tools ("Function calling with a response mime type:
/// 'application/json' is unsupported"): there both are asked for in words.
fn format<'a>(
    conversation: &'a Conversation<'a>,
    rules: ModelRules,
    budget: &mut Budget,
    request: &mut Request<'a>,
    warnings: &mut Warnings,
) -> Result<Reading, Failure> {
    let mut reading = Reading::default();
    let wanted = match &conversation.format {
        Format::Text => return Ok(reading),
        Format::Json => None,
        Format::Schema { schema, .. } => *schema,
    };
    if !request.tools.is_empty() && rules.schema_without_tools {
        if conversation.tool_choice == ToolChoice::Never {
            // Nothing may be called, so the tools need not be there.
            request.tools.clear();
            request.tool_config = None;
        } else {
            let schema =
                wanted.map(|schema| format!("{IN_WORDS} It must match this JSON Schema: {}", schema.text()));
            if schema.is_some() {
                warnings.push(Cow::Borrowed("parameter_weakened:response_format"));
            }
            let words = schema.map_or_else(|| Part::text(IN_WORDS), Part::text);
            say(words, rules, request);
            reading.fenced = true;
            return Ok(reading);
        }
    }
    let config = &mut request.generation_config;
    config.response_mime_type = Some("application/json");
    if let Some(wanted) = wanted {
        let kind = kind(rules);
        let written = schema::write(wanted, kind, budget).map_err(|_| too_large("response_format"))?;
        if written.is_simplified {
            warnings.push(Cow::Borrowed("parameter_simplified:response_format"));
        }
        match kind {
            Kind::Json => config.response_json_schema = Some(written.schema),
            Kind::OpenApi => config.response_schema = Some(written.schema),
        }
    }
    Ok(reading)
}
