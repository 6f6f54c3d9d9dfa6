//! Every upstream dialect behind every surface: the stream folds to the plain answer, its form holds, the network's cuts
//! change nothing, and the ledger's row is the same.

use gw_testkit::{Client, FakeUpstream, Gateway};
use serde_json::{Value, json};

use super::fold::{Content, SURFACES, Surface};
use crate::harness::dialects::WORDS;
use crate::harness::providers::{config_of_all, targets};
use crate::harness::{ADMIN, KEY, logged, serve, with};

/// A gateway with one provider of each API, of which none has a Responses API.
async fn all() -> (Gateway, Vec<FakeUpstream>) {
    let (config, upstreams) = config_of_all("").await;
    let chat_only = config.replace("api = \"openai\"\n", "api = \"openai\"\nresponses = false\n");
    let admin = format!("[[keys]]\nname = \"admin\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n");
    (serve(&format!("{chat_only}{admin}")).await, upstreams)
}

/// The members of a ledger row that do not depend on the surface.
async fn row(admin: &Client, id: &str) -> Value {
    let row = logged(admin, id).await;
    let names = [
        "model",
        "provider",
        "status",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "cost_usd",
        "usage_estimated",
        "attempts_count",
    ];
    names.iter().map(|name| (*name).to_owned()).zip(names.map(|name| row[name].clone())).collect()
}

fn expected(has_tool: bool) -> Content {
    let city = |city: &str| ("get_weather".to_owned(), json!({"city": city}));
    let usage = (100, 20);
    match has_tool {
        true => {
            Content { calls: vec![city("Paris"), city("Rome")], end: "calls", usage, ..Content::default() }
        }
        false => Content { text: WORDS.to_owned(), end: "words", usage, ..Content::default() },
    }
}

#[tokio::test]
async fn a_stream_folds_to_the_plain_answer_and_the_ledger_has_one_row_on_every_surface() {
    let (gateway, _upstreams) = all().await;
    let (client, admin) = (gateway.client().with_key(KEY), gateway.client().with_key(ADMIN));
    for (name, model) in targets() {
        for has_tool in [false, true] {
            let mut rows: Vec<(String, Value)> = Vec::new();
            for surface in SURFACES {
                let label = format!("{name} {surface:?} tool={has_tool}");
                let body = surface.question(&model, has_tool);
                let plain = client.post_json(surface.path(), &body).await.ok();
                assert_eq!(surface.plain(&plain.json()), expected(has_tool), "{label}: {}", plain.text());
                let mut stream = client.stream(surface.path(), &with(body, json!({"stream": true}))).await;
                let frames = stream.rest().await;
                assert_eq!(surface.folded(&frames), expected(has_tool), "{label}: {frames:?}");
                for (kind, id) in
                    [("plain", plain.header("x-request-id")), ("stream", stream.head.header("x-request-id"))]
                {
                    let id = id.expect("an id").to_owned();
                    rows.push((format!("{label} {kind}"), row(&admin, &id).await));
                }
            }
            let (_, first) = &rows[0];
            assert_eq!((&first["prompt_tokens"], &first["status"]), (&json!(100), &json!("ok")), "{first}");
            for (label, row) in &rows {
                assert_eq!(row, first, "{label}");
            }
        }
    }
}

/// The frames without what differs between two answers: ids, times and durations.
fn scrubbed(frames: &[String]) -> String {
    const VARYING: [&str; 8] = [
        "\"id\":",
        "\"call_id\":",
        "\"item_id\":",
        "\"request_id\":",
        "\"latency_ms\":",
        "\"created\":",
        "\"created_at\":",
        "\"completed_at\":",
    ];
    let mut text = frames.concat();
    for name in VARYING {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(name) {
            let (before, value) = rest.split_at(at + name.len());
            out.push_str(before);
            let end = value.find([',', '}']).expect("the value ends");
            rest = &value[end..];
        }
        out.push_str(rest);
        text = out;
    }
    text
}

/// Sizes of pieces: one byte each, seven bytes each, and a fixed random sequence.
fn cuts() -> [Box<dyn Iterator<Item = usize> + Send>; 3] {
    let mut state = 0x2545_f491_u32;
    let random = std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + usize::try_from(state >> 24).unwrap_or(0)
    });
    [Box::new(std::iter::repeat(1)), Box::new(std::iter::repeat(7)), Box::new(random)]
}

#[tokio::test]
async fn the_cuts_of_the_network_change_no_byte_on_any_surface() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    for ((name, model), upstream) in targets().zip(&upstreams) {
        for surface in SURFACES {
            for has_tool in [false, true] {
                let body = with(surface.question(&model, has_tool), json!({"stream": true}));
                let mut stream = client.stream(surface.path(), &body).await;
                let whole = scrubbed(&stream.rest().await);
                let answer = upstream.usual_answer(&upstream.last());
                for (number, sizes) in cuts().into_iter().enumerate() {
                    upstream.enqueue(answer.in_pieces(sizes));
                    let mut stream = client.stream(surface.path(), &body).await;
                    let cut = scrubbed(&stream.rest().await);
                    assert_eq!(cut, whole, "{name} {surface:?} tool={has_tool} cut {number}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_one_error_on_every_surface() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    for ((name, model), upstream) in targets().zip(&upstreams) {
        for surface in SURFACES {
            let body = with(surface.question(&model, false), json!({"stream": true}));
            client.stream(surface.path(), &body).await.rest().await;
            let answer = upstream.usual_answer(&upstream.last());
            upstream.enqueue(answer.first_part(70));
            let frames = client.stream(surface.path(), &body).await.rest().await;
            let text = frames.concat();
            let (error, good) = match surface {
                Surface::Chat => ("\"error\":{\"message\"", "\"finish_reason\":\"stop\""),
                Surface::Responses => ("event: response.failed", "event: response.completed"),
                Surface::Messages => ("event: error", "event: message_stop"),
            };
            assert_eq!(text.matches(error).count(), 1, "{name} {surface:?}: {text}");
            assert!(!text.contains(good), "{name} {surface:?}: {text}");
        }
    }
}
