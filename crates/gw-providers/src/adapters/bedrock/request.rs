//! A conversation as a Converse request. API Reference, `API_runtime_Converse`.

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;

use super::call::{post, to_json};
use super::messages::ConverseMessages;
use super::reasoning::{self, BedrockThinking};
use super::wire::{
    BedrockBlock, BedrockCachePoint, BedrockMessage, BedrockRole, BedrockToolConfig, ConverseRequest,
    InferenceConfig, ToolEntry,
};
use super::{messages, tools};
use crate::adapter::{BreakpointPlan, Breakpoints, Encoded, Reading, Target};
use crate::adapters::native::{dropped, only_stop};
use crate::adapters::replay;
use crate::adapters::warnings::Warnings;
use crate::model_rules::{CachePoints, ModelRules, Prefill, Sampling};
use crate::settings::BreakpointTtl;

/// Encodes the call.
pub(super) fn encode(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    let rules = target.rules;
    let turns = conversation.turns();
    let plan = tools::plan(conversation, rules);
    let max_tokens = target.max_tokens(conversation.max_tokens);
    let mut warnings = unsupported_members(conversation);
    if plan.is_weakened {
        warnings.push(Cow::Borrowed("parameter_weakened:response_format"));
    }
    if plan.call_instruction.is_some() {
        warnings.push(Cow::Borrowed("parameter_dropped:tool_choice"));
    }
    let thinking =
        reasoning::thinking(conversation, &turns, rules, target, plan.is_call_forced(), &mut warnings);
    let inference = inference(conversation, rules, max_tokens, &thinking, &mut warnings);
    let mut system = messages::system(conversation.system(), rules);
    system.extend(
        plan.instructions.as_deref().map(|instructions| BedrockBlock::Text(Cow::Borrowed(instructions))),
    );
    let must_end_with_user = thinking.must_end_with_user || rules.prefill == Prefill::Refused;
    let ConverseMessages { mut messages, is_added, has_discarded } =
        messages::messages(&turns, rules, must_end_with_user)?;
    if is_added {
        warnings.push(Cow::Borrowed("message_added:user"));
    }
    if has_discarded {
        warnings.push(Cow::Borrowed(replay::DROPPED));
    }
    let only_stop = only_stop(&inference.stop_sequences);
    let mut tool_config = plan.config;
    let breakpoints = add_breakpoints(target, tool_config.as_mut(), &mut system, &mut messages);
    messages::append_instruction(&mut messages, plan.call_instruction.as_deref());
    let request = ConverseRequest {
        messages,
        system,
        inference_config: (inference != InferenceConfig::default()).then_some(inference),
        tool_config,
        output_config: plan.output,
        additional_model_request_fields: thinking.fields,
    };
    let body = to_json(&request)?;
    let operation = if conversation.stream { "converse-stream" } else { "converse" };
    let fenced = plan.instructions.is_some();
    let reading = Reading { json_tool: plan.json_tool, fenced, breakpoints, only_stop, ..Reading::default() };
    Ok(Encoded { call: post(target.upstream_model, operation, body), reading, warnings })
}

/// Adds the breakpoints of a request without any: behind the tools, the system prompt, and the two newest messages of the user. The older
/// one is where the request before ended.
fn add_breakpoints(
    target: &Target<'_>,
    tools: Option<&mut BedrockToolConfig<'_>>,
    system: &mut Vec<BedrockBlock<'_>>,
    messages: &mut [BedrockMessage<'_>],
) -> Breakpoints {
    let rules = target.rules;
    let Some(BreakpointPlan { ttl, is_held }) = target.breakpoints.filter(|_| rules.caches()) else {
        return Breakpoints::None;
    };
    if is_held {
        return Breakpoints::Held;
    }
    let point = BedrockCachePoint::new(ttl == BreakpointTtl::Hour && rules.cache_hour);
    if let Some(tools) = tools.filter(|_| rules.cache_points == CachePoints::Tools) {
        tools.tools.push(ToolEntry::CachePoint(point));
    }
    if !system.is_empty() {
        system.push(BedrockBlock::CachePoint(point));
    }
    let users = messages.iter_mut().rev().filter(|message| message.role == BedrockRole::User);
    users.take(2).for_each(|message| message.content.push(BedrockBlock::CachePoint(point)));
    Breakpoints::Inserted
}

fn inference<'c>(
    conversation: &'c Conversation<'_>,
    rules: ModelRules,
    max_tokens: Option<u64>,
    thinking: &BedrockThinking,
    warnings: &mut Warnings,
) -> InferenceConfig<'c> {
    let mut warn = |warning: &'static str| warnings.push(Cow::Borrowed(warning));
    let mut inference = InferenceConfig {
        max_tokens,
        temperature: conversation.temperature,
        top_p: conversation.top_p,
        stop_sequences: Vec::new(),
    };
    let max_temperature = rules.temperature_most;
    if inference.temperature.is_some_and(|temperature| temperature > max_temperature) {
        inference.temperature = Some(max_temperature);
        warn("parameter_clamped:temperature");
    }
    let [min, max] = rules.top_p;
    if let Some(top_p) = inference.top_p.filter(|top_p| !(min..=max).contains(top_p)) {
        // The models' own default is another value than 1, so the member is always sent.
        inference.top_p = Some(top_p.clamp(min, max));
        warn("parameter_clamped:top_p");
    }
    let is_fixed = thinking.is_sampling_refused || rules.sampling == Sampling::Fixed;
    // These models take only the default value of both members.
    if is_fixed && inference.temperature.take().is_some_and(|temperature| temperature < max_temperature) {
        warn("parameter_dropped:temperature");
    }
    if is_fixed && inference.top_p.take().is_some_and(|top_p| top_p < 1.0) {
        warn("parameter_dropped:top_p");
    }
    let takes_one = rules.sampling == Sampling::One;
    if takes_one && inference.temperature.is_some() && inference.top_p.take().is_some_and(|top_p| top_p < 1.0)
    {
        warn("parameter_dropped:top_p");
    }
    if thinking.is_limit_refused && inference.max_tokens.take().is_some() {
        warn("parameter_dropped:max_tokens");
    }
    // Claude refuses blank stop sequences, and every model refuses empty ones.
    let blank = |stop: &str| stop.is_empty() || rules.vendor() == "claude" && stop.trim().is_empty();
    let sequences = conversation.stop.iter().map(|stop| &**stop).filter(|stop| !blank(stop));
    inference.stop_sequences = sequences.collect();
    if inference.stop_sequences.len() < conversation.stop.len() {
        warn("parameter_dropped:stop");
    }
    inference
}

/// Returns warnings for members that Converse has no equivalent of.
fn unsupported_members(conversation: &Conversation<'_>) -> Warnings {
    let mut warnings = dropped(conversation, &["seed", "logit_bias", "top_k"]);
    let mut warn = |is_lost: bool, warning: &'static str| {
        if is_lost {
            warnings.push(Cow::Borrowed(warning));
        }
    };
    let counts = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    warn(counts(conversation.frequency_penalty), "parameter_dropped:frequency_penalty");
    warn(counts(conversation.presence_penalty), "parameter_dropped:presence_penalty");
    warn(conversation.logprobs.is_some(), "parameter_dropped:logprobs");
    let is_serial = conversation.parallel_tool_calls == Some(false) && !conversation.legacy_functions;
    warn(is_serial, "parameter_dropped:parallel_tool_calls");
    warn(conversation.tools.iter().any(|tool| tool.strict == Some(true)), "parameter_dropped:strict");
    warnings
}
