//! A complete answer as the events of a stream.

use gw_wire::event::Event;
use gw_wire::json::{Kind, View};
use gw_wire::reply::order::{DETAILS, ReplyPart, is_order, reply_parts};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, TextReply};
use serde_json::value::RawValue;

pub(crate) fn replay_chat(reply: ChatReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
    play(Event::Start { model: reply.model, fingerprint: reply.fingerprint });
    for choice in reply.choices {
        let index = choice.index;
        play_parts(&choice, play);
        if let Some((name, arguments)) = &choice.function_call {
            let (name, arguments) = (name.as_ref().into(), arguments.as_ref().into());
            play(Event::FunctionCall { choice: index, name: Some(name), arguments: Some(arguments) });
        }
        let extras = choice.extras.iter();
        for (name, value) in extras.filter(|(name, value)| name != DETAILS || !is_list(value)) {
            play(Event::Extra { choice: index, name, value });
        }
        play(Event::Finish { choice: index, reason: choice.finish.unwrap_or_else(|| choice.made_finish()) });
    }
    for (name, value) in &reply.members {
        play(Event::Member { name, value });
    }
    if let Some(usage) = reply.usage {
        play(Event::Usage(usage));
    }
    play(Event::End);
}

/// The parts of a choice in the model's order. The entries of `reasoning_details` come one by one, and the order last.
fn play_parts(choice: &ChatChoice<'_>, play: &mut dyn FnMut(Event<'_>)) {
    let index = choice.index;
    let mut logprobs = choice.logprobs.as_deref();
    let has_text = choice.content.as_ref().is_some_and(|text| !text.is_empty());
    if choice.content.is_some() && !has_text {
        play(Event::Text { choice: index, text: "".into(), logprobs: logprobs.take() });
    }
    reply_parts(choice, |part| match part {
        ReplyPart::Text(text) => {
            play(Event::Text { choice: index, text: text.into(), logprobs: logprobs.take() });
        }
        ReplyPart::Reasoning(text) => play(Event::Reasoning { choice: index, text: text.into() }),
        ReplyPart::Detail(entry) => play_detail(index, entry, play),
        ReplyPart::Refusal(text) => play(Event::Refusal { choice: index, text: text.into() }),
        ReplyPart::Image(image) => play(Event::Image { choice: index, image: image.clone() }),
        ReplyPart::Call(position, call) => {
            let number = u32::try_from(position).unwrap_or(u32::MAX);
            let (id, name) = (call.id.as_ref().into(), call.name.as_ref().into());
            play(match call.custom {
                false => Event::ToolStart { choice: index, call: number, id, name },
                true => Event::CustomStart { choice: index, call: number, id, name },
            });
            let fragment = call.arguments.as_ref().into();
            play(Event::ToolArgs { choice: index, call: number, fragment });
        }
    });
    let details = choice.extras.iter().filter(|(name, _)| name == DETAILS);
    let entries = details.flat_map(|(_, value)| View::new(value.get()).elements());
    entries.filter(|entry| is_order(*entry)).for_each(|entry| play_detail(index, entry, play));
}

fn play_detail(choice: u32, entry: View<'_>, play: &mut dyn FnMut(Event<'_>)) {
    if let Ok(value) = RawValue::from_string(format!("[{}]", entry.text())) {
        play(Event::Extra { choice, name: DETAILS, value: &value });
    }
}

fn is_list(value: &RawValue) -> bool {
    View::new(value.get()).kind() == Kind::Array
}

pub(crate) fn replay_text(reply: TextReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
    play(Event::Start { model: reply.model, fingerprint: None });
    for choice in reply.choices {
        play(Event::Text { choice: choice.index, text: choice.text, logprobs: choice.logprobs.as_deref() });
        play(Event::Finish { choice: choice.index, reason: choice.finish.unwrap_or(Finish::Stop) });
    }
    if let Some(usage) = reply.usage {
        play(Event::Usage(usage));
    }
    play(Event::End);
}
