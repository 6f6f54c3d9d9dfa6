//! Accumulates the events of a stream into a whole answer, so that a streamed answer can be stored like a plain one.
//!
//! Some streams give no answer: one that failed, that has no end, that has a choice without a finish reason, that is
//! too large, or that has parts which cannot be joined with certainty. An answer that is not stored does no harm.

mod logprobs;

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::event::Event;
use gw_wire::json::{Kind, View};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, Image, Members, TextChoice, TextReply, ToolCall};
use gw_wire::stream::MAX_TOOL_CALLS;
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use self::logprobs::Logprobs;

/// The most choices of an answer. It is higher than the number that a request may ask for.
const MAX_CHOICES: usize = 128 * 2048;

/// A streamed answer so far.
#[derive(Debug)]
pub struct Accumulator {
    model: Option<String>,
    fingerprint: Option<String>,
    choices: Vec<Choice>,
    members: Members,
    usage: Option<Usage>,
    is_finished: bool,
    /// Whether the stream cannot become an answer.
    is_failed: bool,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Choice {
    content: String,
    reasoning: String,
    refusal: Option<String>,
    tools: Vec<Tool>,
    function: Option<(String, String)>,
    images: Vec<Image<'static>>,
    extras: Vec<(String, Vec<Box<RawValue>>)>,
    logprobs: Option<Logprobs>,
    finish: Option<Finish>,
}

#[derive(Debug)]
struct Tool {
    handle: u32,
    id: String,
    name: String,
    arguments: String,
    is_custom: bool,
}

impl Accumulator {
    /// An empty accumulator for an answer of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            model: None,
            fingerprint: None,
            choices: Vec::new(),
            members: Members::default(),
            usage: None,
            is_finished: false,
            is_failed: false,
            bytes: 0,
            max_bytes,
        }
    }

    /// Adds an event. Call it in the order in which the client gets the events.
    pub fn add(&mut self, event: &Event<'_>) {
        if self.is_finished || self.is_failed {
            return;
        }
        let added = match event {
            Event::Start { model, fingerprint } => {
                let known = |text: &Option<Cow<'_, str>>| {
                    text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned)
                };
                self.model = self.model.take().or_else(|| known(model));
                self.fingerprint = self.fingerprint.take().or_else(|| known(fingerprint));
                Some(())
            }
            Event::Usage(usage) => {
                self.usage = Some(*usage);
                Some(())
            }
            Event::Member { name, value } => {
                let before = self.members.bytes();
                self.members.take(name, value);
                self.bytes = self.bytes.saturating_sub(before).saturating_add(self.members.bytes());
                Some(())
            }
            Event::Frame { .. } | Event::Written { .. } | Event::Sound(_) => Some(()),
            Event::Error(_) => None,
            Event::End => {
                self.finish();
                Some(())
            }
            Event::Text { choice, .. }
            | Event::Reasoning { choice, .. }
            | Event::Refusal { choice, .. }
            | Event::ToolStart { choice, .. }
            | Event::CustomStart { choice, .. }
            | Event::ToolArgs { choice, .. }
            | Event::FunctionCall { choice, .. }
            | Event::Image { choice, .. }
            | Event::Extra { choice, .. }
            | Event::Finish { choice, .. } => self.open(*choice).and_then(|choice| choice.add(event)),
        };
        self.bytes = self.bytes.saturating_add(event_bytes(event));
        if added.is_none() || self.bytes > self.max_bytes {
            self.is_failed = true;
            // The memory is not needed any longer.
            self.choices = Vec::new();
        }
    }

    /// Finishes the answer. Call it when the stream counts as complete, even if it had no end marker.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    fn open(&mut self, choice: u32) -> Option<&mut Choice> {
        let at = usize::try_from(choice).ok().filter(|at| *at < MAX_CHOICES)?;
        while self.choices.len() <= at {
            self.bytes = self.bytes.saturating_add(size_of::<Choice>());
            if self.bytes > self.max_bytes {
                return None;
            }
            self.choices.push(Choice::default());
        }
        self.choices.get_mut(at)
    }

    /// The finish reason of each choice. None if the answer is not complete.
    #[must_use]
    pub fn finishes(&self) -> Option<Vec<Finish>> {
        if self.is_failed || !self.is_finished || self.choices.is_empty() {
            return None;
        }
        self.choices.iter().map(|choice| choice.finish).collect()
    }

    /// The chat answer. None if it is not complete.
    #[must_use]
    pub fn into_chat(self) -> Option<ChatReply<'static>> {
        self.finishes()?;
        let choices = (0..).zip(self.choices).map(|(index, choice)| choice.into_chat(index));
        let members = self.members.into_vec().into_iter();
        Some(ChatReply {
            model: self.model.map(Cow::Owned),
            fingerprint: self.fingerprint.map(Cow::Owned),
            choices: choices.collect::<Option<_>>()?,
            usage: self.usage,
            members: members.map(|(name, value)| (Cow::Owned(name), Cow::Owned(value))).collect(),
            native: None,
        })
    }

    /// The text completion. None if it is not complete.
    #[must_use]
    pub fn into_text(self) -> Option<TextReply<'static>> {
        self.finishes()?;
        let choices = (0..).zip(self.choices).map(|(index, choice)| {
            let logprobs = choice.logprobs.map_or(Some(None), |logprobs| logprobs.into_raw().map(Some))?;
            let logprobs = logprobs.map(Cow::Owned);
            Some(TextChoice { index, text: Cow::Owned(choice.content), logprobs, finish: choice.finish })
        });
        let choices = choices.collect::<Option<_>>()?;
        Some(TextReply { model: self.model.map(Cow::Owned), choices, usage: self.usage })
    }
}

