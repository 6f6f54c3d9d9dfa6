//! The JSON of every answer in OpenAI's dialect: complete replies and stream chunks, chat and text.

use std::borrow::Cow;
use std::fmt;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::Reader;
use gw_wire::reply::{Finish, METADATA, STOP_SEQUENCE};
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::lenient::{
    LenientContent, LenientNumber, LenientText, Member, MemberSlot, RawText, TextOrJson, members,
};
use super::quick::{self, Quick};
use crate::adapters::failure::reported;

members! {
    /// A reply or a stream chunk.
    OpenAiEnvelope<'de> {
        object: LenientText<'de> = "object",
        model: LenientText<'de> = "model",
        // Not every server sends a text.
        fingerprint: RawText<'de> = "system_fingerprint",
        choices: OpenAiChoices<'de> = "choices",
        usage: RawText<'de> = "usage",
        error: RawText<'de> = "error",
        groq: RawText<'de> = "x_groq",
        service_tier: &'de RawValue = "service_tier",
        metadata: &'de RawValue = "metadata",
        moderation: &'de RawValue = "moderation",
        citations: &'de RawValue = "citations",
        search_results: &'de RawValue = "search_results",
        // Of stored answers.
        stop_sequence: &'de RawValue = "stop_sequence",
    }
}

/// The tiers that OpenAI's clients know. Strict clients refuse other values (openai-python
/// `ChatCompletion.service_tier`).
const TIERS: [&str; 7] =
    ["\"auto\"", "\"default\"", "\"flex\"", "\"scale\"", "\"priority\"", "\"fast\"", "\"ultrafast\""];

impl<'de> OpenAiEnvelope<'de> {
    /// Takes the fingerprint. A value that is no text is none.
    pub(super) fn take_fingerprint(&mut self) -> Option<Cow<'de, str>> {
        let RawText(json) = self.fingerprint.take()?;
        let fingerprint: Option<LenientText<'de>> = quick::document(json);
        let fingerprint = fingerprint.or_else(|| serde_json::from_str(json).ok())?;
        Some(fingerprint.0).filter(|text| !text.is_empty())
    }

    /// Members that are passed on unchanged: OpenAI's, and Perplexity's sources.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, &'de RawValue)> + use<'de> {
        let tier = self.service_tier.filter(|tier| TIERS.contains(&tier.get()));
        let all = [
            ("service_tier", tier),
            (METADATA, self.metadata),
            ("moderation", self.moderation),
            ("citations", self.citations),
            ("search_results", self.search_results),
            (STOP_SEQUENCE, self.stop_sequence),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

members! {
    /// One choice. A reply has `message` (chat) or `text`, a chunk has `delta` or `text`. Members that are rare in
    /// chunks are boxed, because a choice is moved several times while it is read.
    OpenAiChoice<'de> {
        index: LenientNumber = "index",
        delta: OpenAiMessage<'de> = "delta",
        message: Box<OpenAiMessage<'de>> = "message",
        text: LenientText<'de> = "text",
        logprobs: &'de RawValue = "logprobs",
        finish_reason: TextOrJson<'de> = "finish_reason",
        usage: RawText<'de> = "usage",
        // OpenRouter's error of one choice. Its finish reason may be any.
        error: RawText<'de> = "error",
        // The stop sequence that ended the answer: vLLM's name, and SGLang's.
        stop_reason: &'de RawValue = "stop_reason",
        matched_stop: &'de RawValue = "matched_stop",
    }
}

members! {
    /// A message or a delta.
    OpenAiMessage<'de> + extras {
        // Not read; named so that it is not among the extras.
        role: IgnoredAny = "role",
        content: LenientContent<'de> = "content",
        reasoning_content: TextOrJson<'de> = "reasoning_content",
        reasoning: TextOrJson<'de> = "reasoning",
        refusal: LenientText<'de> = "refusal",
        tool_calls: Vec<OpenAiCall<'de>> = "tool_calls",
        function_call: Box<OpenAiFunction<'de>> = "function_call",
    }
}

members! {
    /// A tool call or a piece of one.
    OpenAiCall<'de> {
        index: LenientNumber = "index",
        id: TextOrJson<'de> = "id",
        function: OpenAiFunction<'de> = "function",
        custom: OpenAiFunction<'de> = "custom",
    }
}

members! {
    /// The function of a call. A custom tool has `input` instead of `arguments`.
    OpenAiFunction<'de> {
        name: LenientText<'de> = "name",
        arguments: TextOrJson<'de> = "arguments",
        input: TextOrJson<'de> = "input",
    }
}

impl<'de> OpenAiCall<'de> {
    /// The id; empty when there is none. Mistral writes the word `null` for a missing id.
    pub(super) fn take_id(&mut self) -> Cow<'de, str> {
        self.id.take().map(|id| id.0).filter(|id| id != "null").unwrap_or_default()
    }
}

/// The choices. A single choice, which is usual, needs no allocation.
#[derive(Debug, Default)]
pub(super) struct OpenAiChoices<'de> {
    first: Option<OpenAiChoice<'de>>,
    more: Vec<OpenAiChoice<'de>>,
}

impl<'de> OpenAiChoices<'de> {
    /// The choices where they are.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenAiChoice<'de>> {
        self.first.iter_mut().chain(&mut self.more)
    }
}

impl<'de> IntoIterator for OpenAiChoices<'de> {
    type Item = OpenAiChoice<'de>;
    type IntoIter =
        std::iter::Chain<std::option::IntoIter<OpenAiChoice<'de>>, std::vec::IntoIter<OpenAiChoice<'de>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

impl<'de> Member<'de> for OpenAiChoices<'de> {
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
        struct Elements<'c, 'de>(&'c mut OpenAiChoices<'de>);

