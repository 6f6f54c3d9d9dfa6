//! Log probabilities of answers that the gateway cuts at a stop sequence.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dialects::gemini::{GeminiContext, GeminiEncoder, translate};
use crate::dialects::{AnswerEncoder, AnswerForm, EncoderOpening};
use crate::event::Event;
use crate::gateway::GatewayMeta;
use crate::render::Envelope;
use crate::reply::{ChatChoice, ChatReply, Finish};
use crate::request::RequestLimits;
use crate::stream::Closing;
use crate::usage::Usage;

/// Four sequences for the upstream, and one for the gateway.
const STOPS: [&str; 5] = ["\u{1}", "\u{2}", "\u{3}", "\u{4}", "STOP"];

/// The context of a request with these stop sequences.
fn context(stops: &[&str]) -> GeminiContext {
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"stopSequences": stops, "responseLogprobs": true, "logprobs": 1}
    });
    let request = translate(Bytes::from(body.to_string()), "m", false, &RequestLimits::default());
    request.expect("a valid request").context
}

fn meta() -> GatewayMeta {
    GatewayMeta::example()
}

fn entry(token: &str, bytes: &Value) -> Value {
    let top = json!([{"token": token, "logprob": -0.5, "bytes": bytes}]);
    json!({"token": token, "logprob": -0.5, "bytes": bytes, "top_logprobs": top})
}

fn raw(entries: &[Value]) -> Box<RawValue> {
    RawValue::from_string(json!({"content": entries}).to_string()).expect("JSON")
}

fn logprobs(tokens: &[&str]) -> Box<RawValue> {
    let entries: Vec<Value> = tokens.iter().map(|token| entry(token, &json!(token.as_bytes()))).collect();
    raw(&entries)
}

/// The tokens of `chosenCandidates`, which are those of `topCandidates`.
fn tokens(candidate: &Value) -> Vec<Value> {
    let of = |name: &str| candidate["logprobsResult"][name].as_array().cloned().unwrap_or_default();
    let chosen: Vec<Value> = of("chosenCandidates").iter().map(|entry| entry["token"].clone()).collect();
    let top: Vec<Value> =
        of("topCandidates").iter().map(|entry| entry["candidates"][0]["token"].clone()).collect();
    assert_eq!(chosen, top, "{candidate}");
    chosen
}

/// The candidate of a complete answer.
fn plain(stops: &[&str], text: &str, logprobs: Box<RawValue>) -> Value {
    let choice = ChatChoice {
        content: Some(text.into()),
        logprobs: Some(Cow::Owned(logprobs)),
        finish: Some(Finish::Stop),
        ..ChatChoice::default()
    };
    let reply = ChatReply { choices: vec![choice], ..ChatReply::default() };
    let gateway = meta();
    let envelope = Envelope {
        id: "r",
        created: 1,
        model: "m",
        fingerprint: "",
        usage: Usage::default(),
        cost: None,
        gateway: &gateway,
    };
    let body: Value = serde_json::from_slice(&context(stops).write(&reply, &envelope)).expect("JSON");
    body["candidates"][0].clone()
}

fn encoder(stops: &[&str]) -> GeminiEncoder {
    let opening = EncoderOpening { id: "r".into(), created: 1, model: "m".into(), prompt_tokens: 1 };
    GeminiEncoder::new(context(stops), opening)
}

/// Sends a piece of text with these tokens.
fn send(encoder: &mut GeminiEncoder, text: &str, tokens: &[&str], out: &mut Vec<u8>) {
    let logprobs = logprobs(tokens);
    encoder.accept(&Event::Text { choice: 0, text: text.into(), logprobs: Some(&*logprobs) }, out);
}

/// The text of the stream and the candidate of its last frame.
fn ended(mut encoder: GeminiEncoder, mut out: Vec<u8>) -> (String, Value) {
    let gateway = meta();
    let closing = Closing { usage: Usage::default(), cost: None, gateway: &gateway };
    encoder.finish(Some(Finish::Stop), &closing, &mut out);
    let out = String::from_utf8(out).expect("UTF-8");
    let frames: Vec<Value> = out
        .split_terminator("\n\n")
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").expect("data")).expect("JSON"))
        .collect();
    let text = frames
        .iter()
        .filter_map(|frame| frame["candidates"][0]["content"]["parts"][0]["text"].as_str())
        .collect();
    (text, frames.last().expect("a frame")["candidates"][0].clone())
}

/// A piece of a stream: its text and its tokens.
type Piece<'a> = (&'a str, &'a [&'a str]);

