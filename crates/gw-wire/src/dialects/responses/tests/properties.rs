//! Rules that hold for any stream.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::answers::written;
use super::fold::checked;
use super::*;
use crate::reply::{ChatChoice, ChatReply, ToolCall};

/// An event in a form of its own.
#[derive(Clone, Debug)]
enum Step {
    Text(String),
    Reasoning(String),
    Refusal(String),
    Call(u32, bool),
    Arguments(u32, String),
    Signature(String),
    Citation,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = "[a-z\"\\\\\n\u{2028}é]{0,4}";
    let step = prop_oneof![
        4 => words.prop_map(Step::Text),
        2 => words.prop_map(Step::Reasoning),
        1 => words.prop_map(Step::Refusal),
        3 => (0..5_u32, any::<bool>()).prop_map(|(call, custom)| Step::Call(call, custom)),
        4 => (0..5_u32, "[{}\"x:\\\\ ]{0,4}").prop_map(|(call, text)| Step::Arguments(call, text)),
        1 => "[a-z]{1,3}".prop_map(Step::Signature),
        1 => Just(Step::Citation),
    ];
    prop::collection::vec(step, 0..24)
}

fn accept(encoder: &mut dyn AnswerEncoder, step: &Step, out: &mut Vec<u8>) {
    match step {
        Step::Text(words) => encoder.accept(&text(words), out),
        Step::Reasoning(words) => encoder.accept(&reasoning(words), out),
        Step::Refusal(words) => encoder.accept(&refusal(words), out),
        Step::Call(number, true) => encoder.accept(&custom(*number, "", "c"), out),
        Step::Call(number, false) => encoder.accept(&call(*number, &format!("call_{number}"), "p"), out),
        Step::Arguments(number, words) => encoder.accept(&arguments(*number, words), out),
        Step::Signature(sealed) => {
            let entry = json!([{"type": "reasoning.encrypted", "data": sealed}]).to_string();
            let value = RawValue::from_string(entry).unwrap();
            encoder.accept(&Event::Extra { choice: 0, name: "reasoning_details", value: &value }, out);
        }
        Step::Citation => {
            let entry = json!([{"type": "url_citation", "url_citation": {"url": "u"}}]).to_string();
            let value = RawValue::from_string(entry).unwrap();
            encoder.accept(&Event::Extra { choice: 0, name: "annotations", value: &value }, out);
        }
    }
}

fn finish(encoder: &mut dyn AnswerEncoder, reason: Finish, out: &mut Vec<u8>) {
    let gateway = meta();
    let closing = Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway };
    encoder.finish(Some(reason), &closing, out);
}

