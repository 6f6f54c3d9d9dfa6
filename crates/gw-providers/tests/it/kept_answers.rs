//! Kept answers: what is written without reading a kept answer equals what the reader and the writer give.

use std::borrow::Cow;

use gw_providers::gateway_format;
use gw_wire::gateway::GatewayMeta;
use gw_wire::kept_answer::{KeptChat, KeptPlaces};
use gw_wire::money::Money;
use gw_wire::render::{self, Envelope};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, TextChoice, TextReply, ToolCall};
use gw_wire::stream::Shape;
use gw_wire::usage::Usage;
use proptest::prelude::*;
use serde_json::value::RawValue;

fn meta(number: u64) -> GatewayMeta {
    GatewayMeta {
        request_id: format!("req_{number}").into(),
        model_used: "p/m".into(),
        provider: "p\"".into(),
        cache_hit: true,
        routing_strategy: "cheapest",
        fallback_used: number.is_multiple_of(2),
        latency_ms: number,
        attempts: Vec::new(),
        warnings: number.is_multiple_of(3).then_some("stale_if_error".into()).into_iter().collect(),
        saved: Some(Money::from_femtos(number.into())),
        preset: None,
        prompt_cache: None,
        similar: None,
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => any::<String>(),
        1 => "[a-z ]{0,40}",
        1 => Just(r#"","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#.to_owned()),
        1 => Just("\u{2028}\\\"{}[]\u{85}\n".to_owned()),
    ]
}

fn finish() -> impl Strategy<Value = Option<Finish>> {
    let all = [Finish::Stop, Finish::Length, Finish::ToolCalls, Finish::ContentFilter, Finish::FunctionCall];
    prop::option::of(prop::sample::select(all.to_vec()))
}

fn raw() -> impl Strategy<Value = Box<RawValue>> {
    let values = [
        "null",
        "1",
        "[ 1 ,2]",
        r#"{"a":{"content":"x"}}"#,
        "\"stop\"",
        "{}",
        r#"{"message":"m"}"#,
        r#"{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#,
        "\"\u{2028}\"",
    ];
    prop::sample::select(values.to_vec()).prop_map(|value| RawValue::from_string(value.to_owned()).unwrap())
}

fn name() -> impl Strategy<Value = String> {
    let names = [
        "content",
        "annotations",
        "audio",
        "role",
        "index",
        "service_tier",
        "usage",
        "error",
        "stop_sequence",
        "images",
        "tool_calls",
        "gateway",
        "id",
        "a\"b",
        "refusal",
    ];
    prop_oneof![4 => prop::sample::select(names.to_vec()).prop_map(str::to_owned), 1 => text()]
}

type Owned = Vec<(Cow<'static, str>, Cow<'static, RawValue>)>;

fn others(most: usize) -> impl Strategy<Value = Owned> {
    prop::collection::vec((name().prop_map(Cow::Owned), raw().prop_map(Cow::Owned)), 0..most)
}

fn tool_call() -> impl Strategy<Value = ToolCall<'static>> {
    (text(), text(), text(), any::<bool>()).prop_map(|(id, name, arguments, custom)| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        custom,
    })
}

/// Choices with texts and calls of tools, and with `rare` also with all other members.
fn choice(rare: bool) -> impl Strategy<Value = ChatChoice<'static>> {
    let texts = (0..4_u32, prop::option::of(text()), prop::option::of(text()), prop::option::of(text()));
    let most = usize::from(rare) * 3;
    let rest = (
        prop::collection::vec(tool_call(), 0..3),
        prop::option::of((text(), text())).prop_map(move |call| call.filter(|_| rare)),
        others(most.max(1)),
        prop::option::of(raw()).prop_map(move |value| value.filter(|_| rare)),
        finish(),
    );
    (texts, rest).prop_map(
        |((index, content, reasoning, refusal), (calls, function, extras, logprobs, finish))| ChatChoice {
            index,
            content: content.map(Cow::Owned),
            reasoning: reasoning.map(Cow::Owned),
            refusal: refusal.map(Cow::Owned),
            tool_calls: calls,
            function_call: function.map(|(name, arguments)| (name.into(), arguments.into())),
            images: Vec::new(),
            extras,
            logprobs: logprobs.map(Cow::Owned),
            finish,
        },
    )
}

fn reply() -> impl Strategy<Value = ChatReply<'static>> {
    any::<bool>().prop_flat_map(|rare| {
        let most = usize::from(rare) * 3;
        (
            prop::option::of(text()),
            prop::option::of(text()),
            prop::collection::vec(choice(rare), 0..3),
            others(most.max(1)),
        )
            .prop_map(|(model, fingerprint, choices, members)| ChatReply {
                model: model.map(Cow::Owned),
                fingerprint: fingerprint.map(Cow::Owned),
                choices,
                usage: None,
                members,
                native: None,
            })
    })
}