impl Choice {
    /// Adds an event of this choice. None if it cannot be joined with the earlier ones.
    fn add(&mut self, event: &Event<'_>) -> Option<()> {
        match event {
            Event::Text { text, logprobs, .. } => {
                self.content.push_str(text);
                if let Some(raw) = logprobs.filter(|raw| raw.get() != "null") {
                    self.logprobs.get_or_insert_default().add(raw)?;
                }
            }
            Event::Reasoning { text, .. } => self.reasoning.push_str(text),
            Event::Refusal { text, .. } => self.refusal.get_or_insert_default().push_str(text),
            Event::ToolStart { call, id, name, .. } | Event::CustomStart { call, id, name, .. } => {
                if self.tools.iter().any(|tool| tool.handle == *call) {
                    return Some(());
                }
                if self.tools.len() >= MAX_TOOL_CALLS {
                    return None;
                }
                let (id, name) = (id.to_string(), name.to_string());
                let is_custom = matches!(event, Event::CustomStart { .. });
                self.tools.push(Tool { handle: *call, id, name, arguments: String::new(), is_custom });
            }
            Event::ToolArgs { call, fragment, .. } => {
                if let Some(tool) = self.tools.iter_mut().find(|tool| tool.handle == *call) {
                    tool.arguments.push_str(fragment);
                }
            }
            Event::FunctionCall { name, arguments, .. } => {
                let (known, all) = self.function.get_or_insert_default();
                known.push_str(name.as_deref().unwrap_or_default());
                all.push_str(arguments.as_deref().unwrap_or_default());
            }
            Event::Image { image, .. } => {
                let owned = |text: &str| Cow::Owned(text.to_owned());
                let (media_type, base64) = (owned(&image.media_type), owned(&image.base64));
                self.images.push(Image { media_type, base64, tokens: image.tokens });
            }
            Event::Extra { name, value, .. } => {
                match self.extras.iter_mut().find(|(known, _)| known == name) {
                    Some((_, pieces)) if JOINABLE_LISTS.contains(name) && pieces.len() < MAX_LIST_PIECES => {
                        pieces.push((*value).to_owned());
                    }
                    Some(_) => return None,
                    None => self.extras.push(((*name).to_owned(), vec![(*value).to_owned()])),
                }
            }
            Event::Finish { reason, .. } => self.finish = Some(*reason),
            Event::Start { .. }
            | Event::Member { .. }
            | Event::Frame { .. }
            | Event::Written { .. }
            | Event::Sound(_)
            | Event::Usage(_)
            | Event::Error(_)
            | Event::End => {}
        }
        Some(())
    }

