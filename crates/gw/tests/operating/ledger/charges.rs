//! Charges of requests that were left, cut, failed or divided, compared with the calls that the upstreams received.

use gw_store::ledger::Entry;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Signal};
use serde_json::{Value, json};

use crate::harness::dialects::{self, Say};
use crate::harness::ledger::rows;
use crate::harness::providers::{CLAUDE_ON_VERTEX, all_with, targets};
use crate::harness::{KEY, serve};

const CHAT: &str = "/v1/chat/completions";
/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;

/// Sends a request and disconnects while its upstream is silent; gives its row, or the status of an answer without any call.
async fn send_and_disconnect(
    gateway: &Gateway,
    upstream: &FakeUpstream,
    path: &'static str,
    body: Value,
    count: usize,
) -> Result<Entry, u16> {
    let (client, asked) = (gateway.client().with_key(KEY), upstream.hits());
    let asking = tokio::spawn(async move { client.post_json(path, &body).await });
    let request = tokio::select! {
        request = upstream.request(asked) => request,
        () = async { while !asking.is_finished() { tokio::task::yield_now().await } } => {
            return Err(asking.await.expect("an answer").status);
        }
    };
    asking.abort();
    request.until_closed().await;
    Ok(rows(gateway, count).await.into_iter().max_by_key(|row| row.request_id.clone()).expect("a row"))
}

/// Kinds of content that a dialect cannot express: the gateway refuses them.
pub(crate) const UNSAID: [&str; 6] =
    ["anthropic sound", "claude-on-vertex sound", "cohere pdf", "cohere sound", "ollama pdf", "ollama sound"];

/// A PNG header of an image of 1,024 by 1,024 pixels.
fn picture() -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x04\0\x08\x02\0\0\0".to_vec();
    bytes.resize(2_000, 7);
    base64(&bytes)
}

fn document() -> String {
    base64(
        ("%PDF-1.4\n".to_owned() + &"1 0 obj <</Type /Page /Parent 2 0 R>> endobj\n".repeat(100)).as_bytes(),
    )
}