fn streamed(stops: &[&str], pieces: &[Piece<'_>]) -> (String, Value) {
    let (mut encoder, mut out) = (encoder(stops), Vec::new());
    for (text, tokens) in pieces {
        send(&mut encoder, text, tokens, &mut out);
    }
    ended(encoder, out)
}

#[test]
fn a_complete_answer_has_no_tokens_of_the_text_that_is_cut() {
    let cases: [(&[&str], &str, usize); 6] = [
        (&["one", " two", " ", "STOP", " three"], "one two ", 3),
        // A token that lies partly in the cut goes with it, as do the tokens of a sequence that is split.
        (&["one", " two", " STOP", " three"], "one two ", 2),
        (&["one", " S", "TO", "P", " x"], "one ", 1),
        (&["one", "STOP", "STOP"], "one", 1),
        (&["STOP", "x"], "", 0),
        (&["one", " ST", "ART"], "one START", 3),
    ];
    for (sent, text, kept) in cases {
        let candidate = plain(&STOPS, &sent.concat(), logprobs(sent));
        assert_eq!(candidate["content"]["parts"][0]["text"], text);
        assert_eq!(tokens(&candidate), &sent[..kept], "{text}");
        assert_eq!(candidate.get("logprobsResult").is_some(), kept > 0, "{text}");
    }
    // The upstream enforces four sequences itself, and the gateway cuts nothing.
    let candidate = plain(&STOPS[1..], "one", logprobs(&["one", " STOP"]));
    assert_eq!(tokens(&candidate), ["one", " STOP"]);
}

#[test]
fn a_token_within_a_character_counts_by_its_bytes() {
    let halves = [
        entry("\\xc3", &json!([0xc3])),
        entry("\\xa9", &json!([0xa9])),
        entry("STOP", &json!("STOP".as_bytes())),
    ];
    let candidate = plain(&STOPS, "\u{e9}STOP", raw(&halves));
    assert_eq!(tokens(&candidate), ["\\xc3", "\\xa9"]);
    // An upstream that sends no bytes sends texts.
    let words = [entry("\u{e9} ", &Value::Null), entry("a", &json!([])), entry(" STOP", &Value::Null)];
    let candidate = plain(&STOPS, "\u{e9} a STOP", raw(&words));
    assert_eq!(tokens(&candidate), ["\u{e9} ", "a"]);
}

#[test]
fn a_stream_has_no_tokens_of_the_text_that_is_cut() {
    let cases: [(&[Piece<'_>], &str, &[&str]); 4] = [
        (
            &[("one", &["one"]), (" two STOP x", &[" two", " ", "STOP", " x"])],
            "one two ",
            &["one", " two", " "],
        ),
        // The text of a held piece is cut by a later one, and no token follows.
        (
            &[("one", &["one"]), (" ST", &[" ST"]), ("OP and", &["OP", " and"]), (" x", &[" x"])],
            "one ",
            &["one"],
        ),
        (&[("STOP", &["STOP"]), ("x", &["x"])], "", &[]),
        (&[("one", &["one"]), (" ST", &[" ST"]), ("ART", &["ART"])], "one START", &["one", " ST", "ART"]),
    ];
    for (pieces, text, kept) in cases {
        let (got, candidate) = streamed(&STOPS, pieces);
        assert_eq!(got, text);
        assert_eq!(tokens(&candidate), kept, "{text}");
        assert_eq!(candidate["finishReason"], "STOP");
    }
}

#[test]
fn a_refusal_before_the_text_makes_no_room_for_tokens() {
    let (mut encoder, mut out) = (encoder(&STOPS), Vec::new());
    encoder.accept(&Event::Refusal { choice: 0, text: "Not like this.".into() }, &mut out);
    send(&mut encoder, "a STOP b", &["a", " ", "STOP", " b"], &mut out);
    let (text, candidate) = ended(encoder, out);
    assert_eq!(text, "Not like this.a ");
    assert_eq!(tokens(&candidate), ["a", " "]);
}

#[test]
fn the_tokens_behind_a_cut_take_no_memory() {
    let (mut encoder, mut out) = (encoder(&STOPS), Vec::new());
    send(&mut encoder, "one STOP", &["one", " ", "STOP"], &mut out);
    let held = encoder.held_bytes();
    assert!(held > 0);
    for _ in 0..100 {
        send(&mut encoder, " more", &[" more"], &mut out);
    }
    assert_eq!(encoder.held_bytes(), held);
}
