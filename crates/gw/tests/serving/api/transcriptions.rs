//! Transcripts and translations: forms, formats, prices by the second and by tokens, streams, Voxtral, and every fault of a form.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::forms::{FORM, form, post_form, recording, wav};
use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, logged, world};

const PATH: &str = "/v1/audio/transcriptions";
const TRANSLATE: &str = "/v1/audio/translations";

async fn row_of(world: &World, answer: &gw_testkit::Response) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    logged(&admin, answer.header("x-request-id").expect("an id")).await
}

async fn hear(world: &World, fields: &[(&str, &str)]) -> gw_testkit::Response {
    let fields: Vec<_> = std::iter::once(("model", "acme/hear")).chain(fields.iter().copied()).collect();
    post_form(&world.client, PATH, &recording(&fields)).await
}

/// The data of the frames of a stream.
async fn events(world: &World, path: &str, body: &[u8]) -> Vec<Value> {
    let answer = post_form(&world.client, path, body).await;
    assert!(
        answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")),
        "{answer:?}"
    );
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[tokio::test]
async fn a_form_goes_upstream_anew_and_the_file_tells_the_seconds() {
    let world = world().await;
    world.upstream.enqueue(Answer::json(200, &json!({"text": "Hello you", "secret": 1})));
    let more =
        [("language", "en"), ("temperature", "0.5"), ("user", "ann"), ("seed", "7"), ("prompt", "names")];
    let answer = hear(&world, &more).await.ok();
    let usage = json!({"type": "duration", "seconds": 2.5, "cost_usd": 0.00025});
    assert_eq!(answer.json(), json!({"text": "Hello you", "usage": usage}));
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.00025"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let sent = world.upstream.last();
    assert_eq!(sent.path, PATH);
    assert!(
        sent.header("content-type").is_some_and(|kind| kind.starts_with("multipart/form-data; boundary="))
    );
    assert_eq!(sent.header("content-length"), Some(&*sent.body.len().to_string()));
    let text = String::from_utf8_lossy(&sent.body);
    for part in [
        "name=\"model\"\r\n\r\nhear\r\n",
        "name=\"language\"\r\n\r\nen\r\n",
        "name=\"temperature\"\r\n\r\n0.5\r\n",
        "name=\"prompt\"\r\n\r\nnames\r\n",
        "name=\"file\"; filename=\"a.wav\"\r\ncontent-type: audio/wav\r\n\r\nRIFF",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("ann") && !text.contains("seed"), "{text}");
    let row = row_of(&world, &answer).await;
    assert_eq!(
        (&row["surface"], &row["operation"]),
        (&json!("transcriptions"), &json!("transcription")),
        "{row}"
    );
    assert_eq!((&row["units"], &row["cost_usd"]), (&json!({"second": 2.5}), &json!(0.00025)), "{row}");
    assert_eq!(row["user"], json!("ann"), "{row}");
}

#[tokio::test]
async fn the_upstream_s_seconds_and_tokens_stand_before_the_file_s() {
    let extra = "[[models]]\nid = \"acme/by-token\"\ncategory = [\"transcription\"]\n\
        pricing = { official_input_per_m = 2.5, official_audio_input_per_m = 6.0, official_output_per_m = 10.0 }\n";
    let world = Setup { extra: extra.to_owned(), ..Setup::default() }.start().await;
    for (answer, seconds) in [
        (json!({"text": "x", "usage": {"type": "duration", "seconds": 3}}), json!(3)),
        (json!({"task": "transcribe", "duration": 4.25, "text": "x", "segments": []}), json!(4.25)),
    ] {
        world.upstream.enqueue(Answer::json(200, &answer));
        let told = hear(&world, &[("response_format", "verbose_json")]).await.ok();
        assert_eq!(told.json()["usage"]["seconds"], seconds, "{}", told.text());
        assert_eq!(row_of(&world, &told).await["units"], json!({"second": seconds}));
    }
    let usage = json!({
        "type": "tokens", "input_tokens": 24, "output_tokens": 45, "total_tokens": 69,
        "input_token_details": {"text_tokens": 10, "audio_tokens": 14}
    });
    world.upstream.enqueue(Answer::json(200, &json!({"text": "x", "usage": usage})));
    let told = post_form(&world.client, PATH, &recording(&[("model", "acme/by-token")])).await.ok();
    let mut expected = usage.clone();
    // 10 × 2.5 + 14 × 6 + 45 × 10 per million.
    expected["cost_usd"] = json!(0.000559);
    assert_eq!(told.json()["usage"], expected);
    let row = row_of(&world, &told).await;
    assert_eq!((&row["cost_usd"], &row["prompt_tokens"]), (&json!(0.000559), &json!(24)), "{row}");
}

#[tokio::test]
async fn texts_and_subtitles_pass_as_they_are() {
    let world = world().await;
    for (format, body, media) in [
        ("text", "Hello\n", "text/plain; charset=utf-8"),
        ("srt", "1\n00:00:00,000 --> 00:00:01,000\nHello\n\n", "text/plain; charset=utf-8"),
        ("vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\nHello\n", "text/vtt; charset=utf-8"),
    ] {
        world.upstream.enqueue(Answer::full(200, &[("content-type", "text/plain")], body));
        let answer = hear(&world, &[("response_format", format)]).await.ok();
        assert_eq!((answer.text().as_str(), answer.header("content-type")), (body, Some(media)), "{format}");
        assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.00025"));
    }
}

#[tokio::test]
async fn a_stream_has_deltas_and_the_whole_text_or_ends_with_an_error() {
    let world = world().await;
    let event = |data: &Value| format!("data: {data}\n\n");
    let delta = json!({"type": "transcript.text.delta", "delta": "Hello", "secret": 1});
    let done =
        json!({"type": "transcript.text.done", "text": "Hello", "usage": {"type": "duration", "seconds": 3}});
    world.upstream.enqueue(Answer::sse().chunk(event(&delta)).chunk(event(&done)).end());
    let body = recording(&[("model", "acme/hear"), ("stream", "true")]);
    let told = events(&world, PATH, &body).await;
    // The events of OpenAI's packages have tokens alone, which are estimated here.
    let usage = json!({
        "type": "tokens", "seconds": 3, "input_tokens": 30, "output_tokens": 2, "total_tokens": 32, "cost_usd": 0.0003,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 30}
    });
    let expected = json!([
        {"type": "transcript.text.delta", "delta": "Hello"},
        {"type": "transcript.text.done", "text": "Hello", "usage": usage}
    ]);
    assert_eq!(json!(told), expected);
    assert!(String::from_utf8_lossy(&world.upstream.last().body).contains("name=\"stream\"\r\n\r\ntrue"));
    for broken in [
        Answer::sse().chunk(event(&delta)).close(),
        Answer::sse().chunk(event(&delta)).end(),
        Answer::sse()
            .chunk(event(&delta))
            .chunk(event(&json!({"type": "error", "error": {"message": "no"}})))
            .end(),
    ] {
        world.upstream.enqueue(broken);
        let told = events(&world, PATH, &body).await;
        let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().expect("a type")).collect();
        assert_eq!(kinds, ["transcript.text.delta", "error"], "{told:?}");
    }
    // An upstream that ignores `stream` answers with a document.
    world.upstream.enqueue(Answer::json(200, &json!({"text": "Hello"})));
    let told = events(&world, PATH, &body).await;
    assert_eq!(told.last().expect("an end")["usage"]["seconds"], json!(2.5), "{told:?}");
}