proptest! {
    #[test]
    fn any_events_make_a_sound_stream(steps in steps(), cut in any::<bool>(), is_custom in any::<bool>(), raw in any::<bool>()) {
        let kind = if is_custom { "custom" } else { "function" };
        let include = if raw { json!(["reasoning.content"]) } else { json!([]) };
        let request = json!({"model": "m", "input": "q", "include": include, "tools": [{"type": kind, "name": "p"}]});
        let mut encoder = context(&request).stream(opening());
        let mut out = Vec::new();
        steps.iter().for_each(|step| accept(&mut encoder, step, &mut out));
        finish(&mut encoder, if cut { Finish::Length } else { Finish::Stop }, &mut out);
        let stream = String::from_utf8(out).unwrap();
        let response = checked(&frames(&stream));
        let document = final_object(&stream);
        prop_assert_eq!(&response, &document);
        let again = replayed(&document.to_string(), None);
        prop_assert_eq!(checked(&frames(&again)), document);
    }

    #[test]
    fn nothing_is_lost_when_calls_interleave(steps in steps()) {
        let mut encoder = plain_context().stream(opening());
        let mut out = Vec::new();
        steps.iter().for_each(|step| accept(&mut encoder, step, &mut out));
        finish(&mut encoder, Finish::Stop, &mut out);
        let document = final_object(std::str::from_utf8(&out).unwrap());
        let of = |pick: fn(&Step) -> &str| steps.iter().map(pick).collect::<String>();
        let parts = |name: &str| -> String {
            let items = document["output"].as_array().unwrap().iter();
            let lists = items.flat_map(|item| [&item["content"], &item["summary"]]);
            let parts = lists.filter_map(Value::as_array).flatten();
            parts.filter_map(|part| part[name].as_str().filter(|_| part["type"] != "summary_text")).collect()
        };
        let texts = of(|step| if let Step::Text(words) = step { words } else { "" });
        let refusals = of(|step| if let Step::Refusal(words) = step { words } else { "" });
        prop_assert_eq!(parts("text"), texts);
        prop_assert_eq!(parts("refusal"), refusals);
    }

    #[test]
    fn a_cut_stream_ends_with_one_failure(steps in steps()) {
        let mut encoder = plain_context().stream(opening());
        let mut out = Vec::new();
        steps.iter().for_each(|step| accept(&mut encoder, step, &mut out));
        let error = crate::dialects::StreamError::new("x", "upstream_error", "c");
        encoder.fail(&error, &mut out);
        finish(&mut encoder, Finish::Stop, &mut out);
        let events = frames(std::str::from_utf8(&out).unwrap());
        for (number, event) in events.iter().enumerate() {
            prop_assert_eq!(&event["sequence_number"], number);
        }
        let [.., before, last] = &events[..] else { unreachable!() };
        prop_assert_eq!(&before["type"], "error");
        prop_assert_eq!(&last["type"], "response.failed");
        let added = events.iter().filter(|event| event["type"] == "response.output_item.added").count();
        prop_assert_eq!(last["response"]["output"].as_array().unwrap().len(), added);
        prop_assert_eq!(events.iter().filter(|event| event["type"] == "response.completed").count(), 0);
    }

    #[test]
    fn a_stream_and_a_complete_answer_are_equal(
        thought in "[a-z]{0,6}", answer in "[a-z\\\\ ]{0,8}", refused in "[a-z]{0,3}",
        calls in prop::collection::vec(("[a-z]{0,3}", "(\\{\"x\":[0-9]\\})?"), 0..4), size in 1..4_usize
    ) {
        let pieces = |text: &str| -> Vec<String> {
            let letters: Vec<char> = text.chars().collect();
            letters.chunks(size).map(|piece| piece.iter().collect()).collect()
        };
        let mut encoder = plain_context().stream(opening());
        let mut out = Vec::new();
        pieces(&thought).iter().for_each(|piece| encoder.accept(&reasoning(piece), &mut out));
        pieces(&answer).iter().for_each(|piece| encoder.accept(&text(piece), &mut out));
        pieces(&refused).iter().for_each(|piece| encoder.accept(&refusal(piece), &mut out));
        for (number, (id, words)) in (0_u32..).zip(&calls) {
            encoder.accept(&call(number, id, "f"), &mut out);
            pieces(words).iter().for_each(|piece| encoder.accept(&arguments(number, piece), &mut out));
        }
        finish(&mut encoder, Finish::Stop, &mut out);
        let streamed = final_object(std::str::from_utf8(&out).unwrap());
        let tool_calls = calls.iter().map(|(id, words)| ToolCall {
            id: Cow::Borrowed(id), name: "f".into(), arguments: Cow::Borrowed(words), custom: false,
        });
        let choice = ChatChoice {
            content: Some(Cow::Borrowed(&answer)),
            reasoning: Some(Cow::Borrowed(&thought)),
            refusal: Some(Cow::Borrowed(&refused)),
            tool_calls: tool_calls.collect(),
            finish: Some(Finish::Stop),
            ..ChatChoice::default()
        };
        let reply = ChatReply { choices: vec![choice], ..ChatReply::default() };
        prop_assert_eq!(written(&plain_context(), &reply), streamed);
    }

    #[test]
    fn no_request_makes_the_translation_panic(text in r#"[\[\]{}",:a-z0-9 ]{0,40}"#) {
        let body = format!(r#"{{"model":"m","input":[{{"type":"{text}}}]}}"#);
        let _any = translate(Bytes::from(body), &RequestLimits::default(), &[&text]);
        let _any = replayed(&text, Some(1));
    }
}
