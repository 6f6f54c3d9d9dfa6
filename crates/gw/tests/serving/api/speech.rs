//! Speech: a file as it comes and events, prices by the character and by tokens, and every way in which they end.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, Signal};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, logged, with, world};

const PATH: &str = "/v1/audio/speech";
const AUDIO: &[(&str, &str)] = &[("content-type", "audio/mpeg")];

fn say(model: &str, more: Value) -> Value {
    with(json!({"model": model, "input": "Grüße dich", "voice": "alloy"}), more)
}

async fn row_of(world: &World, answer: &gw_testkit::Response) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    logged(&admin, answer.header("x-request-id").expect("an id")).await
}

/// The data of a frame.
fn data(frame: &str) -> Value {
    let line = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
    serde_json::from_str(line).expect("JSON")
}

/// An answer whose sound comes in pieces.
fn pieces() -> Answer {
    Answer::raw("HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntransfer-encoding: chunked\r\n\r\n")
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

#[tokio::test]
async fn a_file_comes_as_it_is_and_costs_its_characters() {
    let world = world().await;
    let sound: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    world.upstream.enqueue(Answer::full(200, AUDIO, &sound));
    let more =
        json!({"instructions": "calm", "speed": 1.5, "response_format": "mp3", "user": "ann", "seed": 1});
    let answer = world.client.post_json(PATH, &say("acme/speak", more)).await.ok();
    assert!(answer.body == sound && !answer.broken);
    assert_eq!(answer.header("content-type"), Some("audio/mpeg"));
    // Ten code points at 0.000015.
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.00015"));
    assert_eq!(answer.header("x-gateway-model"), Some("acme/speak"));
    let sent = world.upstream.last();
    assert_eq!(sent.path, PATH);
    let expected = json!({
        "model": "speak", "input": "Grüße dich", "voice": "alloy", "instructions": "calm", "response_format": "mp3", "speed": 1.5
    });
    assert_eq!(sent.json(), expected);
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["surface"], &row["operation"]), (&json!("speech"), &json!("speech")), "{row}");
    assert_eq!((&row["units"], &row["cost_usd"]), (&json!({"character": 10}), &json!(0.00015)), "{row}");
    assert_eq!(row.get("unpriced"), None, "{row}");
}

#[tokio::test]
async fn the_first_bytes_do_not_wait_for_the_last_ones() {
    let world = world().await;
    let more = Signal::new();
    world.upstream.enqueue(pieces().chunk("first").wait(&more).chunk("last").then(Step::EndChunks));
    let body = say("acme/speak", json!({})).to_string();
    let mut wire = world.client.open("POST", PATH, Some("application/json"), Some(body.as_bytes())).await;
    let head = wire.head().await.expect("a head");
    wire.expect_body(&head, false);
    assert_eq!(wire.body_chunk().await.expect("a piece").expect("a piece"), b"first");
    more.fire();
    assert_eq!(wire.body_chunk().await.expect("a piece").expect("a piece"), b"last");
    assert_eq!(wire.body_chunk().await.expect("the end"), None);
}

#[tokio::test]
async fn a_file_that_fails_is_torn_and_events_end_with_an_error() {
    let world = world().await;
    world.upstream.enqueue(pieces().chunk("half").close());
    let answer = world.client.post_json(PATH, &say("acme/speak", json!({}))).await;
    assert!(answer.broken && answer.body == b"half", "{answer:?}");
    let row = row_of(&world, &answer).await;
    assert_eq!(
        (&row["status"], &row["cost_usd"]),
        (&json!("upstream_stream_error"), &json!(0.00015)),
        "{row}"
    );
    let half = json!({"type": "speech.audio.delta", "audio": "aGFsZg=="});
    world.upstream.enqueue(Answer::sse().chunk(event(&half)).close());
    let mut stream = world.client.stream(PATH, &say("acme/speak", json!({"stream_format": "sse"}))).await;
    let frames = stream.rest().await;
    let [first, last] = &frames[..] else { panic!("{frames:?}") };
    assert!(first.contains("aGFsZg==") && last.starts_with("event: error\n"), "{frames:?}");
}

