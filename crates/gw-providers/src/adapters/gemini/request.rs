//! A conversation as the body of `generateContent`: <https://ai.google.dev/api/generate-content>.

use std::borrow::Cow;

use bytes::Bytes;
use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::failure::{Failure, FailureKind};

use super::contents::contents;
use super::flavour::Flavour;
use super::schema::{self, ReferenceBudget, SchemaFormat};
use super::thinking::{self, GeminiThinking};
use super::wire::{
    FunctionCallingConfig, FunctionDeclaration, GeminiContent, GeminiPart, GeminiRequest, GeminiTool,
    GeminiToolConfig, GenerationConfig, GoogleSearch, ThinkingConfig,
};
use crate::adapter::{Reading, Target};
use crate::adapters::native::{dropped, unsupported};
use crate::adapters::warnings::Warnings;
use crate::model_rules::{LogprobsRule, ModelRules, SchemaDialect, System};

/// The largest value of the API's 32-bit integers.
const MAX_OUTPUT_TOKENS: u64 = i32::MAX as u64;

/// The member of a chat that asks for web searches.
pub(super) const SEARCH: &str = "web_search_options";

const JSON_INSTRUCTION: &str =
    "Answer with a single JSON object and nothing else: no other text and no code fence.";

/// An encoded body, how to read its answer, and the warnings.
#[derive(Debug)]
pub(in crate::adapters) struct GeminiBody {
    pub(in crate::adapters) bytes: Bytes,
    pub(in crate::adapters) reading: Reading,
    pub(in crate::adapters) warnings: Warnings,
}

/// Encodes the body.
pub(in crate::adapters) fn encode(
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    flavour: Flavour,
) -> Result<GeminiBody, Failure> {
    let rules = target.rules;
    let mut warnings = dropped(conversation, &["logit_bias"]);
    if conversation.parallel_tool_calls == Some(false) {
        warnings.extend(dropped(conversation, &["parallel_tool_calls"]));
    }
    let (system_instruction, contents) = contents(conversation, rules, flavour)?;
    let mut request = GeminiRequest { system_instruction, contents, ..GeminiRequest::default() };
    let mut budget = ReferenceBudget::default();
    tools(conversation, rules, &mut budget, &mut request, &mut warnings)?;
    search(conversation, flavour, &mut request, &mut warnings);
    request.generation_config = config(conversation, rules, target, &mut warnings);
    if let Some(top) = conversation.logprobs {
        if has_logprobs(rules, flavour) {
            request.generation_config.response_logprobs = Some(true);
            request.generation_config.logprobs = (top > 0).then_some(top);
        } else {
            warnings.push(Cow::Borrowed("parameter_dropped:logprobs"));
        }
    }
    let reading = format(conversation, rules, &mut budget, &mut request, &mut warnings)?;
    let bytes = serde_json::to_vec(&request).map_err(|fault| {
        Failure::new(FailureKind::BadRequest, "The request cannot be written for this provider.")
            .with_detail(fault)
    })?;
    Ok(GeminiBody { bytes: bytes.into(), reading, warnings })
}

/// Lets the model search the web, which Gemini takes only without functions ("Combine built-in tools and function
/// calling", ai.google.dev/gemini-api/docs/tool-combination: newer models only, and with another way of calling).
fn search(
    conversation: &Conversation<'_>,
    flavour: Flavour,
    request: &mut GeminiRequest<'_>,
    warnings: &mut Warnings,
) {
    if flavour == Flavour::Vertex || !conversation.has(SEARCH) {
        return;
    }
    if request.tools.is_empty() {
        let google_search = Some(GoogleSearch {});
        request.tools.push(GeminiTool { function_declarations: Vec::new(), google_search });
    } else {
        warnings.extend(dropped(conversation, &[SEARCH]));
    }
}

fn tools<'a>(
    conversation: &'a Conversation<'a>,
    rules: ModelRules,
    budget: &mut ReferenceBudget,
    request: &mut GeminiRequest<'a>,
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
    request.tools.push(GeminiTool { function_declarations, google_search: None });
    let allowed = || conversation.allowed_tools.iter().flatten().map(|name| Cow::Borrowed(&**name)).collect();
    let (mode, allowed_function_names) = match &conversation.tool_choice {
        // "This should only be set when the Mode is ANY or VALIDATED" (`FunctionCallingConfig` of v1beta, read
        // 2026-11-22). With VALIDATED the model chooses between text and a call. Vertex AI has it in v1beta1 only.
        ToolChoice::Auto if conversation.allowed_tools.is_some() => ("VALIDATED", allowed()),
        ToolChoice::Required if conversation.allowed_tools.is_some() => ("ANY", allowed()),
        ToolChoice::Unset => return Ok(()),
        ToolChoice::Auto => ("AUTO", Vec::new()),
        ToolChoice::Never => ("NONE", Vec::new()),
        ToolChoice::Required => ("ANY", Vec::new()),
        ToolChoice::Named(name) => ("ANY", vec![Cow::Borrowed(&**name)]),
    };
    let function_calling_config = FunctionCallingConfig { mode, allowed_function_names };
    request.tool_config = Some(GeminiToolConfig { function_calling_config });
    Ok(())
}

/// Whether Google takes the name of a function. "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or
/// contain underscores, dots, colons and dashes, with a maximum length of 64" (`FunctionDeclaration` of Vertex AI's v1,
/// read 2026-11-22; google-genai 3.4.0 says 128).
pub(in crate::adapters) fn is_tool_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && name.len() <= 64 && name.bytes().all(fits)
}