fn counts() -> Usage {
    Usage { prompt: 3, completion: 4, ..Usage::default() }
}

fn envelope<'a>(id: &'a str, number: u64, gateway: &'a GatewayMeta, usage: Usage) -> Envelope<'a> {
    Envelope { id, created: number, model: "p/m", fingerprint: "", usage, cost: Some(Money::ZERO), gateway }
}

/// The answers to four hits of one entry, each by reading and writing, and by the places.
fn check_hits(shape: Shape, entry: &[u8], usage: Usage) -> Result<usize, TestCaseError> {
    let (places, mut filled) = (KeptPlaces::default(), 0);
    for number in [7, 12, 41, 5] {
        let (id, gateway) = (format!("chatcmpl-{number}"), meta(number));
        let envelope = envelope(&id, number, &gateway, usage);
        let written = match shape {
            Shape::Chat => gateway_format::chat(entry).ok().map(|reply| render::chat(&reply, &envelope)),
            Shape::Text => {
                gateway_format::completion(entry).ok().map(|reply| render::text(&reply, &envelope))
            }
        };
        let Some(written) = written else { return Ok(0) };
        if let Some(by_places) = places.fill(shape, entry, &envelope) {
            prop_assert_eq!(String::from_utf8(by_places), String::from_utf8(written.clone()));
            filled += 1;
        }
        places.note(shape, entry, &envelope, &written);
    }
    Ok(filled)
}

proptest! {
    #[test]
    fn a_hit_by_places_is_the_hit_that_is_read_and_written(reply in reply()) {
        let entry = render::cacheable_chat(&reply, "", "m", "fp", &counts());
        check_hits(Shape::Chat, &entry, counts())?;
        // The counts of the entry may be others, or stand elsewhere.
        check_hits(Shape::Chat, &entry, Usage { prompt: 9, ..counts() })?;
    }

    #[test]
    fn a_hit_of_a_text_by_places_is_the_hit_that_is_read_and_written(model in prop::option::of(text()), texts in prop::collection::vec((0..3_u32, text(), finish()), 0..3)) {
        let choices = texts.into_iter().map(|(index, text, finish)| TextChoice { index, text: text.into(), logprobs: None, finish });
        let reply = TextReply { model: model.map(Cow::Owned), choices: choices.collect(), usage: None };
        check_hits(Shape::Text, &render::cacheable_text(&reply, "m", &counts()), counts())?;
    }

    #[test]
    fn an_entry_cut_out_of_the_answer_gives_the_hits_of_an_entry_that_was_read(reply in reply()) {
        let gateway = meta(3);
        let envelope = Envelope { fingerprint: "fp", ..envelope("chatcmpl-3", 3, &gateway, Usage { prompt: 1, ..Usage::default() }) };
        let (document, places) = render::chat_document(&reply, &envelope);
        prop_assert_eq!(&document, &render::chat(&reply, &envelope));
        let Some(kept) = KeptChat::cut_out(&places, &reply, &document, &counts()) else { return Ok(()) };
        let read = gateway_format::chat(&document).expect("an answer that is kept can be read");
        let finishes: Option<Vec<_>> = read.choices.iter().map(|choice| choice.finish).collect();
        prop_assert_eq!(Some(&kept.finishes), finishes.as_ref());
        let entry = render::cacheable_chat(&read, "", "p/m", "fp", &counts());
        let hit = |entry: &[u8]| {
            let (gateway, reply) = (meta(5), gateway_format::chat(entry).expect("an entry can be read"));
            String::from_utf8(render::chat(&reply, &self::envelope("chatcmpl-5", 5, &gateway, counts()))).unwrap()
        };
        prop_assert_eq!(hit(&kept.body), hit(&entry));
    }
}

#[test]
fn the_usual_answer_is_read_for_its_first_hit_only() {
    let choice =
        ChatChoice { content: Some("a \"b\"".into()), finish: Some(Finish::Stop), ..ChatChoice::default() };
    let reply = ChatReply { model: Some("m".into()), choices: vec![choice], ..ChatReply::default() };
    let gateway = meta(1);
    let (document, places) = render::chat_document(&reply, &envelope("chatcmpl-1", 1, &gateway, counts()));
    let kept = KeptChat::cut_out(&places, &reply, &document, &counts()).expect("it is cut out");
    assert_eq!(check_hits(Shape::Chat, &kept.body, counts()).unwrap(), 2);
    let text = TextChoice { index: 0, text: "a".into(), logprobs: None, finish: None };
    let reply = TextReply { model: None, choices: vec![text], usage: None };
    assert_eq!(
        check_hits(Shape::Text, &render::cacheable_text(&reply, "m", &counts()), counts()).unwrap(),
        2
    );
}
