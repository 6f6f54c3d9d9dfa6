//! A stream's events put together into the complete answer that they are.

use std::borrow::Cow;

use crate::event::Event;
use crate::reply::{ChatChoice, ChatReply, ToolCall};
use crate::usage::Usage;

/// Collects the events of a chat stream.
#[derive(Debug, Default)]
pub struct Assembler {
    choices: Vec<Part>,
    model: Option<String>,
    fingerprint: Option<String>,
    usage: Option<Usage>,
    /// Something came that a complete answer has no place for.
    is_partial: bool,
    ended: bool,
}

#[derive(Debug, Default)]
struct Part {
    choice: ChatChoice<'static>,
    /// The decoder's handle of each tool call.
    handles: Vec<u32>,
}

/// Choices that are put together at most.
const MOST_CHOICES: usize = 128;

impl Assembler {
    /// Takes the next event.
    pub fn accept(&mut self, event: &Event<'_>) {
        match event {
            Event::Start { model, fingerprint } => {
                let keep = |place: &mut Option<String>, value: &Option<Cow<'_, str>>| {
                    if place.is_none() {
                        *place = value.as_deref().map(str::to_owned);
                    }
                };
                keep(&mut self.model, model);
                keep(&mut self.fingerprint, fingerprint);
            }
            Event::Text { choice, text, logprobs } => {
                self.is_partial |= logprobs.is_some();
                self.with(*choice, |part| append(&mut part.choice.content, text));
            }
            Event::Reasoning { choice, text } => {
                self.with(*choice, |part| append(&mut part.choice.reasoning, text));
            }
            Event::Refusal { choice, text } => {
                self.with(*choice, |part| append(&mut part.choice.refusal, text));
            }
            Event::ToolStart { choice, call, id, name } => self.with(*choice, |part| {
                part.handles.push(*call);
                let (id, name) = (id.clone().into_owned().into(), name.clone().into_owned().into());
                part.choice.tool_calls.push(ToolCall { id, name, arguments: Cow::Borrowed("") });
            }),
            Event::ToolArgs { choice, call, fragment } => self.with(*choice, |part| {
                let place = part.handles.iter().position(|handle| handle == call);
                if let Some(call) = place.and_then(|place| part.choice.tool_calls.get_mut(place)) {
                    call.arguments.to_mut().push_str(fragment);
                }
            }),
            Event::Finish { choice, reason } => self.with(*choice, |part| part.choice.finish = Some(*reason)),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::End => self.ended = true,
            Event::FunctionCall { .. } | Event::Extra { .. } | Event::Error(_) => self.is_partial = true,
        }
    }

    fn with(&mut self, choice: u32, change: impl FnOnce(&mut Part)) {
        let at = choice as usize;
        if at >= MOST_CHOICES {
            self.is_partial = true;
            return;
        }
        while self.choices.len() <= at {
            let index = u32::try_from(self.choices.len()).unwrap_or(u32::MAX);
            self.choices
                .push(Part { choice: ChatChoice { index, ..ChatChoice::default() }, ..Part::default() });
        }
        if let Some(part) = self.choices.get_mut(at) {
            change(part);
        }
    }

    /// The answer; None when the stream has not ended well or says more than a complete answer can.
    #[must_use]
    pub fn finish(self) -> Option<ChatReply<'static>> {
        let choices: Vec<ChatChoice<'static>> = self.choices.into_iter().map(|part| part.choice).collect();
        let is_whole =
            self.ended && !choices.is_empty() && choices.iter().all(|choice| choice.finish.is_some());
        (is_whole && !self.is_partial).then(|| ChatReply {
            model: self.model.map(Cow::Owned),
            fingerprint: self.fingerprint.map(Cow::Owned),
            choices,
            usage: self.usage,
        })
    }
}

fn append(place: &mut Option<Cow<'static, str>>, text: &str) {
    place.get_or_insert_default().to_mut().push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Finish;

    fn text(text: &str) -> Event<'_> {
        Event::Text { choice: 0, text: text.into(), logprobs: None }
    }

    #[test]
    fn pieces_become_what_they_are_pieces_of() {
        let mut assembler = Assembler::default();
        for event in [
            Event::Start { model: Some("m".into()), fingerprint: None },
            text("a"),
            text("b\u{1f600}"),
            Event::ToolStart { choice: 0, call: 7, id: "c".into(), name: "f".into() },
            Event::ToolArgs { choice: 0, call: 7, fragment: "{\"x\"".into() },
            Event::ToolArgs { choice: 0, call: 7, fragment: ":1}".into() },
            Event::Finish { choice: 0, reason: Finish::ToolCalls },
            Event::End,
        ] {
            assembler.accept(&event);
        }
        let reply = assembler.finish().unwrap();
        let choice = &reply.choices[0];
        assert_eq!((reply.model.as_deref(), choice.content.as_deref()), (Some("m"), Some("ab\u{1f600}")));
        assert_eq!((&*choice.tool_calls[0].id, &*choice.tool_calls[0].arguments), ("c", "{\"x\":1}"));
        assert_eq!(choice.finish, Some(Finish::ToolCalls));
    }

    #[test]
    fn what_did_not_end_well_is_no_answer() {
        let finish = || Event::Finish { choice: 0, reason: Finish::Stop };
        for events in [
            vec![text("a"), Event::End],
            vec![text("a"), finish()],
            vec![Event::End],
            vec![Event::FunctionCall { choice: 0, name: None, arguments: None }, finish(), Event::End],
        ] {
            let mut assembler = Assembler::default();
            events.iter().for_each(|event| assembler.accept(event));
            assert!(assembler.finish().is_none(), "{events:?}");
        }
    }
}