#[tokio::test]
async fn translations_have_their_url_and_surface() {
    let world = world().await;
    world.upstream.enqueue(Answer::json(200, &json!({"text": "Hello"})));
    let answer = post_form(&world.client, TRANSLATE, &recording(&[("model", "acme/hear")])).await.ok();
    assert_eq!(answer.json()["text"], json!("Hello"));
    assert_eq!(world.upstream.last().path, TRANSLATE);
    assert_eq!(row_of(&world, &answer).await["surface"], json!("translations"));
    let refused =
        post_form(&world.client, TRANSLATE, &recording(&[("model", "acme/hear"), ("stream", "true")])).await;
    assert_invalid("a stream", &refused, "unsupported_value");
}

#[tokio::test]
async fn forms_are_checked_before_anything_is_sent() {
    let world = world().await;
    for (label, body, code) in [
        ("no file", form(&[("model", None, b"acme/hear")]), "missing_required_parameter"),
        ("no model", form(&[("file", Some("a.wav"), &wav(10))]), "missing_required_parameter"),
        (
            "an empty file",
            form(&[("model", None, b"acme/hear"), ("file", Some("a.wav"), b"")]),
            "invalid_value",
        ),
        ("other routing", recording(&[("model", "acme/hear"), ("routing", "{")]), "invalid_json"),
        ("routing of another kind", recording(&[("model", "acme/hear"), ("routing", "7")]), "invalid_type"),
        ("a chat model", recording(&[("model", "acme/fast")]), "unsupported_model"),
        ("a speech model", recording(&[("model", "acme/speak")]), "unsupported_model"),
        ("a format", recording(&[("model", "acme/hear"), ("response_format", "pdf")]), "invalid_value"),
        ("twice", recording(&[("model", "acme/hear"), ("model", "acme/hear")]), "invalid_value"),
        ("no boolean", recording(&[("model", "acme/hear"), ("stream", "maybe")]), "invalid_type"),
    ] {
        let refused = post_form(&world.client, PATH, &body).await;
        assert_invalid(label, &refused, code);
        assert_eq!(row_of(&world, &refused).await["surface"], "transcriptions", "{label}");
    }
    let many: Vec<(String, String)> = (0..1_001).map(|at| (format!("f{at}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let unended =
        [b"--b0undary\r\ncontent-disposition: form-data; name=\"".as_slice(), &vec![b'x'; 3 << 20]].concat();
    for (label, body) in
        [("fields", recording(&many)), ("a head", unended), ("no form", b"--b0undary\r\nx".to_vec())]
    {
        let refused = post_form(&world.client, PATH, &body).await;
        assert_eq!(refused.status, 400, "{label}: {}", refused.text());
        let row = row_of(&world, &refused).await;
        let found = json!([row["surface"], row["status"]]);
        assert_eq!(found, json!(["transcriptions", "invalid_request"]), "{label}: {row}");
    }
    let json = world.client.post_json(PATH, &json!({"model": "acme/hear"})).await;
    assert_error("JSON", &json, 415, "invalid_request_error", "unsupported_media_type");
    let unknown = post_form(&world.client, PATH, &recording(&[("model", "nobody/x")])).await;
    assert_error("unknown", &unknown, 404, "invalid_request_error", "model_not_found");
    let stranger = world.client.with_key("sk-wrong");
    assert_eq!(post_form(&stranger, PATH, &recording(&[("model", "acme/hear")])).await.status, 401);
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn sizes_are_bounded_before_and_while_a_form_comes_and_large_files_pass() {
    let server = "body_limit_mib = 1\nupload_limit_mib = 4\n";
    let world = Setup { server, ..Setup::default() }.start().await;
    let head = world.client.head("POST", PATH, Some(FORM), Some(5 << 20));
    let mut wire = gw_testkit::wire::RawClient::connect(world.client.addr).await;
    wire.send(head).await;
    let answer = wire.response().await.expect("an answer");
    assert_error("before the body", &answer, 413, "invalid_request_error", "request_too_large");
    let large = vec![7; 3 << 20];
    let body = form(&[("file", Some("a.bin"), &large), ("model", None, b"acme/hear")]);
    world
        .upstream
        .enqueue(Answer::json(200, &json!({"text": "x", "usage": {"type": "duration", "seconds": 9}})));
    let answer = post_form(&world.client, PATH, &body).await.ok();
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.0009"));
    let sent = world.upstream.last();
    assert!(sent.body.windows(1 << 20).any(|part| part == &large[..1 << 20]));
    assert!(sent.body.len() > 3 << 20);
    // Nobody tells the duration, so the file of 3 MiB costs a second for each thousand bytes.
    world.upstream.enqueue(Answer::json(200, &json!({"text": "x"})));
    let answer = post_form(&world.client, PATH, &body).await.ok();
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["units"], &row["cost_usd"]), (&json!({"second": 3_146}), &json!(0.314_6)), "{row}");
    assert_eq!((&row["estimated"], row.get("unpriced")), (&json!(true), None), "{row}");
}

#[tokio::test]
async fn a_recording_of_which_nobody_tells_the_duration_costs_the_seconds_that_a_budget_reserved() {
    let key = "[[keys]]\nname = \"careful\"\nkey = \"sk-careful\"\nbudget_usd = 1.0\nunpriced = \"refuse\"\n";
    let world = Setup { extra: key.to_owned(), ..Setup::default() }.start().await;
    let careful = world.gateway.client().with_key("sk-careful");
    let amr = [b"#!AMR\n".as_slice(), &[0x3c; 29_994]].concat();
    // The header tells two bytes of sound, and the file has those of a minute.
    let mut small = wav(60_000);
    small[40..44].copy_from_slice(&2_u32.to_le_bytes());
    for (name, file, seconds, cost) in [("a.amr", amr, 30, "0.003"), ("a.wav", small, 60, "0.006")] {
        world.upstream.enqueue(Answer::full(200, &[("content-type", "text/plain")], "Hello\n"));
        let body = form(&[
            ("file", Some(name), &file),
            ("model", None, b"acme/hear"),
            ("response_format", None, b"text"),
        ]);
        let answer = post_form(&careful, PATH, &body).await.ok();
        assert_eq!(answer.header("x-gateway-cost-usd"), Some(cost), "{name}");
        let row = row_of(&world, &answer).await;
        assert_eq!(
            (&row["units"], row.get("unpriced")),
            (&json!({"second": seconds}), None),
            "{name}: {row}"
        );
        assert_eq!(row["estimated"], json!(true), "{name}: {row}");
    }
}

#[tokio::test]
async fn a_recording_that_went_up_while_it_came_costs_its_seconds_when_its_answer_breaks_off() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let body = form(&[("model", None, b"acme/hear"), ("file", Some("a.wav"), &wav(60_000))]);
    world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], "{"));
    let answer = post_form(&world.client, PATH, &body).await;
    assert_error("no JSON", &answer, 502, "upstream_error", "upstream_invalid_response");
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["cost_usd"], row.get("unpriced")), (&json!(0.006), None), "{row}");
    assert_eq!(row["units"], json!({"second": 60}), "{row}");
}