        impl<'de> Visitor<'de> for Elements<'_, 'de> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
                if elements.next_element_seed(MemberSlot(&mut self.0.first))?.is_some() {
                    while let Some(choice) = elements.next_element()? {
                        self.0.more.push(choice);
                    }
                }
                Ok(())
            }
        }

        deserializer.deserialize_seq(Elements(place.insert(OpenAiChoices::default())))
    }
}

impl<'de> Quick<'de> for OpenAiChoices<'de> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        let OpenAiChoices { first, more } = place.insert(OpenAiChoices::default());
        let mut is_first = true;
        reader.array(|reader| {
            if std::mem::take(&mut is_first) {
                return quick::place(first, reader);
            }
            let mut choice = None;
            OpenAiChoice::quick(&mut choice, reader)?;
            more.extend(choice);
            Some(())
        })
    }
}

/// Whether the value of a member `error`, which is not null, is an error.
fn is_an_error(RawText(value): RawText<'_>) -> bool {
    !matches!(value, "false" | "\"\"")
}

impl<'de> OpenAiEnvelope<'de> {
    /// Whether this is an error: an `error` member with a value, or vLLM's flat form.
    pub(super) fn is_error(&self) -> bool {
        let flat = self.object.as_ref().is_some_and(|object| object.0 == "error");
        flat || self.error.is_some_and(is_an_error)
    }

    /// The usage, in any of the places where upstreams put it.
    pub(super) fn usage_text(&self) -> Option<RawText<'de>> {
        self.usage.or_else(|| {
            let groq: GroqMember<'de> = serde_json::from_str(self.groq?.0).ok()?;
            groq.usage
        })
    }
}

members! {
    /// Groq's member of stream chunks.
    GroqMember<'de> {
        usage: RawText<'de> = "usage",
    }
}

impl<'de> OpenAiMessage<'de> {
    /// The reasoning text: one of its two members (some upstreams send both with equal text), or the content's parts.
    pub(super) fn take_reasoning(&mut self) -> Option<Cow<'de, str>> {
        let (first, second) = (self.reasoning_content.take(), self.reasoning.take());
        let named = first.filter(|text| !text.0.is_empty()).or(second).map(|text| text.0);
        named.filter(|text| !text.is_empty()).or_else(|| {
            let thoughts = self.content.as_mut()?.1.take()?;
            Some(Cow::Owned(thoughts.text))
        })
    }

    /// Texts and reasoning in the order of the content's parts. True marks reasoning. None when there are fewer than
    /// two parts, or when the reasoning has a member of its own.
    pub(super) fn take_parts(&mut self) -> Option<Vec<(bool, String)>> {
        let named = [&self.reasoning_content, &self.reasoning];
        let is_named = named.into_iter().flatten().any(|text| !text.0.is_empty());
        if is_named || self.content.as_ref()?.1.as_ref()?.parts.len() < 2 {
            return None;
        }
        let LenientContent(text, thoughts, _) = self.content.take()?;
        let thoughts = thoughts?;
        let (mut text, mut thought) = (&*text, &*thoughts.text);
        let mut parts = Vec::with_capacity(thoughts.parts.len());
        for (is_thought, len) in &thoughts.parts {
            let from = if *is_thought { &mut thought } else { &mut text };
            let (part, rest) = from.split_at_checked(*len)?;
            *from = rest;
            if !part.is_empty() {
                parts.push((*is_thought, part.to_owned()));
            }
        }
        Some(parts)
    }
}

/// The meaning of a finish reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishReason {
    /// One of the five reasons that clients know.
    Known(Finish),
    /// The upstream reports a failure as a finish reason.
    Failed,
    /// An unknown reason.
    Unknown,
}

impl<'de> OpenAiChoice<'de> {
    /// The stop sequence that ended the choice, a JSON string. A number is that of a token.
    pub(super) fn stop_sequence(&self) -> Option<&'de RawValue> {
        self.stop_reason.or(self.matched_stop).filter(|value| value.get().starts_with('"'))
    }
}

impl OpenAiChoice<'_> {
    /// The failure of the choice; `otherwise` where its error names no kind. None: the choice has no error.
    pub(super) fn failure(&self, otherwise: FailureKind) -> Option<Failure> {
        let RawText(error) = self.error.filter(|error| is_an_error(*error))?;
        let error: Value = serde_json::from_str(error).unwrap_or_default();
        Some(reported(&json!({ "error": error }), otherwise))
    }

    /// The reason why the choice ended; None while it continues (absent, null or empty).
    pub(super) fn finish_kind(&self) -> Option<FinishReason> {
        let reason = self.finish_reason.as_ref()?;
        Some(match &*reason.0 {
            "" => return None,
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => FinishReason::Known(Finish::Stop),
            "length" | "max_tokens" | "model_length" => FinishReason::Known(Finish::Length),
            "tool_calls" | "tool_use" => FinishReason::Known(Finish::ToolCalls),
            "content_filter" => FinishReason::Known(Finish::ContentFilter),
            "function_call" => FinishReason::Known(Finish::FunctionCall),
            // vLLM and SGLang use `abort` (vllm/v1/engine/__init__.py, `FinishReason`).
            "error" | "abort" | "insufficient_system_resource" => FinishReason::Failed,
            // Google's OpenAI endpoint uses this for Gemini's MALFORMED_FUNCTION_CALL.
            reason if reason.starts_with("function_call_filter") => FinishReason::Failed,
            _ => FinishReason::Unknown,
        })
    }
}
