//! A complete answer as the events of a stream.

use gw_wire::event::Event;
use gw_wire::reply::{ChatReply, Finish, TextReply};

pub(crate) fn replay_chat(reply: ChatReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
    play(Event::Start { model: reply.model, fingerprint: reply.fingerprint });
    for choice in reply.choices {
        let index = choice.index;
        if let Some(text) = choice.reasoning {
            play(Event::Reasoning { choice: index, text });
        }
        if let Some(text) = choice.content {
            play(Event::Text { choice: index, text, logprobs: choice.logprobs.as_deref() });
        }
        if let Some(text) = choice.refusal {
            play(Event::Refusal { choice: index, text });
        }
        let made = if choice.tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        for (position, call) in (0u32..).zip(choice.tool_calls) {
            play(match call.custom {
                false => Event::ToolStart { choice: index, call: position, id: call.id, name: call.name },
                true => Event::CustomStart { choice: index, call: position, id: call.id, name: call.name },
            });
            play(Event::ToolArgs { choice: index, call: position, fragment: call.arguments });
        }
        if let Some((name, arguments)) = choice.function_call {
            play(Event::FunctionCall { choice: index, name: Some(name), arguments: Some(arguments) });
        }
        for image in choice.images {
            play(Event::Image { choice: index, image });
        }
        for (name, value) in &choice.extras {
            play(Event::Extra { choice: index, name, value });
        }
        play(Event::Finish { choice: index, reason: choice.finish.unwrap_or(made) });
    }
    for (name, value) in &reply.members {
        play(Event::Member { name, value });
    }
    if let Some(usage) = reply.usage {
        play(Event::Usage(usage));
    }
    play(Event::End);
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
