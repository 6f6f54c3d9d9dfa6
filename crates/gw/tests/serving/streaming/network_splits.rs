//! The network may cut an upstream's event stream anywhere; the client's bytes stay equal (U11).

use std::sync::Arc;

use gw_providers::adapter::{Adapter, Reading};
use gw_providers::adapters::openai::OpenAi;
use gw_providers::presets;
use gw_testkit::Answer;
use gw_testkit::sse::text_of;
use gw_wire::event::Event;
use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Price;
use gw_wire::stream::{Closing, Normaliser, Opening, Shape};
use serde_json::json;

use crate::harness::{chat_with, world};

const PIECES: [&str; 8] = ["漢字", "👩‍👩‍👧‍👦", "é\u{301}", "a\r\nb", "\u{2028}", "\"\\", "🦀🦀", " tail"];

/// An upstream's transcript of about `size` bytes: text of every width, mixed line ends, comments, a tool call.
fn transcript(size: usize) -> Vec<u8> {
    let chunk = |delta: serde_json::Value, finish: Option<&str>| json!({ "id": "x", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let mut text = String::new();
    let mut place = 0;
    while text.len() + 130 < size {
        let ending = ["\n\n", "\r\n\r\n", "\r\r"][place % 3];
        text += &format!("data: {}{ending}", chunk(json!({ "content": PIECES[place % PIECES.len()] }), None));
        if place % 5 == 4 {
            text += ": a comment 漢\n\n";
        }
        place += 1;
    }
    text += &format!("data: {}\n\ndata: [DONE]\n\n", chunk(json!({}), Some("stop")));
    text.into_bytes()
}

/// The client's bytes for an upstream stream in these pieces, through the real decoder and normaliser.
fn through<'a>(adapter: &OpenAi, meta: &GatewayMeta, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let opening = Opening {
        shape: Shape::Chat,
        id: "chatcmpl-x".to_owned(),
        created: 1,
        model: "m".to_owned(),
        choices: 1,
        include_usage: false,
        form: None,
        prompt_tokens: 0,
    };
    let mut normaliser = Normaliser::new(opening);
    let mut decoder = adapter.stream(&Reading::default());
    for piece in pieces {
        decoder.feed(piece, &mut |event: Event<'_>| normaliser.accept(event, &mut out));
    }
    decoder.eof(&mut |event: Event<'_>| normaliser.accept(event, &mut out));
    normaliser.eof();
    assert!(normaliser.is_complete() && !normaliser.has_failed());
    let usage = normaliser.reported_usage().unwrap_or_default();
    normaliser.finish(&Closing { usage, cost: Some(Price::from_nanos(0).cost(0)), gateway: meta }, &mut out);
    out
}

fn parts() -> (OpenAi, GatewayMeta) {
    let quirks = presets::ALL.iter().find(|preset| preset.name == "openai").expect("a preset").quirks;
    let name: Arc<str> = "x".into();
    let meta = GatewayMeta {
        request_id: Arc::clone(&name),
        model_used: Arc::clone(&name),
        provider: name,
        cache_hit: false,
        routing_strategy: "default",
        fallback_used: false,
        latency_ms: 1,
        attempts: Vec::new(),
        warnings: Vec::new(),
        saved: None,
        preset: None,
        prompt_cache: None,
        similar: None,
    };
    (OpenAi::new(quirks), meta)
}

#[test]
fn u11_every_single_cut_of_a_transcript_gives_the_same_bytes() {
    let ((adapter, meta), bytes) = (parts(), transcript(4096));
    assert!(bytes.len() >= 3900, "{}", bytes.len());
    let whole = through(&adapter, &meta, [bytes.as_slice()]);
    for cut in 1..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        assert!(through(&adapter, &meta, [first, second]) == whole, "cut at {cut}");
    }
    assert!(through(&adapter, &meta, bytes.chunks(1)) == whole, "byte by byte");
}

#[test]
fn u11_every_pair_of_cuts_of_a_short_transcript_gives_the_same_bytes() {
    let ((adapter, meta), bytes) = (parts(), transcript(400));
    let whole = through(&adapter, &meta, [bytes.as_slice()]);
    for first in 1..bytes.len() - 1 {
        for second in first + 1..bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert!(through(&adapter, &meta, pieces) == whole, "cuts at {first} and {second}");
        }
    }
}

#[tokio::test]
async fn u11_cuts_over_a_socket_give_the_same_text() {
    let world = world().await;
    let bytes = transcript(600);
    let body = chat_with("acme/fast", json!({ "stream": true }));
    let mut texts = Vec::new();
    let cuts: Vec<Vec<&[u8]>> = std::iter::once(vec![bytes.as_slice()])
        .chain((1..bytes.len()).step_by(37).map(|cut| vec![&bytes[..cut], &bytes[cut..]]))
        .chain([bytes.chunks(1).collect(), bytes.chunks(7).collect()])
        .collect();
    for pieces in cuts {
        // The pieces are chunks of the transfer coding: a reader that decodes text per chunk would fail on each.
        let answer = pieces.iter().fold(Answer::sse(), |answer, piece| answer.chunk(piece)).end();
        world.upstream.enqueue(answer);
        let frames = world.client.stream("/v1/chat/completions", &body).await.rest().await;
        assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
        texts.push(text_of(&frames, 0));
    }
    assert!(texts[0].starts_with("漢字👩‍👩‍👧‍👦"));
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}
