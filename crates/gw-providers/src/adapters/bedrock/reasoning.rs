//! Reasoning: what is asked for by `additionalModelRequestFields`, what comes back and has to be sent again.
//!
//! User Guide: "Extended thinking" and "Adaptive thinking" (Claude), "OpenAI models"; Nova 2 User Guide, "Extended
//! thinking". Signed reasoning travels in `reasoning_details`, in the shape that OpenRouter documents under "Preserving
//! reasoning blocks".

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Turn};
use gw_wire::json::View;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::blocks::Reasoning;
use super::family::{Family, Generation};

/// Whose signatures these are.
pub(super) const FORMAT: &str = "anthropic-claude-v1";

/// The order that an answer usually has: its parts, one kind after the other, are in it again.
pub(super) const USUAL: &[(char, usize)] = &[('d', usize::MAX), ('t', 1), ('c', usize::MAX)];

/// The least that Claude may think.
const LEAST_BUDGET: u64 = 1024;

/// What is sent so that the model reasons.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    /// `additionalModelRequestFields`.
    pub(super) fields: Option<Value>,
    /// The effort could not be asked for.
    pub(super) dropped: bool,
    /// Another effort had to be asked for.
    pub(super) clamped: bool,
    /// Temperature and top_p are refused beside it.
    pub(super) no_sampling: bool,
    /// So is a token limit.
    pub(super) no_limit: bool,
}

/// What the wanted effort means to a family. `forced`: a tool must be called.
pub(super) fn thinking(
    conversation: &Conversation<'_>,
    turns: &[Turn<'_, '_>],
    family: Family,
    max_tokens: Option<u64>,
    forced: bool,
) -> Thinking {
    let dropped = Thinking { dropped: true, ..Thinking::default() };
    let Some(effort) = conversation.reasoning_effort.as_deref() else { return Thinking::default() };
    let (level, exact) = match effort {
        "none" => return none(family),
        "minimal" => ("low", false),
        "low" | "medium" | "high" => (effort, true),
        "xhigh" | "max" => ("high", false),
        _ => return dropped,
    };
    let with = |fields: Value| Thinking { fields: Some(fields), clamped: !exact, ..Thinking::default() };
    match family {
        Family::Claude(Generation::Plain) => dropped,
        Family::Claude(_) if forced => dropped,
        Family::Claude(Generation::Budget | Generation::OneSampler) => {
            let wanted = budget(effort);
            let budget = max_tokens.map_or(wanted, |most| wanted.min((most / 5 * 4).max(LEAST_BUDGET)));
            if max_tokens.is_some_and(|most| budget >= most) || unsigned_calls(turns) {
                return dropped;
            }
            let fields = json!({"thinking": {"type": "enabled", "budget_tokens": budget}});
            Thinking { fields: Some(fields), no_sampling: true, ..Thinking::default() }
        }
        Family::Claude(generation) => {
            let knows_xhigh = generation == Generation::Fixed;
            let (level, exact) =
                if knows_xhigh && effort == "xhigh" { (effort, true) } else { (level, exact) };
            let (level, exact) = if effort == "max" { (effort, true) } else { (level, exact) };
            // The newest think in silence unless they are asked to tell.
            let thinking = match generation {
                Generation::Fixed => json!({"type": "adaptive", "display": "summarized"}),
                _ => json!({"type": "adaptive"}),
            };
            let fields = json!({"thinking": thinking, "output_config": {"effort": level}});
            Thinking { fields: Some(fields), no_sampling: true, clamped: !exact, ..Thinking::default() }
        }
        Family::Nova { second: true } => {
            let fields = json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}});
            let unbound = level == "high";
            Thinking { no_sampling: unbound, no_limit: unbound, ..with(fields) }
        }
        Family::GptOss => with(json!({"reasoning_effort": level})),
        Family::Nova { second: false }
        | Family::Mistral
        | Family::Llama
        | Family::DeepSeek
        | Family::Other
        | Family::Unknown => dropped,
    }
}

/// No reasoning: what is not asked for does not happen, but for the models that always do.
fn none(family: Family) -> Thinking {
    let always = matches!(family, Family::GptOss | Family::DeepSeek | Family::Unknown);
    Thinking { dropped: always, ..Thinking::default() }
}

fn budget(effort: &str) -> u64 {
    match effort {
        "minimal" | "low" => LEAST_BUDGET,
        "medium" => 8192,
        "high" => 16_384,
        _ => 24_576,
    }
}

/// Whether the turn that is going on has calls without the reasoning that led to them: Claude, when it has a budget,
/// refuses such a turn.
fn unsigned_calls(turns: &[Turn<'_, '_>]) -> bool {
    let last = turns.iter().rev().find_map(|turn| match turn {
        Turn::Assistant(said) => Some(said),
        Turn::User(_) => None,
    });
    let answered = matches!(turns.last(), Some(Turn::User(items)) if items.iter().any(is_result));
    last.is_some_and(|said| {
        answered
            && said.iter().any(|message| !message.tool_calls.is_empty())
            && said.iter().all(|message| history(&message.reasoning_details).next().is_none())
    })
}

fn is_result(item: &gw_wire::conversation::UserItem<'_, '_>) -> bool {
    matches!(item, gw_wire::conversation::UserItem::Result { .. })
}

/// The signed reasoning that a client sent back, in the order it came.
pub(super) fn history<'a>(details: &[View<'a>]) -> impl Iterator<Item = Reasoning<'a>> {
    details.iter().filter_map(|detail| signed(*detail))
}

/// An entry that holds signed reasoning.
pub(super) fn signed(detail: View<'_>) -> Option<Reasoning<'_>> {
    let [format, kind, words, signature, data] =
        detail.pick(["format", "type", "text", "signature", "data"]).map(|value| value?.string());
    if format.is_some_and(|format| format != FORMAT) {
        return None;
    }
    match &*kind? {
        "reasoning.text" => {
            let signature = signature.filter(|signature| !signature.is_empty())?;
            let text = words.unwrap_or_default();
            Some(Reasoning::ReasoningText { text, signature: Some(signature) })
        }
        "reasoning.encrypted" => data.map(Reasoning::RedactedContent),
        _ => None,
    }
}

/// One block of reasoning that came.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) signature: Cow<'a, str>,
    /// Base64.
    pub(super) redacted: Cow<'a, str>,
    /// Not all of it is here, so the signature does not fit what is.
    pub(super) is_cut: bool,
}

impl Block<'_> {
    /// The entry of `reasoning_details`; None when nothing in it has to come back.
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

/// The value of `reasoning_details`; None when it would be empty.
pub(super) fn details(entries: &[Value]) -> Option<Box<RawValue>> {
    if entries.is_empty() {
        return None;
    }
    serde_json::value::to_raw_value(entries).ok()
}