#[tokio::test]
async fn fallbacks_read_the_file_again_and_budgets_and_model_lists_hold() {
    let extra = "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.0001\n\
        [[keys]]\nname = \"other\"\nkey = \"sk-other\"\nmodels = [\"beta/*\"]\n";
    let world = Setup { extra: extra.to_owned(), routing: "retries = 0", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::error(500, "server_error", "down"));
    let routing = r#"{"fallback":["demo/transcribe"]}"#;
    let answer = hear(&world, &[("routing", routing)]).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("demo/transcribe"));
    assert_eq!(answer.json()["text"], json!("The demo heard 40044 bytes."));
    let hits = world.upstream.hits();
    let body = recording(&[("model", "acme/hear")]);
    let refused = post_form(&world.gateway.client().with_key("sk-poor"), PATH, &body).await;
    assert_error("a budget", &refused, 429, "insufficient_quota", "insufficient_quota");
    let refused = post_form(&world.gateway.client().with_key("sk-other"), PATH, &body).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "model_not_allowed"));
    assert_eq!(world.upstream.hits(), hits);
    for format in ["json", "text", "srt", "vtt", "verbose_json"] {
        let fields = [("model", "demo/transcribe"), ("response_format", format)];
        let answer = post_form(&world.client, PATH, &recording(&fields)).await.ok();
        assert!(answer.text().contains("The demo heard 40044 bytes."), "{format}");
    }
    let told = events(&world, PATH, &recording(&[("model", "demo/transcribe"), ("stream", "true")])).await;
    assert_eq!(told.last().expect("an end")["text"], json!("The demo heard 40044 bytes."));
}