/// Translates a tool. A schema without properties is left out, because older models refuse it.
fn declaration<'a>(
    tool: &'a Tool<'_>,
    rules: ModelRules,
    budget: &mut ReferenceBudget,
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
    let translated =
        schema::translate_parameters(parameters, kind, budget).map_err(|_| too_large("tools"))?;
    let Some(translated) = translated else { return Ok(declaration) };
    *is_simplified |= translated.is_simplified;
    match kind {
        SchemaFormat::Json => declaration.parameters_json_schema = Some(translated.schema),
        SchemaFormat::OpenApi => declaration.parameters = Some(translated.schema),
    }
    Ok(declaration)
}

/// Returns the format that the model takes schemas in.
fn kind(rules: ModelRules) -> SchemaFormat {
    match rules.schema_dialect {
        SchemaDialect::JsonSchema | SchemaDialect::Bare => SchemaFormat::Json,
        SchemaDialect::OpenApi => SchemaFormat::OpenApi,
    }
}

fn has_logprobs(rules: ModelRules, flavour: Flavour) -> bool {
    match rules.logprobs {
        LogprobsRule::Reported => true,
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
    let requested = target.max_tokens(conversation.max_tokens);
    if requested > Some(MAX_OUTPUT_TOKENS) {
        warnings.push(Cow::Borrowed("parameter_clamped:max_tokens"));
    }
    let mut penalty = |name: &'static str, requested: Option<f64>| {
        let requested = requested.filter(|requested| *requested != 0.0)?;
        if rules.takes_penalties() {
            return Some(requested);
        }
        warnings.push(Cow::Owned(format!("parameter_dropped:{name}")));
        None
    };
    let frequency_penalty = penalty("frequency_penalty", conversation.frequency_penalty);
    let presence_penalty = penalty("presence_penalty", conversation.presence_penalty);
    let stops = conversation.stop.iter().filter(|stop| !stop.is_empty());
    GenerationConfig {
        candidate_count: (conversation.n > 1).then_some(conversation.n),
        max_output_tokens: requested.map(|requested| requested.min(MAX_OUTPUT_TOKENS)),
        temperature: conversation.temperature,
        top_p: conversation.top_p,
        top_k: conversation.top_k().filter(|top_k| *top_k > 0),
        stop_sequences: stops.map(|stop| Cow::Borrowed(&**stop)).collect(),
        seed: conversation.seed.map(fold),
        presence_penalty,
        frequency_penalty,
        thinking_config: thinking_config(conversation, rules, warnings),
        ..GenerationConfig::default()
    }
}

/// Shortens a seed to the API's 32 bits. A seed that fits stays as it is; the halves of a longer one are combined by
/// exclusive or, so that different seeds usually stay different.
#[expect(clippy::cast_possible_truncation, reason = "only the lower half is wanted")]
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
        // A model that never thinks satisfies `none`.
        if effort != "none" {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
        }
        return None;
    };
    if !is_exact {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    let (thinking_level, thinking_budget) = match thinking {
        GeminiThinking::Level(level) => (Some(level), None),
        GeminiThinking::Budget(budget) => (None, Some(budget)),
    };
    Some(ThinkingConfig { thinking_level, thinking_budget, include_thoughts: effort != "none" })
}

/// Adds a system instruction: behind the others, or before the user's text for models without a system instruction.
fn add_instruction<'a>(instruction: GeminiPart<'a>, rules: ModelRules, request: &mut GeminiRequest<'a>) {
    let first = request.contents.first_mut().filter(|_| rules.system == System::InUserTurn);
    match first {
        Some(first) => first.parts.insert(0, instruction),
        None => {
            let system =
                request.system_instruction.get_or_insert(GeminiContent { role: None, parts: Vec::new() });
            system.parts.push(instruction);
        }
    }
}

/// Encodes `response_format`. Models before Gemini 3 refuse it beside tools ("Function calling with a response mime
/// type: 'application/json' is unsupported"), so the system instruction asks for the format instead.
fn format<'a>(
    conversation: &'a Conversation<'a>,
    rules: ModelRules,
    budget: &mut ReferenceBudget,
    request: &mut GeminiRequest<'a>,
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
            // No tool may be called, so the tools can be left out.
            request.tools.clear();
            request.tool_config = None;
        } else {
            let schema = wanted.map(|schema| {
                format!("{JSON_INSTRUCTION} It must match this JSON Schema: {}", schema.text())
            });
            if schema.is_some() {
                warnings.push(Cow::Borrowed("parameter_weakened:response_format"));
            }
            let instruction = schema.map_or_else(|| GeminiPart::text(JSON_INSTRUCTION), GeminiPart::text);
            add_instruction(instruction, rules, request);
            reading.fenced = true;
            return Ok(reading);
        }
    }
    let config = &mut request.generation_config;
    config.response_mime_type = Some("application/json");
    if let Some(wanted) = wanted {
        let kind = kind(rules);
        let translated = schema::translate(wanted, kind, budget).map_err(|_| too_large("response_format"))?;
        if translated.is_simplified {
            warnings.push(Cow::Borrowed("parameter_simplified:response_format"));
        }
        match kind {
            SchemaFormat::Json => config.response_json_schema = Some(translated.schema),
            SchemaFormat::OpenApi => config.response_schema = Some(translated.schema),
        }
    }
    Ok(reading)
}