    fn into_chat(self, index: u32) -> Option<ChatChoice<'static>> {
        let owned = |text: String| (!text.is_empty()).then_some(Cow::Owned(text));
        let tool = |tool: Tool| ToolCall {
            id: Cow::Owned(tool.id),
            name: Cow::Owned(tool.name),
            arguments: Cow::Owned(tool.arguments),
            custom: tool.is_custom,
        };
        let extra = |(name, pieces): (String, Vec<_>)| {
            let all = if name == REASONING_DETAILS { join_numbered(&pieces)? } else { join_lists(pieces)? };
            Some((Cow::Owned(name), Cow::Owned(all)))
        };
        Some(ChatChoice {
            index,
            content: owned(self.content),
            reasoning: owned(self.reasoning),
            refusal: self.refusal.map(Cow::Owned),
            tool_calls: self.tools.into_iter().map(tool).collect(),
            images: self.images,
            function_call: self.function.map(|(name, all)| (Cow::Owned(name), Cow::Owned(all))),
            extras: self.extras.into_iter().map(extra).collect::<Option<_>>()?,
            logprobs: match self.logprobs {
                Some(logprobs) => Some(Cow::Owned(logprobs.into_raw()?)),
                None => None,
            },
            finish: self.finish,
        })
    }
}

/// A list whose entries have an `index`.
const REASONING_DETAILS: &str = "reasoning_details";

/// Lists that come in pieces of whole elements. Other members that come twice cannot be joined.
const JOINABLE_LISTS: [&str; 3] = ["images", "annotations", REASONING_DETAILS];

/// The most pieces of a list.
const MAX_LIST_PIECES: usize = 256;

/// Joins the pieces of a list. A single piece may be any value.
fn join_lists(mut pieces: Vec<Box<RawValue>>) -> Option<Box<RawValue>> {
    if pieces.len() < 2 {
        return pieces.pop();
    }
    let mut all = String::from("[");
    for piece in &pieces {
        let inner = piece.get().trim().strip_prefix('[')?.strip_suffix(']')?.trim();
        if all.len() > 1 && !inner.is_empty() {
            all.push(',');
        }
        all.push_str(inner);
    }
    all.push(']');
    RawValue::from_string(all).ok()
}

/// Joins lists of numbered entries. None if an entry came in several pieces, or if a piece is not a list.
fn join_numbered(lists: &[Box<RawValue>]) -> Option<Box<RawValue>> {
    if let [only] = lists {
        return Some(only.clone());
    }
    let mut indices = HashSet::new();
    let mut entries = Vec::new();
    for list in lists {
        let list = View::new(list.get());
        if list.kind() != Kind::Array {
            return None;
        }
        for entry in list.elements() {
            let [index] = entry.pick(["index"]);
            if index.is_some_and(|index| !indices.insert(index.text())) {
                return None;
            }
            entries.push(entry.text());
        }
    }
    RawValue::from_string(format!("[{}]", entries.join(","))).ok()
}

fn event_bytes(event: &Event<'_>) -> usize {
    match event {
        Event::Text { text, logprobs, .. } => text.len() + logprobs.map_or(0, |raw| raw.get().len()),
        Event::Reasoning { text, .. } | Event::Refusal { text, .. } => text.len(),
        Event::ToolStart { id, name, .. } | Event::CustomStart { id, name, .. } => {
            id.len() + name.len() + size_of::<Tool>()
        }
        Event::ToolArgs { fragment, .. } => fragment.len(),
        Event::FunctionCall { name, arguments, .. } => {
            name.as_deref().map_or(0, str::len) + arguments.as_deref().map_or(0, str::len)
        }
        Event::Image { image, .. } => image.base64.len() + image.media_type.len() + size_of::<Image<'_>>(),
        Event::Extra { name, value, .. } => name.len() + value.get().len() + size_of::<Box<RawValue>>(),
        // The last value of a member counts; `note` does that.
        Event::Member { .. } | Event::Frame { .. } | Event::Written { .. } | Event::Sound(_) => 0,
        Event::Start { .. } | Event::Finish { .. } | Event::Usage(_) | Event::Error(_) | Event::End => 0,
    }
}

#[cfg(test)]
mod tests;