#[tokio::test]
async fn voxtral_gets_its_fields_and_its_events_become_openais() {
    let mistral = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"mistral\"\napi = \"mistral\"\nbase_url = \"{}\"\napi_key = \"k\"\nallow_private_network = true\n\
         [[models]]\nid = \"mistral/voxtral\"\ncategory = [\"transcription\"]\npricing = {{ official_per_second = 0.0001 }}\n",
        mistral.base_url()
    );
    let world = Setup { extra, ..Setup::default() }.start().await;
    let usage =
        json!({"prompt_audio_seconds": 4, "prompt_tokens": 4, "total_tokens": 100, "completion_tokens": 20});
    let segments = json!([{"start": 0.0, "end": 1.5, "text": "Hello"}]);
    let whole =
        json!({"model": "voxtral", "text": "Hello", "language": "en", "segments": segments, "usage": usage});
    for (format, expected) in [("text", "Hello\n"), ("srt", "1\n00:00:00,000 --> 00:00:01,500\nHello\n\n")] {
        mistral.enqueue(Answer::json(200, &whole));
        let fields = [("model", "mistral/voxtral"), ("response_format", format), ("prompt", "x")];
        let answer = post_form(&world.client, PATH, &recording(&fields)).await.ok();
        assert_eq!(answer.text(), expected);
        assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.0004"));
        let sent = String::from_utf8_lossy(&mistral.last().body).into_owned();
        assert!(!sent.contains("response_format") && !sent.contains("prompt"), "{sent}");
        assert_eq!(sent.contains("name=\"timestamp_granularities[]\"\r\n\r\nsegment"), format == "srt");
    }
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    mistral.enqueue(
        Answer::sse()
            .chunk(event(
                "transcription.language",
                json!({"type": "transcription.language", "audio_language": "en"}),
            ))
            .chunk(event(
                "transcription.text.delta",
                json!({"type": "transcription.text.delta", "text": "Hello"}),
            ))
            .chunk(event(
                "transcription.done",
                json!({"type": "transcription.done", "text": "Hello", "usage": usage}),
            ))
            .end(),
    );
    let told = events(&world, PATH, &recording(&[("model", "mistral/voxtral"), ("stream", "true")])).await;
    let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["transcript.text.delta", "transcript.text.done"]);
    assert_eq!(told[1]["usage"]["cost_usd"], json!(0.0004), "{told:?}");
    let refused = post_form(&world.client, TRANSLATE, &recording(&[("model", "mistral/voxtral")])).await;
    assert_invalid("a translation", &refused, "unsupported_parameter");
}

