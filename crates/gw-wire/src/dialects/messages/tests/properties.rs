//! Random answers: each stream follows the rules of the API, and joined it is the complete answer.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::json;

use super::answers::written;
use super::folding::fold;
use super::{arguments, call, details, raw, reasoning, stream, text};
use crate::dialects::messages::{MessagesContext, ThinkingDisplay};
use crate::event::Event;
use crate::reply::{ChatChoice, Finish, Image, ToolCall};

/// A block of an answer.
#[derive(Clone, Debug)]
enum Block {
    Text(Vec<String>),
    /// A thought and its signature.
    Thought(Vec<String>, String),
    Redacted(String),
    Image(String),
    /// Calls whose arguments come interleaved: for each the fragments of its arguments.
    Calls(Vec<Vec<String>>),
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z\"\\\\é😀\\n]{1,4}", 1..4)
}

/// Arguments in fragments: an object, nothing, or a text that is no JSON.
fn fragments() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![String::new()]),
        ("[a-z{}\"\\\\]{0,6}", 1..5_usize).prop_map(|(value, width)| {
            let object = json!({"a": value, "b": [{}, "}"]}).to_string();
            let characters: Vec<char> = object.chars().collect();
            characters.chunks(width).map(|piece| piece.iter().collect()).collect()
        }),
        Just(vec!["no ".to_owned(), "json".to_owned()]),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        3 => words().prop_map(Block::Text),
        2 => (words(), "[a-z]{1,3}").prop_map(|(words, signature)| Block::Thought(words, signature)),
        1 => "[a-z]{1,3}".prop_map(Block::Redacted),
        1 => "[A-Za-z]{4}".prop_map(Block::Image),
        3 => prop::collection::vec(fragments(), 1..4).prop_map(Block::Calls),
    ]
}

/// An answer as events, and as a choice.
struct Answer {
    events: Vec<OwnedEvent>,
    choice: ChatChoice<'static>,
}

/// An event that borrows nothing.
#[derive(Clone, Debug)]
enum OwnedEvent {
    Text(String),
    Reasoning(String),
    Details(serde_json::Value),
    Image(String),
    Call(u32, String),
    Arguments(u32, String),
}

