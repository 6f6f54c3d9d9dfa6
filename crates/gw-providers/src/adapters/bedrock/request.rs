//! A conversation as Converse wants it. API Reference, `API_runtime_Converse`.

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;

use super::blocks::{Block, Inference, Request};
use super::family::{Family, Generation};
use super::reasoning::{self, Thinking};
use super::{messages, post, tools, written};
use crate::adapter::{Encoded, Reading, Target};
use crate::adapters::native::dropped;

/// The API's own bound for every model (`InferenceConfiguration`).
const HOTTEST: f64 = 1.0;

type Warnings = Vec<Cow<'static, str>>;

/// The call.
pub(super) fn encode(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    let family = Family::of(target);
    let turns = conversation.turns();
    let plan = tools::plan(conversation, family);
    let max_tokens = target.max_tokens(conversation.max_tokens);
    let thinking = reasoning::thinking(conversation, &turns, family, max_tokens, plan.forces());
    let mut warnings = unsaid(conversation);
    if plan.weakened {
        warnings.push(Cow::Borrowed("parameter_weakened:response_format"));
    }
    if thinking.dropped {
        warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
    } else if thinking.clamped {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    let inference = inference(conversation, family, max_tokens, &thinking, &mut warnings);
    let mut system = messages::system(conversation.system(), family);
    system.extend(plan.words.as_deref().map(|words| Block::Text(Cow::Borrowed(words))));
    let (messages, is_added) = messages::messages(&turns, family)?;
    if is_added {
        warnings.push(Cow::Borrowed("message_added:user"));
    }
    let request = Request {
        messages,
        system,
        inference_config: (inference != Inference::default()).then_some(inference),
        tool_config: plan.config,
        additional_model_request_fields: thinking.fields,
    };
    let body = written(&request)?;
    let operation = if conversation.stream { "converse-stream" } else { "converse" };
    let fenced = plan.words.is_some();
    let reading = Reading { json_tool: plan.json_tool, fenced, ..Reading::default() };
    Ok(Encoded { call: post(target.upstream_model, operation, body), reading, warnings })
}

fn inference<'c>(
    conversation: &'c Conversation<'_>,
    family: Family,
    max_tokens: Option<u64>,
    thinking: &Thinking,
    warnings: &mut Warnings,
) -> Inference<'c> {
    let mut warn = |warning: &'static str| warnings.push(Cow::Borrowed(warning));
    let mut inference = Inference {
        max_tokens,
        temperature: conversation.temperature,
        top_p: conversation.top_p,
        stop_sequences: Vec::new(),
    };
    if inference.temperature.is_some_and(|temperature| temperature > HOTTEST) {
        inference.temperature = Some(HOTTEST);
        warn("parameter_clamped:temperature");
    }
    let fixed = thinking.no_sampling || family == Family::Claude(Generation::Fixed);
    // The default of both is the only value that such models take.
    if fixed && inference.temperature.take().is_some_and(|temperature| temperature < HOTTEST) {
        warn("parameter_dropped:temperature");
    }
    if fixed && inference.top_p.take().is_some_and(|top_p| top_p < 1.0) {
        warn("parameter_dropped:top_p");
    }
    let one = matches!(family, Family::Claude(generation) if generation >= Generation::OneSampler);
    if one && inference.temperature.is_some() && inference.top_p.take().is_some_and(|top_p| top_p < 1.0) {
        warn("parameter_dropped:top_p");
    }
    if thinking.no_limit && inference.max_tokens.take().is_some() {
        warn("parameter_dropped:max_tokens");
    }
    // Claude refuses blanks as a stop sequence, and Converse refuses nothing.
    let blank = |stop: &str| stop.is_empty() || matches!(family, Family::Claude(_)) && stop.trim().is_empty();
    let sequences = conversation.stop.iter().map(|stop| &**stop).filter(|stop| !blank(stop));
    inference.stop_sequences = sequences.collect();
    if inference.stop_sequences.len() < conversation.stop.len() {
        warn("parameter_dropped:stop");
    }
    inference
}

/// What Converse has no words for, where it would make a difference.
fn unsaid(conversation: &Conversation<'_>) -> Warnings {
    let mut warnings = dropped(conversation, &["seed", "logit_bias"]);
    let mut warn = |is_lost: bool, warning: &'static str| {
        if is_lost {
            warnings.push(Cow::Borrowed(warning));
        }
    };
    let counts = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    warn(counts(conversation.frequency_penalty), "parameter_dropped:frequency_penalty");
    warn(counts(conversation.presence_penalty), "parameter_dropped:presence_penalty");
    warn(conversation.logprobs.is_some(), "parameter_dropped:logprobs");
    let serial = conversation.parallel_tool_calls == Some(false) && !conversation.legacy_functions;
    warn(serial, "parameter_dropped:parallel_tool_calls");
    warn(conversation.tools.iter().any(|tool| tool.strict == Some(true)), "parameter_dropped:strict");
    warnings
}
