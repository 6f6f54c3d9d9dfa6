//! A streamed answer put together again, as a client would, from the events that the stream is made of: so that what was
//! streamed can be kept like a plain answer.
//!
//! Nothing comes of a stream that failed, that has no end or a choice without a finish reason, that is larger than allowed, or that
//! holds what cannot be joined for certain. Not to keep an answer is never wrong.

mod joined;

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::event::Event;
use gw_wire::json::{Kind, View};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, Image, TextChoice, TextReply, ToolCall};
use gw_wire::stream::MAX_TOOL_CALLS;
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use self::joined::Joined;

/// More choices than any request may ask for.
const MOST_CHOICES: usize = 128 * 2048;

/// An answer that is coming.
#[derive(Debug)]
pub struct Gather {
    model: Option<String>,
    fingerprint: Option<String>,
    choices: Vec<Choice>,
    members: Vec<(String, Box<RawValue>)>,
    usage: Option<Usage>,
    ended: bool,
    /// Nothing will come of it.
    spoilt: bool,
    bytes: usize,
    most_bytes: usize,
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
    logprobs: Option<Joined>,
    finish: Option<Finish>,
}

#[derive(Debug)]
struct Tool {
    handle: u32,
    id: String,
    name: String,
    arguments: String,
    custom: bool,
}

impl Gather {
    /// Of an answer of at most so many bytes.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self {
            model: None,
            fingerprint: None,
            choices: Vec::new(),
            members: Vec::new(),
            usage: None,
            ended: false,
            spoilt: false,
            bytes: 0,
            most_bytes,
        }
    }

    /// Notes an event, in the order in which the client is shown them.
    pub fn note(&mut self, event: &Event<'_>) {
        if self.ended || self.spoilt {
            return;
        }
        let is_noted = match event {
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
                self.members.retain(|(known, _)| known != name);
                self.members.push(((*name).to_owned(), (*value).to_owned()));
                Some(())
            }
            Event::Error(_) => None,
            Event::End => {
                self.end();
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
            | Event::Finish { choice, .. } => self.open(*choice).and_then(|choice| choice.note(event)),
        };
        self.bytes = self.bytes.saturating_add(size_of_event(event));
        if is_noted.is_none() || self.bytes > self.most_bytes {
            self.spoilt = true;
            // What is of no use is not kept until the stream ends.
            self.choices = Vec::new();
        }
    }

    /// The stream is over, whether it said so or not: to be called when it counts as complete.
    pub fn end(&mut self) {
        self.ended = true;
    }

    fn open(&mut self, choice: u32) -> Option<&mut Choice> {
        let at = usize::try_from(choice).ok().filter(|at| *at < MOST_CHOICES)?;
        while self.choices.len() <= at {
            self.bytes = self.bytes.saturating_add(size_of::<Choice>());
            if self.bytes > self.most_bytes {
                return None;
            }
            self.choices.push(Choice::default());
        }
        self.choices.get_mut(at)
    }

    /// Why each choice ended, if the answer is complete.
    #[must_use]
    pub fn finishes(&self) -> Option<Vec<Finish>> {
        if self.spoilt || !self.ended || self.choices.is_empty() {
            return None;
        }
        self.choices.iter().map(|choice| choice.finish).collect()
    }

    /// The chat answer, if it is complete.
    #[must_use]
    pub fn into_chat(self) -> Option<ChatReply<'static>> {
        self.finishes()?;
        let choices = (0..).zip(self.choices).map(|(index, choice)| choice.into_chat(index));
        let members = self.members.into_iter();
        Some(ChatReply {
            model: self.model.map(Cow::Owned),
            fingerprint: self.fingerprint.map(Cow::Owned),
            choices: choices.collect::<Option<_>>()?,
            usage: self.usage,
            members: members.map(|(name, value)| (Cow::Owned(name), Cow::Owned(value))).collect(),
        })
    }

    /// The text completion, if it is complete.
    #[must_use]
    pub fn into_text(self) -> Option<TextReply<'static>> {
        self.finishes()?;
        let choices = (0..).zip(self.choices).map(|(index, choice)| {
            let logprobs = choice.logprobs.map_or(Some(None), |joined| joined.into_raw().map(Some))?;
            let logprobs = logprobs.map(Cow::Owned);
            Some(TextChoice { index, text: Cow::Owned(choice.content), logprobs, finish: choice.finish })
        });
        let choices = choices.collect::<Option<_>>()?;
        Some(TextReply { model: self.model.map(Cow::Owned), choices, usage: self.usage })
    }
}

impl Choice {
    /// None when this cannot be joined with what came before.
    fn note(&mut self, event: &Event<'_>) -> Option<()> {
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
                let custom = matches!(event, Event::CustomStart { .. });
                self.tools.push(Tool { handle: *call, id, name, arguments: String::new(), custom });
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
                    Some((_, pieces)) if LISTS.contains(name) && pieces.len() < MOST_PIECES => {
                        pieces.push((*value).to_owned());
                    }
                    Some(_) => return None,
                    None => self.extras.push(((*name).to_owned(), vec![(*value).to_owned()])),
                }
            }
            Event::Finish { reason, .. } => self.finish = Some(*reason),
            Event::Start { .. } | Event::Member { .. } | Event::Usage(_) | Event::Error(_) | Event::End => {}
        }
        Some(())
    }

    fn into_chat(self, index: u32) -> Option<ChatChoice<'static>> {
        let owned = |text: String| (!text.is_empty()).then_some(Cow::Owned(text));
        let tool = |tool: Tool| ToolCall {
            id: Cow::Owned(tool.id),
            name: Cow::Owned(tool.name),
            arguments: Cow::Owned(tool.arguments),
            custom: tool.custom,
        };
        let extra = |(name, pieces): (String, Vec<_>)| {
            let all = if name == DETAILS { one_list(&pieces)? } else { joined(pieces)? };
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
                Some(joined) => Some(Cow::Owned(joined.into_raw()?)),
                None => None,
            },
            finish: self.finish,
        })
    }
}

/// A member whose entries have numbers.
const DETAILS: &str = "reasoning_details";

/// Lists that come in pieces, each of whole elements. Whatever else comes twice cannot be joined.
const LISTS: [&str; 3] = ["images", "annotations", DETAILS];

/// So many pieces.
const MOST_PIECES: usize = 256;

/// The pieces of a member as one value.
fn joined(mut pieces: Vec<Box<RawValue>>) -> Option<Box<RawValue>> {
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

/// The lists as one; None when an entry came in pieces, or something is no list.
fn one_list(lists: &[Box<RawValue>]) -> Option<Box<RawValue>> {
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

fn size_of_event(event: &Event<'_>) -> usize {
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
        Event::Member { name, value } => name.len() + value.get().len(),
        Event::Start { .. } | Event::Finish { .. } | Event::Usage(_) | Event::Error(_) | Event::End => 0,
    }
}

#[cfg(test)]
mod tests;