#[tokio::test]
async fn events_have_pieces_and_the_usage_whatever_the_upstream_sends() {
    let world = world().await;
    let delta = json!({"type": "speech.audio.delta", "audio": "YWJj"});
    let usage = json!({"input_tokens": 14, "output_tokens": 101, "total_tokens": 115});
    let done = json!({"type": "speech.audio.done", "usage": usage});
    world.upstream.enqueue(Answer::sse().chunk(event(&delta)).chunk(event(&done)).end());
    world.upstream.enqueue(Answer::full(200, AUDIO, b"abc"));
    for told in [true, false] {
        let mut stream = world.client.stream(PATH, &say("acme/speak", json!({"stream_format": "sse"}))).await;
        assert!(stream.head.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")));
        let frames = stream.rest().await;
        let [first, last] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!(data(first), delta);
        let last = data(last);
        assert_eq!(
            (&last["type"], &last["usage"]["cost_usd"]),
            (&json!("speech.audio.done"), &json!(0.00015)),
            "{last}"
        );
        if told {
            assert_eq!(
                (&last["usage"]["input_tokens"], &last["usage"]["output_tokens"]),
                (&json!(14), &json!(101))
            );
        }
    }
}

#[tokio::test]
async fn tokens_of_sound_have_their_price_and_budgets_hold() {
    let model = |id: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"speech\"]\npricing = {{ {pricing} }}\n")
    };
    let extra = [
        model("acme/by-token", "official_input_per_m = 0.6, official_audio_output_per_m = 12.0"),
        "[[models]]\nid = \"acme/free-of-price\"\ncategory = [\"speech\"]\n".to_owned(),
        "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.0001\n".to_owned(),
        "[[keys]]\nname = \"strict\"\nkey = \"sk-strict\"\nbudget_usd = 1.0\nunpriced = \"refuse\"\n"
            .to_owned(),
    ];
    let world = Setup { extra: extra.concat(), routing: "retries = 0", ..Setup::default() }.start().await;
    let usage = json!({"input_tokens": 14, "output_tokens": 101, "total_tokens": 115});
    let delta = json!({"type": "speech.audio.delta", "audio": "YWJj"});
    let done = json!({"type": "speech.audio.done", "usage": usage});
    world.upstream.enqueue(Answer::sse().chunk(event(&delta)).chunk(event(&done)).end());
    let mut stream = world.client.stream(PATH, &say("acme/by-token", json!({"stream_format": "sse"}))).await;
    let frames = stream.rest().await;
    // 14 × 0.6 + 101 × 12 per million.
    let last = data(frames.last().expect("an end"));
    assert_eq!(last["usage"]["cost_usd"], json!(0.0012204), "{last}");
    // Without a report the tokens are estimated, and never free.
    world.upstream.enqueue(Answer::full(200, AUDIO, b"abc"));
    let answer = world.client.post_json(PATH, &say("acme/by-token", json!({}))).await.ok();
    let row = row_of(&world, &answer).await;
    assert!(
        row["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0) && row.get("unpriced").is_none(),
        "{row}"
    );
    // Events that break off cost as much as a file of which nobody tells the tokens.
    world.upstream.enqueue(Answer::sse().chunk(event(&delta)).close());
    let mut stream = world.client.stream(PATH, &say("acme/by-token", json!({"stream_format": "sse"}))).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    stream.rest().await;
    let torn = logged(&world.gateway.client().with_key(ADMIN), &id).await;
    let told = (&torn["status"], &torn["cost_usd"]);
    assert_eq!(told, (&json!("upstream_stream_error"), &row["cost_usd"]), "{torn}");
    let hits = world.upstream.hits();
    let poor = world.gateway.client().with_key("sk-poor");
    let refused = poor.post_json(PATH, &say("acme/speak", json!({}))).await;
    assert_error("a budget", &refused, 429, "insufficient_quota", "insufficient_quota");
    let strict = world.gateway.client().with_key("sk-strict");
    let refused = strict.post_json(PATH, &say("acme/free-of-price", json!({}))).await;
    assert_error("no price", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), hits);
    world.upstream.enqueue(Answer::full(200, AUDIO, b"abc"));
    let answer = world.client.post_json(PATH, &say("acme/free-of-price", json!({}))).await.ok();
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["unpriced"], &row["cost_usd"]), (&json!(true), &json!(null)), "{row}");
}