/// A minute of sound at 16 kHz.
fn sound() -> String {
    let (rate, seconds) = (32_000_u32, 60);
    let mut bytes = b"RIFF\xff\xff\xff\x7fWAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0".to_vec();
    bytes.extend(rate.to_le_bytes());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend((rate * seconds).to_le_bytes());
    bytes.resize(44 + (rate * seconds) as usize, 0);
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

/// The prompt tokens that a request of [`kinds`] costs when the upstream reports no usage.
pub(crate) fn prompt_tokens(api: &str, kind: &str, text: &str) -> u64 {
    // Three bytes of text are one token, and a message's frame takes eight.
    let of_text = |bytes: usize| bytes.div_ceil(3) as u64 + 8;
    let of_words = of_text(text.len() + 1 + WORDS.len() * REPEATS);
    let of_media = match (kind, api) {
        ("text", _) => return of_words,
        ("schema", _) => return of_words + 10_994,
        // 1,024 by 1,024 pixels.
        ("image", "openai" | "azure") => 765,
        ("image", "mistral") => 1_406,
        ("image", "anthropic" | CLAUDE_ON_VERTEX | "bedrock") => 1_369,
        ("image", "gemini" | "vertex") => 1_032,
        ("image", "cohere" | "ollama") => 2_000,
        // A hundred pages.
        ("pdf", "openai" | "azure") => 300_000,
        ("pdf", "mistral") => 308_000,
        ("pdf", "anthropic" | CLAUDE_ON_VERTEX | "bedrock") => 310_000,
        ("pdf", "gemini" | "vertex") => 25_800,
        // A minute.
        ("sound", "openai" | "azure") => 601,
        ("sound", "mistral") => 781,
        ("sound", "gemini" | "vertex" | "bedrock") => 1_921,
        _ => panic!("{api} has no {kind}"),
    };
    of_media + of_text(text.len())
}

const WORDS: &str = "seven words ";
const REPEATS: usize = 1_000;

/// The kinds of content, each in a request with this text.
pub(crate) fn kinds(text: &str) -> [(&'static str, Value); 5] {
    let with = |part: Value| json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": text }, part] }] });
    let schema: Value = (0..500)
        .map(|n| (format!("property_{n}"), json!({ "type": "string", "description": "what it is about" })))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let schema = json!({ "type": "object", "properties": schema });
    let words = format!("{text} {}", WORDS.repeat(REPEATS));
    let text = json!({ "messages": [{ "role": "user", "content": words }] });
    let mut formed = text.clone();
    formed["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "it", "schema": schema } });
    let image = format!("data:image/png;base64,{}", picture());
    let file = format!("data:application/pdf;base64,{}", document());
    [
        ("text", text),
        ("schema", formed),
        ("image", with(json!({ "type": "image_url", "image_url": { "url": image } }))),
        ("pdf", with(json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": file } }))),
        (
            "sound",
            with(json!({ "type": "input_audio", "input_audio": { "data": sound(), "format": "wav" } })),
        ),
    ]
}

#[tokio::test]
async fn hanging_up_costs_what_the_upstream_was_sent() {
    let (gateway, upstreams) = all_with("").await;
    let (mut count, mut refused) = (0, Vec::new());
    for ((api, model), upstream) in targets().zip(&upstreams) {
        upstream.respond_with(|_| Answer::steps(Vec::new()).hang());
        for (kind, mut body) in kinds("See") {
            body["model"] = json!(model);
            body["max_tokens"] = json!(50);
            let row = match send_and_disconnect(&gateway, upstream, CHAT, body, count + 1).await {
                Ok(row) => row,
                Err(status) => {
                    assert_eq!(status, 400, "{api} {kind}");
                    refused.push(format!("{api} {kind}"));
                    count += 1;
                    continue;
                }
            };
            count += 1;
            assert_eq!((&*row.status, row.estimated), ("client_closed_request", true), "{api} {kind}");
            let expected = prompt_tokens(api, kind, "See");
            assert_eq!((row.tokens.prompt, row.tokens.completion), (expected, 0), "{api} {kind}");
            assert_eq!(row.cost, i128::from(expected) * TOKEN, "{api} {kind}");
        }
    }
    // Content that a dialect cannot express is sent to no upstream.
    assert_eq!(refused, UNSAID);
}

/// A gateway with an Anthropic upstream, which has no parameter for several choices, and a fallback.
async fn divided(more: &str) -> (Gateway, FakeUpstream, FakeUpstream) {
    let (claude, other) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n{more}\n\
         [[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[providers]]\nname = \"other\"\napi = \"openai\"\nbase_url = \"{}/v1\"\napi_key = \"sk-upstream-key-000\"\nembedding_batch = 4\n\
         [[models]]\nid = \"claude/tiered\"\ncategory = [\"chat\"]\nmax_output_tokens = 100\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, tiers = [{{ above_input_tokens = 150, official_input_per_m = 5.0, official_output_per_m = 10.0 }}], currency = \"USD\" }}\n\
         [[models]]\nid = \"other/plain\"\ncategory = [\"chat\"]\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n\
         [[models]]\nid = \"other/vectors\"\ncategory = [\"embedding\"]\npricing = {{ official_input_per_m = 1.0, tiers = [{{ above_input_tokens = 10, official_input_per_m = 5.0 }}], currency = \"USD\" }}\n",
        claude.base_url().trim_end_matches("/v1"),
        other.base_url().trim_end_matches("/v1"),
    );
    (serve(&config).await, claude, other)
}

fn client(gateway: &Gateway) -> Client {
    gateway.client().with_key(KEY)
}

fn of_four(stream: bool) -> Value {
    json!({ "model": "claude/tiered", "n": 4, "max_tokens": 50, "stream": stream,
            "stream_options": if stream { json!({ "include_usage": true }) } else { Value::Null },
            "messages": [{ "role": "user", "content": "Hello" }] })
}

#[tokio::test]
async fn the_calls_of_a_divided_request_have_their_own_price_tiers() {
    let (gateway, claude, other) = divided("").await;
    claude.respond_with(|request| dialects::anthropic(Say::Words, request.json()["stream"] == true));
    // Each call has 100 and 20 tokens, below the tier of 150. Their sum is above it.
    let truth = 4 * (100 + 20 * 2);
    let told = client(&gateway).post_json(CHAT, &of_four(false)).await.ok().json();
    assert_eq!(told["usage"]["prompt_tokens"], 400);
    assert_eq!(told["usage"]["cost_usd"].to_string().parse::<f64>().unwrap(), f64::from(truth) / 1e6);
    assert_eq!(told["gateway"]["attempts"][0]["cost_usd"], told["usage"]["cost_usd"]);
    let frames = client(&gateway).stream(CHAT, &of_four(true)).await.rest().await;
    let last = gw_testkit::sse::chunks(&frames).pop().expect("a usage chunk");
    assert_eq!(
        (&last["usage"]["prompt_tokens"], &last["usage"]["cost_usd"]),
        (&json!(400), &told["usage"]["cost_usd"])
    );
    other.respond_with(|request| {
        let inputs = request.json()["input"].as_array().map_or(1, Vec::len);
        let vectors: Vec<Value> = (0..inputs)
            .map(|index| json!({ "object": "embedding", "index": index, "embedding": [0.5, 0.25] }))
            .collect();
        let usage = json!({ "prompt_tokens": 8, "total_tokens": 8 });
        Answer::json(200, &json!({ "object": "list", "data": vectors, "model": "vectors", "usage": usage }))
    });
    let inputs = vec!["a word"; 32];
    let answer = client(&gateway)
        .post_json("/v1/embeddings", &json!({ "model": "other/vectors", "input": inputs }))
        .await
        .ok();
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.000064"), "eight batches of eight tokens");
    let costs: Vec<i128> = rows(&gateway, 3).await.iter().map(|row| row.cost).collect();
    assert!(costs.iter().filter(|cost| **cost == i128::from(truth) * TOKEN).count() == 2, "{costs:?}");
    assert!(costs.contains(&(64 * TOKEN)), "{costs:?}");
}

#[tokio::test]
async fn a_divided_request_that_is_left_pays_all_of_its_calls() {
    let (gateway, claude, _) = divided("").await;
    let never = Signal::new();
    claude.respond_with(move |_| Answer::steps(Vec::new()).wait(&never));
    let asking = {
        let client = client(&gateway);
        tokio::spawn(async move { client.post_json(CHAT, &of_four(false)).await })
    };
    let last = claude.request(3).await;
    asking.abort();
    last.until_closed().await;
    let row = rows(&gateway, 1).await.remove(0);
    // "Hello" is two tokens, its frame eight.
    assert_eq!((row.tokens.prompt, row.cost), (40, 40 * TOKEN), "{row:?}");
}

#[tokio::test]
async fn what_failed_and_is_billed_is_in_the_row_and_not_in_the_answer() {
    let (gateway, claude, other) = divided("").await;
    let broken = |body: &Value| {
        let whole = body.to_string();
        Answer::full(200, &[("content-type", "application/json")], &whole[..whole.len() / 2])
    };
    let message = json!({ "id": "m", "type": "message", "role": "assistant", "model": "up", "stop_reason": "end_turn",
                          "content": [{ "type": "text", "text": "hi" }], "usage": { "input_tokens": 100, "output_tokens": 20 } });
    // A refused call is free; a call whose answer is cut is charged.
    for (answer, failed) in [(Answer::error(529, "x", "busy"), 0), (broken(&message), 10)] {
        claude.always(answer);
        other.always(Answer::json(200, &gw_testkit::upstream::chat_body("plain", "hi")));
        let body = json!({ "model": "claude/tiered", "messages": [{ "role": "user", "content": "Hello" }],
                           "routing": { "fallback": ["other/plain"] } });
        let told = client(&gateway).post_json(CHAT, &body).await.ok().json();
        // 10 and 5 tokens at the model that served.
        assert_eq!(told["usage"]["cost_usd"].to_string().parse::<f64>().unwrap(), 0.00002, "{told}");
        let id = told["gateway"]["request_id"].as_str().expect("an id").to_owned();
        let mut count = 1;
        let row = loop {
            let found = rows(&gateway, count).await;
            match found.iter().find(|row| *row.request_id == *id) {
                Some(row) => break row.clone(),
                None => count = found.len() + 1,
            }
        };
        let costs: Vec<i128> = row.attempts.iter().filter_map(|attempt| attempt.cost).collect();
        assert_eq!(costs, [failed * TOKEN, 20 * TOKEN], "{row:?}");
        assert_eq!(row.cost, (20 + failed) * TOKEN, "{row:?}");
        let attempts = &told["gateway"]["attempts"];
        assert_eq!(attempts[1]["cost_usd"], told["usage"]["cost_usd"], "{attempts}");
    }
}

#[tokio::test]
async fn many_prompts_are_set_aside_once_each() {
    let (gateway, claude, _) = divided("tpm = 20000\n").await;
    claude.respond_with(|_| dialects::anthropic(Say::Words, false));
    let prompts = vec!["x".repeat(100); 64];
    let body = json!({ "model": "claude/tiered", "prompt": prompts, "max_tokens": 16 });
    let answer = client(&gateway).post_json("/v1/completions", &body).await.ok();
    assert_eq!(answer.json()["choices"].as_array().map(Vec::len), Some(64));
}

#[tokio::test]
async fn a_total_alone_is_divided_and_nothing_is_added_to_it() {
    let world = crate::harness::world().await;
    // The estimates are 10 tokens of the prompt and 50 of the answer.
    let text = "four words of text, again and again. ".repeat(4);
    // The model writes at most 16,384 tokens.
    for (total, prompt, completion) in [(100, 10, 90), (60, 10, 50), (40, 7, 33), (20_000, 3_616, 16_384)] {
        let mut body = gw_testkit::upstream::chat_body("m", &text);
        body["usage"] = json!({ "total_tokens": total });
        world.upstream.enqueue(Answer::json(200, &body));
        let told = world.chat_ok(&crate::harness::chat("acme/fast")).await;
        let counts = ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| &told["usage"][name]);
        assert_eq!(counts, [&json!(prompt), &json!(completion), &json!(total)], "{told}");
        assert!(!told["gateway"]["warnings"].to_string().contains("usage_not_believed"), "{told}");
    }
    assert!(rows(&world.gateway, 4).await.iter().all(|row| row.estimated));
}

#[tokio::test]
async fn usage_that_cannot_be_is_not_believed() {
    let world = crate::harness::world().await;
    let text = "four words of text, again and again. ".repeat(4);
    for (usage, prompt, completion) in [
        (json!({ "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 }), 10, 50),
        (json!({ "prompt_tokens": 1e30, "completion_tokens": 1e30, "total_tokens": 1e30 }), 128_000, 16_384),
        (
            json!({ "prompt_tokens": 4_000_000_000_u64, "completion_tokens": 7, "total_tokens": 1 }),
            128_000,
            7,
        ),
    ] {
        let mut body = gw_testkit::upstream::chat_body("m", &text);
        body["usage"] = usage.clone();
        world.upstream.enqueue(Answer::json(200, &body));
        let told = world.chat_ok(&crate::harness::chat("acme/fast")).await;
        assert_eq!(
            (&told["usage"]["prompt_tokens"], &told["usage"]["completion_tokens"]),
            (&json!(prompt), &json!(completion)),
            "{usage}"
        );
        let row = rows(&world.gateway, 1)
            .await
            .into_iter()
            .max_by_key(|row| row.request_id.clone())
            .expect("a row");
        assert!(row.estimated, "{usage}: {row:?}");
        let shown = told["gateway"]["warnings"].to_string().contains("usage_not_believed");
        assert_eq!(shown, usage["prompt_tokens"] != json!(0), "{usage}: {told}");
    }
}

#[tokio::test]
async fn u24_usage_of_the_calls_inside_a_hosted_tool_is_believed() {
    let acme = "responses = true\nallow_members = [\"tools\"]".to_owned();
    let world = crate::harness::Setup { acme, ..Default::default() }.start().await;
    let ask = json!({ "model": "acme/fast", "input": "Hello", "tools": [{ "type": "web_search" }] });
    let alone = json!({ "model": "acme/fast", "input": "Hello" });
    // A context has 128,000 tokens, and 256 calls are believed. A count up to 16 Mi is believed of every model, because it is billed.
    let cases = [
        (&ask, 1_000_000_u64, 1_000_000_u64, true),
        (&ask, 4_000_000_000, 256 * 128_000, false),
        (&alone, 1_000_000, 1_000_000, true),
        (&alone, 4_000_000_000, 128_000, false),
    ];
    for (count, (body, reported, prompt, is_believed)) in (1..).zip(cases) {
        world.upstream.enqueue(Answer::json(200, &json!({
            "id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "m", "error": null,
            "incomplete_details": null, "output": [{ "type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": "Hi", "annotations": [], "logprobs": [] }] }],
            "usage": { "input_tokens": reported, "output_tokens": 2, "total_tokens": reported + 2 } })));
        let answer = world.client.post_json("/v1/responses", body).await.ok().json();
        let shown = answer["gateway"]["warnings"].to_string().contains("usage_not_believed");
        assert_eq!(shown, !is_believed, "{answer}");
        let newest = rows(&world.gateway, count).await.into_iter().max_by_key(|row| row.request_id.clone());
        let row = newest.expect("a row");
        assert_eq!((row.tokens.prompt, row.estimated), (prompt, !is_believed), "{row:?}");
        // 0.15 and 0.60 USD per million.
        assert_eq!(row.cost, (i128::from(prompt) * 15 + 2 * 60) * TOKEN / 100, "{row:?}");
    }
}