fn answer(blocks: &[Block], turns: &[usize]) -> Answer {
    let (mut events, mut order, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut choice = ChatChoice::default();
    let (mut content, mut thoughts) = (String::new(), String::new());
    let mut calls = 0_u32;
    for block in blocks {
        match block {
            Block::Text(words) => {
                events.extend(words.iter().cloned().map(OwnedEvent::Text));
                order.push(format!("t{}", words.concat().len()));
                content.push_str(&words.concat());
            }
            Block::Thought(words, signature) => {
                events.extend(words.iter().cloned().map(OwnedEvent::Reasoning));
                let entry = json!({"type": "reasoning.text", "text": words.concat(), "signature": signature});
                events.push(OwnedEvent::Details(json!([entry])));
                entries.push(entry);
                order.push("d".to_owned());
                thoughts.push_str(&words.concat());
            }
            Block::Redacted(data) => {
                let entry = json!({"type": "reasoning.encrypted", "data": data});
                events.push(OwnedEvent::Details(json!([entry])));
                entries.push(entry);
                order.push("d".to_owned());
            }
            Block::Image(data) => {
                events.push(OwnedEvent::Image(data.clone()));
                choice.images.push(Image {
                    media_type: "image/png".into(),
                    base64: data.clone().into(),
                    tokens: 1,
                });
                order.push("i".to_owned());
            }
            Block::Calls(all) => {
                let first = calls;
                for fragments in all {
                    events.push(OwnedEvent::Call(calls, format!("t{calls}")));
                    let call = ToolCall {
                        id: format!("t{calls}").into(),
                        name: "f".into(),
                        arguments: fragments.concat().into(),
                        custom: false,
                    };
                    choice.tool_calls.push(call);
                    order.push("c".to_owned());
                    calls += 1;
                }
                interleave(first, all, turns, &mut events);
            }
        }
    }
    entries.push(json!({"type": "gateway.order", "order": order.join(" ")}));
    choice.extras.push(("reasoning_details".into(), Cow::Owned(raw(&json!(entries)))));
    choice.content = Some(content.into());
    choice.reasoning = Some(thoughts.into());
    choice.finish = Some(Finish::Stop);
    Answer { events, choice }
}

/// The fragments of several calls in a random order, each call's in its own order.
fn interleave(first: u32, all: &[Vec<String>], turns: &[usize], events: &mut Vec<OwnedEvent>) {
    let mut left: Vec<_> = (first..).zip(all.iter().map(|fragments| fragments.iter())).collect();
    let mut turns = turns.iter().cycle();
    while !left.is_empty() {
        let at = turns.next().unwrap() % left.len();
        match left[at].1.next() {
            Some(fragment) => events.push(OwnedEvent::Arguments(left[at].0, fragment.clone())),
            None => drop(left.remove(at)),
        }
    }
}

fn streamed(events: &[OwnedEvent], context: &MessagesContext, finish: Finish) -> String {
    let values: Vec<_> = events
        .iter()
        .map(|event| match event {
            OwnedEvent::Details(value) => Some(raw(value)),
            _ => None,
        })
        .collect();
    let events: Vec<Event<'_>> = events
        .iter()
        .zip(&values)
        .map(|(event, value)| match event {
            OwnedEvent::Text(piece) => text(piece),
            OwnedEvent::Reasoning(piece) => reasoning(piece),
            OwnedEvent::Details(_) => details(value.as_deref().unwrap()),
            OwnedEvent::Image(data) => Event::Image {
                choice: 0,
                image: Image { media_type: "image/png".into(), base64: data.into(), tokens: 1 },
            },
            OwnedEvent::Call(number, id) => call(*number, id, "f"),
            OwnedEvent::Arguments(number, fragment) => arguments(*number, fragment),
        })
        .collect();
    stream(context, &events, Some(finish))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_joined_stream_is_the_complete_answer(
        blocks in prop::collection::vec(block(), 0..7),
        turns in prop::collection::vec(0..8_usize, 1..8),
        thinking in prop_oneof![Just(ThinkingDisplay::Shown), Just(ThinkingDisplay::Omitted), Just(ThinkingDisplay::Hidden)],
        stops in prop_oneof![Just(vec![]), prop::collection::vec("[a-d]{1,3}", 1..3)],
    ) {
        let context = MessagesContext { thinking, extra_stops: stops.into(), ..MessagesContext::default() };
        let Answer { events, choice } = answer(&blocks, &turns);
        let joined = fold(&streamed(&events, &context, Finish::Stop));
        let complete = written(choice, &context);
        prop_assert_eq!(&joined["content"], &complete["content"]);
        for name in ["stop_reason", "stop_sequence"] {
            prop_assert_eq!(&joined[name], &complete[name]);
        }
        for name in ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "cost_usd"] {
            prop_assert_eq!(&joined["usage"][name], &complete["usage"][name]);
        }
    }

    /// Events that fit together badly still make a stream that clients can read.
    #[test]
    fn any_events_make_a_stream_that_follows_the_rules(
        events in prop::collection::vec(prop_oneof![
            words().prop_map(|words| OwnedEvent::Text(words.concat())),
            words().prop_map(|words| OwnedEvent::Reasoning(words.concat())),
            "[a-z]{0,2}".prop_map(|seal| OwnedEvent::Details(json!([{"type": "reasoning.text", "signature": seal}]))),
            Just(OwnedEvent::Image("YQ==".to_owned())),
            (0..4_u32).prop_map(|number| OwnedEvent::Call(number, format!("t{number}"))),
            (0..4_u32, prop_oneof![Just("{\"a\":"), Just("1}"), Just("{}"), Just("x")])
                .prop_map(|(number, fragment)| OwnedEvent::Arguments(number, fragment.to_owned())),
        ], 0..24),
    ) {
        let cut = streamed(&events, &MessagesContext::default(), Finish::Length);
        // Arguments that break off are no JSON, which `fold` could read.
        let outline: Vec<String> = cut.split("\n\n").filter(|frame| !frame.contains("input_json_delta")).map(str::to_owned).collect();
        fold(&outline.join("\n\n"));
        // A stream that does not say that it was cut is whole, or ends with an error.
        let whole = streamed(&events, &MessagesContext::default(), Finish::Stop);
        match whole.split_once("event: error\n") {
            None => drop(fold(&whole)),
            Some((before, error)) => {
                prop_assert!(!before.contains("event: message_delta"));
                prop_assert_eq!(error.matches("event: ").count(), 0);
                prop_assert!(std::panic::catch_unwind(|| fold(&cut)).is_err());
            }
        }
    }
}