#[tokio::test]
async fn a_file_behind_the_model_goes_upstream_while_it_comes_and_a_torn_one_costs_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let extra = format!(
        "[[providers]]\nname = \"raw\"\napi = \"openai\"\nbase_url = \"http://{address}/v1\"\napi_key = \"k\"\n\
         allow_private_network = true\n[[models]]\nid = \"raw/hear\"\ncategory = [\"transcription\"]\n\
         pricing = {{ official_per_second = 0.0001 }}\n"
    );
    let world = Setup { extra, routing: "retries = 0", ..Setup::default() }.start().await;
    let sound = wav(60_000);
    let body = form(&[("model", None, b"raw/hear"), ("file", Some("a.wav"), &sound)]);
    let (first, last) = body.split_at(600_000);
    let mut wire = gw_testkit::wire::RawClient::connect(world.client.addr).await;
    wire.send(world.client.head("POST", PATH, Some(FORM), Some(body.len()))).await;
    wire.send(first).await;
    let (mut upstream, _) = listener.accept().await.expect("a connection");
    let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while seen.len() < 500_000 {
        let count = upstream.read(&mut buffer).await.expect("bytes");
        assert!(count > 0, "the connection ended");
        seen.extend_from_slice(&buffer[..count]);
    }
    assert!(String::from_utf8_lossy(&seen).to_ascii_lowercase().contains("transfer-encoding: chunked"));
    wire.send(last).await;
    while !seen.ends_with(b"0\r\n\r\n") {
        let count = upstream.read(&mut buffer).await.expect("bytes");
        assert!(count > 0, "the connection ended");
        seen.extend_from_slice(&buffer[..count]);
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\nconnection: close\r\n\r\n{\"text\":\"x\"}";
    upstream.write_all(answer.as_bytes()).await.expect("written");
    drop(upstream);
    let told = wire.response().await.expect("an answer").ok();
    assert_eq!(told.json()["usage"], json!({"type": "duration", "seconds": 60, "cost_usd": 0.006}));
    // A client that leaves in the middle has used nothing.
    let mut wire = gw_testkit::wire::RawClient::connect(world.client.addr).await;
    wire.send(world.client.head("POST", PATH, Some(FORM), Some(body.len()))).await;
    wire.send(first).await;
    let (mut upstream, _) = listener.accept().await.expect("a connection");
    assert!(upstream.read(&mut buffer).await.expect("bytes") > 0);
    drop(wire);
    let found = crate::harness::ledger::rows(&world.gateway, 2).await;
    let left = found.iter().find(|row| row.status != "ok").expect("the row");
    assert_eq!((left.cost, &*left.status), (0, "client_closed_request"));
    // Fields behind such a file come too late.
    let late =
        form(&[("model", None, b"raw/hear"), ("file", Some("a.wav"), &sound), ("stream", None, b"true")]);
    let refused = post_form(&world.client, PATH, &late).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.message().contains("must come before the file"), "{}", refused.text());
}