#[tokio::test]
async fn other_models_wrong_requests_and_wrong_answers_are_refused_and_fallbacks_speak() {
    let world = world().await;
    for model in ["acme/fast", "acme/paint", "acme/hear"] {
        let answer = world.client.post_json(PATH, &say(model, json!({}))).await;
        assert_invalid(model, &answer, "unsupported_model");
    }
    for (more, code) in [
        (json!({"input": "x".repeat(4_097)}), "string_above_max_length"),
        (json!({"voice": null}), "missing_required_parameter"),
        (json!({"response_format": "ogg"}), "invalid_value"),
        (json!({"speed": 9}), "decimal_above_max_value"),
    ] {
        let answer = world.client.post_json(PATH, &say("acme/speak", more.clone())).await;
        assert_invalid(&more.to_string(), &answer, code);
    }
    assert_eq!(world.upstream.hits(), 0);
    for answer in [
        Answer::json(200, &json!({"fine": true})),
        Answer::full(200, AUDIO, b""),
        Answer::full(200, &[("content-type", "text/html")], b"<html>"),
    ] {
        world.upstream.enqueue(answer);
        let answer = world.client.post_json(PATH, &say("acme/speak", json!({}))).await;
        assert_error("no sound", &answer, 502, "upstream_error", "upstream_invalid_response");
    }
    world.upstream.enqueue(Answer::error(500, "server_error", "down"));
    let more = json!({"routing": {"fallback": ["demo/speech"]}});
    let answer = world.client.post_json(PATH, &say("acme/speak", more)).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("demo/speech"));
    assert_eq!(answer.header("content-type"), Some("audio/wav"));
    assert!(answer.body.starts_with(b"RIFF"));
    let again = world.client.post_json(PATH, &say("demo/speech", json!({}))).await.ok();
    assert!(again.body == answer.body, "the demo says the same again");
}

#[tokio::test]
async fn a_silent_upstream_has_the_time_to_the_first_token_and_another_speaks() {
    let timeouts = "first_token_ms = 500";
    let world = Setup { timeouts, routing: "retries = 0", ..Setup::default() }.start().await;
    world.upstream.always(Answer::steps(Vec::new()).hang());
    for more in [json!({}), json!({"stream_format": "sse"})] {
        let more = with(more, json!({"routing": {"fallback": ["demo/speech"]}}));
        let answer = world.client.post_json(PATH, &say("acme/speak", more)).await.ok();
        assert_eq!(answer.header("x-gateway-model"), Some("demo/speech"));
        let row = row_of(&world, &answer).await;
        assert_eq!(row["attempts"][0]["status"], "upstream_timeout", "{row}");
    }
}

#[tokio::test]
async fn azure_is_called_at_its_deployment() {
    let azure = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"az\"\napi = \"azure\"\nbase_url = \"{}\"\napi_key = \"k\"\napi_version = \"2025-04-01-preview\"\n\
         deployments = {{ \"tts\" = \"my-voice\" }}\nallow_private_network = true\n\
         [[models]]\nid = \"az/tts\"\ncategory = [\"speech\"]\npricing = {{ official_per_character = 0.000015 }}\n",
        azure.base_url().trim_end_matches("/v1")
    );
    let world = Setup { extra, ..Setup::default() }.start().await;
    azure.enqueue(Answer::full(200, AUDIO, b"abc"));
    let answer = world.client.post_json(PATH, &say("az/tts", json!({}))).await.ok();
    assert_eq!(answer.body, b"abc");
    let sent = azure.last();
    assert_eq!(sent.path, "/openai/deployments/my-voice/audio/speech?api-version=2025-04-01-preview");
    assert_eq!(sent.json(), json!({"input": "Grüße dich", "voice": "alloy"}));
}

#[tokio::test]
async fn a_file_tells_what_its_budget_has_left() {
    let extra = "[[keys]]\nname = \"rich\"\nkey = \"sk-rich\"\nbudget_usd = 1.0\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    world.upstream.always(Answer::full(200, AUDIO, "sound"));
    let rich = world.gateway.client().with_key("sk-rich");
    for left in ["0.99985", "0.9997"] {
        let answer = rich.post_json(PATH, &say("acme/speak", json!({}))).await.ok();
        assert_eq!(answer.header("x-gateway-budget-left-usd"), Some(left));
    }
    let free = world.client.post_json(PATH, &say("acme/speak", json!({}))).await.ok();
    assert_eq!(free.header("x-gateway-budget-left-usd"), None);
}
