//! Every ending of a request × the surfaces beside chats: images, speech, transcripts, rerank, Gemini's URLs and pass-through. Each has
//! one status and one amount, and afterwards the budget has spent the sum of the rows and holds nothing back.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gw_store::ledger::Entry;
use gw_testkit::upstream::Recorded;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, PIXEL};
use serde_json::{Value, json};

use crate::harness::forms::{FORM, form, wav};
use crate::harness::ledger::rows_in;
use crate::harness::{KEY, binary, with};
use crate::ledger::grouped_sums;

/// The endings, by the first word of a text in the request. All words have one length, so that the texts cost the same.
const DONE: &str = "done";
const LEFT: &str = "left";
const TORN: &str = "torn";
const REFUSED: &str = "deny";
/// The upstream tells an error inside its stream, or as a document.
const TOLD: &str = "fail";
const SHUT_DOWN: &str = "stop";
const KILLED: &str = "kill";

/// A millionth of a USD.
const MICRO: i128 = 1_000_000_000;
const JSON: &str = "application/json";

/// One request of the table. The amounts are in millionths of a USD.
struct Case {
    name: &'static str,
    path: &'static str,
    body: Body,
    streams: bool,
    done: i128,
    /// The upstream has the request, and has told nothing.
    silent: i128,
    /// The answer had begun.
    begun: i128,
    /// The statuses of an answer that is torn, and of one that tells an error, with the amount of the latter.
    torn: &'static str,
    told: Option<(&'static str, i128)>,
}

/// The body of a request. `WORD` stands for the ending.
enum Body {
    Json(Value),
    /// A recording of 2.5 seconds with these fields.
    Recording(&'static [(&'static str, &'static str)]),
    /// A picture that is edited, with these fields.
    Picture(&'static [(&'static str, &'static str)]),
}

const BROKEN: &str = "upstream_stream_error";
const INVALID: &str = "upstream_invalid_response";
const FAILED: &str = "upstream_error";

fn case(
    name: &'static str,
    path: &'static str,
    body: Body,
    streams: bool,
    [done, silent, begun]: [i128; 3],
    torn: &'static str,
    told: Option<(&'static str, i128)>,
) -> Case {
    Case { name, path, body, streams, done, silent, begun, torn, told }
}

fn image_cases() -> Vec<Case> {
    // The prompt of an image is five tokens of text and eight around it. An image that did not come costs nothing,
    // unless each image has a price.
    let image =
        |more: Value| Body::Json(with(json!({"model": "acme/image", "prompt": "WORD question"}), more));
    let each = |more: Value| image(with(json!({"model": "acme/each"}), more));
    let streamed = || json!({"stream": true});
    const PICTURES: &str = "/v1/images/generations";
    const EDIT: &str = "/v1/images/edits";
    const PAINTED: Body = Body::Picture(&[("model", "acme/paint")]);
    vec![
        case("image", PICTURES, image(json!({})), false, [4_050, 65, 65], INVALID, Some((FAILED, 0))),
        // A partial image is 100 tokens.
        case(
            "image stream",
            PICTURES,
            image(streamed()),
            true,
            [4_050, 65, 4_065],
            BROKEN,
            Some((BROKEN, 4_065)),
        ),
        case("priced image", PICTURES, each(json!({})), false, [40_000; 3], INVALID, Some((FAILED, 0))),
        case(
            "priced image stream",
            PICTURES,
            each(streamed()),
            true,
            [40_000; 3],
            BROKEN,
            Some((BROKEN, 40_000)),
        ),
        // The picture that is edited is 1,024 tokens.
        case("edit", EDIT, Body::Picture(&[]), false, [4_050, 5_185, 5_185], INVALID, Some((FAILED, 0))),
        // The picture has a price of its own.
        case("painted", EDIT, PAINTED, false, [4_050, 10_305, 10_305], INVALID, Some((FAILED, 0))),
        case(
            "edit stream",
            EDIT,
            Body::Picture(&[("stream", "true")]),
            true,
            [4_050, 5_185, 9_185],
            BROKEN,
            Some((BROKEN, 9_185)),
        ),
    ]
}

fn cases() -> Vec<Case> {
    let text = "WORD question";
    let say = |more: Value| {
        Body::Json(with(json!({"model": "acme/speech", "input": text, "voice": "alloy"}), more))
    };
    let chat = |more: Value| {
        let messages = json!([{"role": "user", "content": text}]);
        Body::Json(with(json!({"model": "up", "messages": messages, "max_tokens": 50}), more))
    };
    let contents = || {
        Body::Json(
            json!({"contents": [{"role": "user", "parts": [{"text": text}]}], "generationConfig": {"maxOutputTokens": 50}}),
        )
    };
    let streamed = || json!({"stream": true});
    const TRANSLATE: &str = "/v1/audio/translations";
    const SPEAK: &str = "/v1/audio/speech";
    const HEAR: &str = "/v1/audio/transcriptions";
    const PASS: &str = "/pass/chat/completions";
    const HEARD_WHOLE: Body = Body::Recording(&[("model", "acme/heard")]);
    const HEARD_STREAM: Body = Body::Recording(&[("model", "acme/heard"), ("stream", "true")]);
    let others = vec![
        case("speech", SPEAK, say(json!({})), true, [195, 195, 195], BROKEN, None),
        case(
            "speech events",
            SPEAK,
            say(json!({"stream_format": "sse"})),
            true,
            [195; 3],
            BROKEN,
            Some((BROKEN, 195)),
        ),
        case("recording", HEAR, Body::Recording(&[]), false, [250; 3], INVALID, Some((FAILED, 0))),
        case(
            "recording stream",
            HEAR,
            Body::Recording(&[("stream", "true")]),
            true,
            [250; 3],
            BROKEN,
            Some((BROKEN, 250)),
        ),
        // 30 tokens of sound at their own price, five of the prompt, and those of the text.
        case("heard", HEAR, HEARD_WHOLE, false, [190, 185, 185], INVALID, Some((FAILED, 0))),
        case("heard stream", HEAR, HEARD_STREAM, true, [185, 185, 190], BROKEN, Some((BROKEN, 190))),
        case("translation", TRANSLATE, Body::Recording(&[]), false, [250; 3], INVALID, Some((FAILED, 0))),
        case(
            "rerank",
            "/v1/rerank",
            Body::Json(json!({"model": "acme/rerank", "query": text, "documents": ["a", "b"]})),
            false,
            [2_000; 3],
            INVALID,
            Some((FAILED, 0)),
        ),
        case(
            "gemini",
            "/v1beta/models/acme%2Fchat:generateContent",
            contents(),
            false,
            [120, 13, 13],
            INVALID,
            Some((FAILED, 0)),
        ),
        case(
            "gemini stream",
            "/v1beta/models/acme%2Fchat:streamGenerateContent?alt=sse",
            contents(),
            true,
            [120, 13, 17],
            BROKEN,
            Some((BROKEN, 17)),
        ),
        case("pass", PASS, chat(json!({})), false, [120, 29, 29], BROKEN, None),
        case("pass stream", PASS, chat(streamed()), true, [120, 33, 37], BROKEN, None),
        case("fee", "/fee/x", chat(json!({})), false, [500; 3], BROKEN, None),
    ];
    image_cases().into_iter().chain(others).collect()
}

impl Case {
    /// The media type and the bytes of the request with this ending.
    fn request(&self, ending: &str) -> (&'static str, Vec<u8>) {
        match &self.body {
            Body::Json(body) => (JSON, body.to_string().replace("WORD", ending).into_bytes()),
            Body::Recording(fields) => {
                let (sound, prompt) = (wav(2_500), format!("{ending} question"));
                let mut parts: Vec<(&str, Option<&str>, &[u8])> = vec![("prompt", None, prompt.as_bytes())];
                if !fields.iter().any(|(name, _)| *name == "model") {
                    parts.push(("model", None, b"acme/hear"));
                }
                parts.extend(fields.iter().map(|(name, text)| (*name, None, text.as_bytes())));
                parts.push(("file", Some("a.wav"), &sound));
                (FORM, form(&parts))
            }
            Body::Picture(fields) => {
                let prompt = format!("{ending} question");
                let picture = BASE64_STANDARD.decode(PIXEL).expect("a picture");
                let mut parts: Vec<(&str, Option<&str>, &[u8])> = vec![("prompt", None, prompt.as_bytes())];
                if !fields.iter().any(|(name, _)| *name == "model") {
                    parts.push(("model", None, b"acme/image"));
                }
                parts.extend(fields.iter().map(|(name, text)| (*name, None, text.as_bytes())));
                parts.push(("image", Some("a.png"), &picture));
                (FORM, form(&parts))
            }
        }
    }

    fn user(&self, ending: &str) -> String {
        format!("{}: {ending}", self.name)
    }

    fn client(&self, gateway: &Gateway, ending: &str) -> Client {
        let client = gateway.client().with_key(KEY).with_header("x-gateway-user", &self.user(ending));
        let client = client.with_header("x-gateway-tags", &format!("ending:{ending}, kind:{}", self.name));
        let repository = if self.streams { "acme/shop" } else { "acme/tools" };
        client.with_header("x-gateway-repository", repository).with_header("x-gateway-branch", ending)
    }
}

fn event(data: &Value) -> Vec<u8> {
    let name = data["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n").into_bytes()
}

/// The head of an answer, its pieces, and whether they are sound.
fn script(request: &Recorded) -> (Answer, Vec<Vec<u8>>) {
    let text = String::from_utf8_lossy(&request.body);
    let json =
        |body: Value| (Answer::full(200, &[("content-type", JSON)], ""), vec![body.to_string().into_bytes()]);
    let events = |events: &[Value]| (Answer::sse(), events.iter().map(event).collect());
    let streams = text.contains("\"stream\":true") || text.contains("name=\"stream\"\r\n\r\ntrue");
    match request.path.as_str() {
        "/v1/images/generations" | "/v1/images/edits" => {
            let usage = json!({"input_tokens": 10, "output_tokens": 100, "total_tokens": 110});
            let is_edit = request.path.ends_with("edits");
            if !streams {
                return json(json!({"created": 1, "data": [{"b64_json": PIXEL}], "usage": usage}));
            }
            let event = |kind: &str, more: Value| {
                let kind =
                    if is_edit { format!("image_edit.{kind}") } else { format!("image_generation.{kind}") };
                with(json!({"type": kind, "b64_json": PIXEL}), more)
            };
            events(&[
                event("partial_image", json!({"partial_image_index": 0})),
                event("completed", json!({"usage": usage})),
            ])
        }
        "/v1/audio/speech" if text.contains("\"sse\"") => {
            let delta = || json!({"type": "speech.audio.delta", "audio": "YWJj"});
            events(&[delta(), delta(), json!({"type": "speech.audio.done"})])
        }
        "/v1/audio/speech" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntransfer-encoding: chunked\r\n\r\n";
            (Answer::raw(head), vec![b"abc".to_vec(), b"def".to_vec()])
        }
        "/v1/audio/transcriptions" if streams => events(&[
            json!({"type": "transcript.text.delta", "delta": "Hi "}),
            json!({"type": "transcript.text.done", "text": "Hi all"}),
        ]),
        "/v1/audio/transcriptions" | "/v1/audio/translations" => json(json!({"text": "Hi all"})),
        "/v1/rerank" => json(json!({"results": [{"index": 0, "relevance_score": 0.5}]})),
        _ => {
            let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
            let choice = |part: &str, content: Value, finish: Value| json!([{"index": 0, part: {"role": "assistant", "content": content}, "finish_reason": finish}]);
            if !streams {
                return json(
                    json!({"id": "x", "choices": choice("message", json!("Hi all"), json!("stop")), "usage": usage}),
                );
            }
            let (head, mut pieces) = events(&[
                json!({"id": "x", "choices": choice("delta", json!("Hi all"), Value::Null)}),
                json!({"id": "x", "choices": choice("delta", json!(""), json!("stop"))}),
                json!({"id": "x", "choices": [], "usage": usage}),
            ]);
            pieces.push(b"data: [DONE]\n\n".to_vec());
            (head, pieces)
        }
    }
}

/// Answers by the first word of the text.
fn answer(request: &Recorded) -> Answer {
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let says = |ending: &str| text.contains(&format!("{ending} question"));
    if says(REFUSED) {
        return Answer::error(500, "x", "down");
    }
    let (head, pieces) = script(request);
    let [whole] = &pieces[..] else {
        return match () {
            () if says(DONE) => head.chunk(pieces.concat()).end(),
            () if says(TORN) => head.chunk(&pieces[0]).reset(),
            () if says(TOLD) => head
                .chunk(&pieces[0])
                .chunk(event(&json!({"type": "error", "error": {"message": "x", "type": "server_error"}})))
                .hang(),
            () => head.chunk(&pieces[0]).hang(),
        };
    };
    match () {
        () if says(DONE) => Answer::full(200, &[("content-type", JSON)], whole),
        () if says(TORN) => {
            Answer::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
                .close()
        }
        () if says(TOLD) => Answer::json(200, &json!({"error": {"message": "x", "type": "server_error"}})),
        () => Answer::steps(Vec::new()).hang(),
    }
}

fn config(upstream: &FakeUpstream) -> String {
    let base = upstream.base_url();
    let model = |name: &str, category: &str, pricing: &str| {
        format!(
            "[[models]]\nid = \"acme/{name}\"\nupstream_model = \"up\"\ncategory = [\"{category}\"]\npricing = {{ {pricing} }}\n"
        )
    };
    [
        "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 0\ndrain_seconds = 1\n[store]\nprogress_tokens = 1\n\
         [routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n"
            .to_owned(),
        format!("[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\ntrust_attribution = true\nbudget_usd = 1000.0\n"),
        format!("[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"{base}\"\napi_key = \"sk-upstream-key-000\"\n"),
        model("image", "image", "official_input_per_m = 5.0, official_image_output_per_m = 40.0"),
        model(
            "paint",
            "image",
            "official_input_per_m = 5.0, official_image_input_per_m = 10.0, official_image_output_per_m = 40.0",
        ),
        model("each", "image", "official_per_image = 0.04"),
        model("speech", "speech", "official_per_character = 0.000015"),
        model("hear", "transcription", "official_per_second = 0.0001"),
        model(
            "heard",
            "transcription",
            "official_input_per_m = 1.0, official_audio_input_per_m = 6.0, official_output_per_m = 5.0",
        ),
        model("rerank", "rerank", "official_per_search_unit = 0.002"),
        model("chat", "chat", "official_input_per_m = 1.0, official_output_per_m = 2.0"),
        "[[passthrough]]\npath = \"/pass\"\nprovider = \"acme\"\nusage = \"openai\"\n\
         pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0 }\n\
         [[passthrough]]\npath = \"/fee\"\nprovider = \"acme\"\ncost_per_request = 0.0005\n"
            .to_owned(),
        grouped_sums::section(),
    ]
    .concat()
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// Sends all requests until their upstreams are silent: each streamed answer has begun. The clients wait.
async fn begin_all(
    gateway: &Gateway,
    upstream: &FakeUpstream,
    ending: &'static str,
    count: &mut usize,
) -> Vec<RawClient> {
    let mut under_way = Vec::new();
    for case in cases() {
        let (media, body) = case.request(ending);
        *count += 1;
        let mut wire = case.client(gateway, ending).open("POST", case.path, Some(media), Some(&body)).await;
        if case.streams {
            let head = wire.head().await.expect("a head");
            wire.expect_body(&head, false);
            wire.body_chunk().await.expect("a piece").expect("a piece");
        }
        under_way.push(wire);
    }
    gw_testkit::eventually("every call is made", || (upstream.hits() >= *count).then_some(())).await;
    under_way
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ending_of_a_surface_has_one_amount_and_frees_its_reservation() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(answer);
    let config = config(&upstream);
    let mut gateway = start(&config, data.path()).await;
    let mut count = 0;
    for ending in [DONE, TORN, REFUSED, TOLD] {
        for case in cases() {
            if ending == TOLD && case.told.is_none() {
                continue;
            }
            let (media, body) = case.request(ending);
            count += 1;
            let client = case.client(&gateway, ending);
            let answer = client.send("POST", case.path, Some(media), Some(&body)).await;
            let is_whole = answer.status == 200 && !answer.broken;
            assert!(is_whole || ending != DONE, "{}: {} {}", case.name, answer.status, answer.text());
        }
    }
    let store = data.path().join("gateway.db");
    let under_way = begin_all(&gateway, &upstream, LEFT, &mut count).await;
    drop(under_way);
    rows_in(&store, count).await;
    assert_settled(&gateway, &store, count).await;
    let under_way = begin_all(&gateway, &upstream, SHUT_DOWN, &mut count).await;
    gateway.sigterm();
    gateway.ended().await;
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let under_way = begin_all(&gateway, &upstream, KILLED, &mut count).await;
    let _ = gateway.stop();
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let rows = rows_in(&store, count).await;
    assert_eq!((rows.len(), upstream.hits()), (count, count), "one row for each call");
    assert_settled(&gateway, &store, count).await;
    let user_of =
        |row: &Entry| row.attribution.as_ref().and_then(|names| names.end_user.clone()).expect("a user");
    let rows = rows.into_iter().map(|row| (user_of(&row).into_string(), row)).collect();
    assert_amounts(&rows);
}

/// The budget, every rule and every report have the sum of the rows, and nothing is reserved.
async fn assert_settled(gateway: &Gateway, store: &Path, count: usize) {
    let rows = rows_in(store, count).await;
    grouped_sums::assert_agreement(gateway, &rows).await;
    let sum: i128 = rows.iter().map(|row| row.cost).sum();
    let me = gateway.client().with_key(KEY).get("/v1/me").await.ok().json();
    let budget = me.to_string();
    let spent = format!("\"spent_usd\":{}", digits_of(sum));
    assert!(budget.contains(&spent) && budget.contains("\"reserved_usd\":0,"), "{spent}: {budget}");
}

/// An amount as its digits.
fn digits_of(femtos: i128) -> String {
    let digits = format!("{femtos:015}");
    let (whole, part) = digits.split_at(digits.len() - 15);
    let part = part.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
}

/// Checks the amount and the status of each ending.
fn assert_amounts(rows: &BTreeMap<String, Entry>) {
    let mut wrong = Vec::new();
    for case in cases() {
        let begun = if case.streams { case.begun } else { case.silent };
        let expected = [
            (DONE, case.done, "ok"),
            (TORN, begun, case.torn),
            (REFUSED, 0, FAILED),
            (LEFT, begun, "client_closed_request"),
            (SHUT_DOWN, begun, "gateway_shutdown"),
            (KILLED, begun, "interrupted"),
        ];
        let told = case.told.map(|(status, amount)| (TOLD, amount, status));
        for (ending, amount, status) in expected.into_iter().chain(told) {
            let user = case.user(ending);
            let row = &rows[&user];
            if (&*row.status, row.cost, row.unpriced) != (status, amount * MICRO, false) {
                wrong.push(format!(
                    "{user}: {status} {amount}, not {} {} {}\n",
                    row.status,
                    row.cost / MICRO,
                    row.unpriced
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
