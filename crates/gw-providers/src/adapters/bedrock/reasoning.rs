//! Reasoning: the request members in `additionalModelRequestFields`, and the signed reasoning that has to be sent back.
//!
//! User Guide: "Extended thinking" and "Adaptive thinking" (Claude), "OpenAI models"; Nova 2 User Guide, "Extended
//! thinking". Signed reasoning travels in `reasoning_details`, in the format that OpenRouter documents under
//! "Preserving reasoning blocks".

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Turn};
use gw_wire::json::View;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::wire::BedrockReasoning;
use crate::adapter::Target;
use crate::adapters::anthropic::thinking::{ThinkingContext, ThinkingPlan};
use crate::adapters::warnings::Warnings;
use crate::model_rules::{Effort, EffortField, ModelRules, Thinks};

/// The `format` of entries with signatures of these models.
pub(super) const FORMAT: &str = "anthropic-claude-v1";

/// The usual order of an answer's blocks, grouped by kind. An answer in this order needs no order entry.
pub(super) const USUAL_ORDER: &[(char, usize)] =
    &[('d', usize::MAX), ('t', 1), ('i', usize::MAX), ('c', usize::MAX)];

/// The token limit that Claude's thinking gets a share of when neither the client nor the catalogue sets one. Converse
/// then lets a model generate as much as it can.
const DEFAULT_MAX_TOKENS: u64 = 32_000;

/// The request members that turn reasoning on.
#[derive(Debug, Default)]
pub(super) struct BedrockThinking {
    /// `additionalModelRequestFields`.
    pub(super) fields: Option<Value>,
    /// The model refuses temperature and top_p.
    pub(super) is_sampling_refused: bool,
    /// The model refuses a token limit.
    pub(super) is_limit_refused: bool,
    /// The conversation must end with a user message.
    pub(super) must_end_with_user: bool,
}

/// Translates the requested effort for a model.
pub(super) fn thinking(
    conversation: &Conversation<'_>,
    turns: &[Turn<'_, '_>],
    rules: ModelRules,
    target: &Target<'_>,
    is_call_forced: bool,
    warnings: &mut Warnings,
) -> BedrockThinking {
    let requested = conversation.reasoning_effort.as_deref();
    if rules.vendor() == "claude" {
        let max_tokens = target.max_tokens(conversation.max_tokens).or(target.max_output_tokens);
        let at = ThinkingContext {
            max_tokens: max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
            is_tool_forced: is_call_forced,
            has_unsigned_calls: has_unsigned_calls(turns),
        };
        return of_claude(ThinkingPlan::new(rules, requested, at, warnings), rules);
    }
    let Some(word) = requested else { return BedrockThinking::default() };
    let requested_effort = Effort::read(word);
    let sent =
        requested_effort.filter(|effort| *effort != Effort::None).and_then(|effort| rules.effort(effort));
    let is_silent = matches!(rules.thinks, Thinks::Never | Thinks::WhenAsked);
    let Some(sent) = sent else {
        if !(requested_effort == Some(Effort::None) && is_silent) {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
        }
        return BedrockThinking::default();
    };
    if requested_effort != Some(sent) {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    let is_unbound = rules.unbound_at == Some(sent);
    let level = sent.as_str();
    let fields = match rules.effort_field {
        EffortField::ReasoningConfig => {
            json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}})
        }
        EffortField::ReasoningEffort => json!({"reasoning_effort": level}),
    };
    BedrockThinking {
        fields: Some(fields),
        is_sampling_refused: is_unbound,
        is_limit_refused: is_unbound,
        must_end_with_user: false,
    }
}

/// The thinking members of Claude's own API.
fn of_claude(plan: ThinkingPlan, rules: ModelRules) -> BedrockThinking {
    let mut fields = serde_json::Map::new();
    let thinking = plan.thinking.and_then(|thinking| serde_json::from_slice(&thinking.json()).ok());
    fields.extend(thinking.map(|thinking: Value| ("thinking".to_owned(), thinking)));
    fields.extend(plan.effort.map(|effort| ("output_config".to_owned(), json!({"effort": effort}))));
    BedrockThinking {
        fields: (!fields.is_empty()).then_some(Value::Object(fields)),
        is_sampling_refused: plan.is_on(),
        is_limit_refused: false,
        must_end_with_user: plan.forbids_prefill(rules),
    }
}

/// Whether the current turn has tool calls without signed reasoning. Claude refuses such a turn when thinking has a
/// token budget.
fn has_unsigned_calls(turns: &[Turn<'_, '_>]) -> bool {
    let last = turns.iter().rev().find_map(|turn| match turn {
        Turn::Assistant(messages) => Some(messages),
        Turn::User(_) => None,
    });
    let is_answered = matches!(turns.last(), Some(Turn::User(items)) if items.iter().any(is_result));
    last.is_some_and(|messages| {
        is_answered
            && messages.iter().any(|message| !message.tool_calls.is_empty())
            && messages.iter().all(|message| signed_history(&message.reasoning_details).next().is_none())
    })
}

fn is_result(item: &gw_wire::conversation::UserItem<'_, '_>) -> bool {
    matches!(item, gw_wire::conversation::UserItem::Result { .. })
}

/// Returns the signed reasoning that a client sent back, in its order.
pub(super) fn signed_history<'a>(details: &[View<'a>]) -> impl Iterator<Item = BedrockReasoning<'a>> {
    details.iter().filter_map(|detail| read_signed(*detail))
}

/// Reads one entry with signed reasoning; None for any other entry.
pub(super) fn read_signed(detail: View<'_>) -> Option<BedrockReasoning<'_>> {
    let [format, kind, text, signature, data] =
        detail.pick(["format", "type", "text", "signature", "data"]).map(|value| value?.string());
    if format.is_some_and(|format| format != FORMAT) {
        return None;
    }
    match &*kind? {
        "reasoning.text" => {
            let signature = signature.filter(|signature| !signature.is_empty())?;
            let text = text.unwrap_or_default();
            Some(BedrockReasoning::ReasoningText { text, signature: Some(signature) })
        }
        "reasoning.encrypted" => data.map(BedrockReasoning::RedactedContent),
        _ => None,
    }
}

/// One block of reasoning from the model.
#[derive(Debug, Default)]
pub(super) struct ReasoningBlock<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) signature: Cow<'a, str>,
    /// Encrypted reasoning, in base64.
    pub(super) redacted: Cow<'a, str>,
    /// Text was cut off, so the signature does not match.
    pub(super) is_cut: bool,
}

impl ReasoningBlock<'_> {
    /// Returns the bytes that the block holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.text.len() + self.signature.len() + self.redacted.len()
    }

    /// Returns the entry of `reasoning_details`; None if the block has nothing that the model needs back.
    pub(super) fn detail(&self, index: usize) -> Option<Value> {
        if self.is_cut {
            return None;
        }
        if !self.redacted.is_empty() {
            return Some(json!({
                "type": "reasoning.encrypted", "data": self.redacted, "format": FORMAT, "index": index,
            }));
        }
        (!self.signature.is_empty()).then(|| {
            json!({
                "type": "reasoning.text", "text": self.text, "signature": self.signature,
                "format": FORMAT, "index": index,
            })
        })
    }
}

/// Returns the value of `reasoning_details`; None without entries.
pub(super) fn details(entries: &[Value]) -> Option<Box<RawValue>> {
    if entries.is_empty() {
        return None;
    }
    serde_json::value::to_raw_value(entries).ok()
}