/// The bytes of an upstream's request, until there are so many or it ends.
async fn read_until(upstream: &mut tokio::net::TcpStream, seen: &mut Vec<u8>, enough: usize) {
    use tokio::io::AsyncReadExt;
    let mut buffer = vec![0; 65_536];
    while seen.len() < enough && !seen.ends_with(b"--\r\n") && !seen.ends_with(b"0\r\n\r\n") {
        let count = upstream.read(&mut buffer).await.expect("bytes");
        assert!(count > 0, "the connection ended");
        seen.extend_from_slice(&buffer[..count]);
    }
}

#[tokio::test]
async fn a_budget_reserves_the_declared_length_before_a_file_goes_up_and_is_settled_by_its_duration() {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let extra = format!(
        "[[providers]]\nname = \"raw\"\napi = \"openai\"\nbase_url = \"http://{address}/v1\"\napi_key = \"k\"\n\
         [[models]]\nid = \"raw/hear\"\ncategory = [\"transcription\"]\npricing = {{ official_per_second = 0.0001 }}\n\
         [[keys]]\nname = \"rich\"\nkey = \"sk-test-rich\"\nbudget_usd = 1.0\n\
         [[keys]]\nname = \"some\"\nkey = \"sk-test-some\"\nbudget_usd = 0.01\n\
         [[keys]]\nname = \"poor\"\nkey = \"sk-test-poor\"\nbudget_usd = 0.005\n"
    );
    let world = Setup { extra, routing: "retries = 0", ..Setup::default() }.start().await;
    let sound = wav(60_000);
    let body = form(&[("model", None, b"raw/hear"), ("file", Some("a.wav"), &sound)]);
    let (first, last) = body.split_at(600_000);
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\nconnection: close\r\n\r\n{\"text\":\"x\"}";
    let budget = async |key: &str| {
        let me = world.gateway.client().with_key(key).get("/v1/me").await.ok().json();
        let limits = me["limits"].as_array().expect("limits");
        let budget = &limits.iter().find(|limit| limit["scope"] == "key").expect("the key")["budget"];
        (budget["spent_usd"].clone(), budget["reserved_usd"].clone())
    };
    // A second for a thousand bytes of the form, at 0.0001 a second: 960,2xx bytes are 961 seconds.
    for (key, is_streamed) in [("sk-test-rich", true), ("sk-test-some", false)] {
        let client = world.gateway.client().with_key(key);
        let mut wire = gw_testkit::wire::RawClient::connect(client.addr).await;
        wire.send(client.head("POST", PATH, Some(FORM), Some(body.len()))).await;
        wire.send(first).await;
        let mut seen = Vec::new();
        let mut upstream = if is_streamed {
            let (mut upstream, _) = listener.accept().await.expect("a connection");
            read_until(&mut upstream, &mut seen, 500_000).await;
            assert_eq!(budget(key).await, (json!(0), json!(0.0961)), "{key}");
            wire.send(last).await;
            upstream
        } else {
            // 0.0961 does not fit. The measured 60 seconds do.
            wire.send(last).await;
            listener.accept().await.expect("a connection").0
        };
        read_until(&mut upstream, &mut seen, usize::MAX).await;
        let head = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        assert_eq!(head.contains("transfer-encoding: chunked"), is_streamed, "{key}");
        upstream.write_all(answer.as_bytes()).await.expect("written");
        drop(upstream);
        let told = wire.response().await.expect("an answer").ok();
        assert_eq!(told.json()["usage"], json!({"type": "duration", "seconds": 60, "cost_usd": 0.006}));
        assert_eq!(budget(key).await, (json!(0.006), json!(0)), "{key}");
    }
    // Sixty seconds are too many, and nothing goes up.
    let refused = post_form(&world.gateway.client().with_key("sk-test-poor"), PATH, &body).await;
    assert_error("60 seconds", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(budget("sk-test-poor").await, (json!(0), json!(0)));
    let found = crate::harness::ledger::rows(&world.gateway, 3).await;
    assert!(found.iter().all(|row| row.attempts.len() == usize::from(row.status == "ok")), "{found:?}");
}
