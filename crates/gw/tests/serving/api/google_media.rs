//! Speech, transcripts and edits of images at Gemini and Vertex AI: the calls, the files, the streams and the costs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gw_testkit::{Answer, FakeUpstream, PIXEL};
use serde_json::{Value, json};

use crate::harness::forms::{form, post_form, recording, wav};
use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, logged, with};

const SPEAK: &str = "/v1/audio/speech";
const HEAR: &str = "/v1/audio/transcriptions";
const TRANSLATE: &str = "/v1/audio/translations";
const EDIT: &str = "/v1/images/edits";
const IN_VERTEX: &str = "/v1/projects/p/locations/europe-west4/publishers/google/models/";

/// A gateway with Gemini and Vertex AI, both at one upstream.
async fn start(upstream: &FakeUpstream) -> World {
    let base = upstream.base_url();
    let base = base.trim_end_matches("/v1");
    let provider = |name: &str, more: &str| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{name}\"\nbase_url = \"{base}\"\napi_key = \"k\"\n{more}\n"
        )
    };
    let model = |provider: &str, name: &str, category: &str, pricing: &str| {
        format!(
            "[[models]]\nid = \"{provider}/{name}\"\ncategory = [\"{category}\"]\npricing = {{ {pricing} }}\n"
        )
    };
    let mut extra =
        provider("gemini", "") + &provider("vertex", "project = \"p\"\nregion = \"europe-west4\"");
    for name in ["gemini", "vertex"] {
        let spoken = "official_input_per_m = 0.5, official_audio_output_per_m = 10.0";
        let heard =
            "official_input_per_m = 0.3, official_audio_input_per_m = 1.0, official_output_per_m = 2.5";
        let made = "official_input_per_m = 0.3, official_image_output_per_m = 30.0";
        extra += &model(name, "gemini-2.5-flash-preview-tts", "speech", spoken);
        extra += &model(name, "gemini-2.5-flash", "transcription", heard);
        extra += &model(name, "gemini-2.5-flash-image", "image", made);
    }
    extra += "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.00001\n";
    Setup { extra, routing: "retries = 0", ..Setup::default() }.start().await
}

fn say(provider: &str, more: Value) -> Value {
    let model = format!("{provider}/gemini-2.5-flash-preview-tts");
    with(json!({"model": model, "input": "Grüße dich", "voice": "Kore"}), more)
}

async fn row_of(world: &World, answer: &gw_testkit::Response) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    logged(&admin, answer.header("x-request-id").expect("an id")).await
}

/// An answer with these samples, and with usage.
fn sound(samples: &[u8], counts: &Value) -> Value {
    let data = BASE64_STANDARD.encode(samples);
    let part = json!({"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": data}});
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
    with(answer, json!({"usageMetadata": counts}))
}

fn finished(mut answer: Value) -> Value {
    answer["candidates"][0]["finishReason"] = json!("STOP");
    answer
}

/// 7 × 0.5 + 50 × 10 per million.
const SPOKEN: &str = "0.0005035";

fn counts() -> Value {
    json!({
        "promptTokenCount": 7, "candidatesTokenCount": 50, "totalTokenCount": 57,
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 50}]
    })
}

#[tokio::test]
async fn speech_is_samples_or_a_wav_file_and_costs_text_and_sound() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    let samples: Vec<u8> = (0..=255).cycle().take(48_000).collect();
    upstream.always(Answer::json(200, &finished(sound(&samples, &counts()))));
    for (provider, path) in [
        ("gemini", "/v1beta/models/gemini-2.5-flash-preview-tts:generateContent".to_owned()),
        ("vertex", format!("{IN_VERTEX}gemini-2.5-flash-preview-tts:generateContent")),
    ] {
        let body = say(provider, json!({"response_format": "pcm", "user": "ann"}));
        let answer = world.client.post_json(SPEAK, &body).await.ok();
        assert!(answer.body == samples, "{provider}");
        assert_eq!(answer.header("content-type"), Some("audio/pcm"), "{provider}");
        assert_eq!(upstream.last().path, path);
        let expected = json!({
            "contents": [{"role": "user", "parts": [{"text": "Grüße dich"}]}],
            "generationConfig": {
                "responseModalities": ["AUDIO"],
                "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
            }
        });
        assert_eq!(upstream.last().json(), expected, "{provider}");
        let row = row_of(&world, &answer).await;
        assert_eq!(row["cost_usd"].to_string(), SPOKEN, "{provider}: {row}");
        assert_eq!(
            (&row["prompt_tokens"], &row["completion_tokens"], &row["units"]),
            (&json!(7), &json!(50), &json!({"character": 10})),
            "{provider}: {row}"
        );
    }
    let body = say("gemini", json!({"response_format": "wav", "instructions": "Say calmly"}));
    let answer = world.client.post_json(SPEAK, &body).await.ok();
    assert_eq!(answer.header("content-type"), Some("audio/wav"));
    let (head, data) = answer.body.split_at(44);
    assert!(data == samples);
    // One channel with 24,000 samples of two bytes a second.
    let expected = [
        &b"RIFF"[..],
        &48_036_u32.to_le_bytes(),
        b"WAVEfmt ",
        &16_u32.to_le_bytes(),
        &[1, 0, 1, 0],
        &24_000_u32.to_le_bytes(),
        &48_000_u32.to_le_bytes(),
        &[2, 0, 16, 0],
        b"data",
        &48_000_u32.to_le_bytes(),
    ];
    assert_eq!(head, expected.concat());
    let told = upstream.last().json();
    assert_eq!(told["contents"][0]["parts"], json!([{"text": "Say calmly: Grüße dich"}]));
}

#[tokio::test]
async fn speech_streams_its_pieces_and_is_charged_for_what_was_made() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    let half = json!({"promptTokenCount": 7, "candidatesTokenCount": 20, "totalTokenCount": 27});
    let streamed = || Answer::sse().data(&sound(b"abcd", &half));
    let body = say("vertex", json!({"response_format": "wav", "stream_format": "sse"}));
    upstream.enqueue(streamed().data(&finished(sound(b"efgh", &counts()))).end());
    let mut stream = world.client.stream(SPEAK, &body).await;
    let frames = stream.rest().await;
    let events: Vec<Value> = frames
        .iter()
        .map(|frame| {
            let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
            serde_json::from_str(data).expect("JSON")
        })
        .collect();
    let pieces: Vec<Vec<u8>> =
        events.iter().filter_map(|event| BASE64_STANDARD.decode(event["audio"].as_str()?).ok()).collect();
    let whole = pieces.concat();
    assert!(whole.starts_with(b"RIFF\xff\xff\xff\xff") && whole.ends_with(b"data\xff\xff\xff\xffabcdefgh"));
    let last = events.last().expect("an end");
    assert_eq!(last["type"], "speech.audio.done");
    assert_eq!(last["usage"]["cost_usd"].to_string(), SPOKEN, "{last}");
    assert_eq!(
        upstream.last().path,
        format!("{IN_VERTEX}gemini-2.5-flash-preview-tts:streamGenerateContent?alt=sse")
    );
    // A stream that ends without its end is a failure, and 7 × 0.5 + 20 × 10 per million are due.
    upstream.enqueue(streamed().end());
    let mut stream = world.client.stream(SPEAK, &body).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    let frames = stream.rest().await;
    assert!(frames.last().is_some_and(|frame| frame.starts_with("event: error\n")), "{frames:?}");
    let row = logged(&world.gateway.client().with_key(ADMIN), &id).await;
    assert_eq!(
        (&row["status"], &row["cost_usd"]),
        (&json!("upstream_stream_error"), &json!(0.0002035)),
        "{row}"
    );
}

#[tokio::test]
async fn what_gemini_cannot_speak_is_refused_before_the_upstream() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    for more in [
        json!({}),
        json!({"response_format": "mp3"}),
        json!({"response_format": "opus"}),
        json!({"response_format": "wav", "speed": 2}),
    ] {
        let refused = world.client.post_json(SPEAK, &say("gemini", more.clone())).await;
        assert_invalid(&more.to_string(), &refused, "unsupported_parameter");
    }
    let poor = world.gateway.client().with_key("sk-poor");
    let refused = poor.post_json(SPEAK, &say("gemini", json!({"response_format": "pcm"}))).await;
    assert_error("a budget", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(upstream.hits(), 0);
    upstream.enqueue(Answer::json(200, &json!({"promptFeedback": {"blockReason": "SAFETY"}})));
    let blocked = world.client.post_json(SPEAK, &say("gemini", json!({"response_format": "pcm"}))).await;
    assert_invalid("blocked", &blocked, "content_filter");
}

fn heard(text: &str) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": 90, "candidatesTokenCount": 3, "totalTokenCount": 93,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}, {"modality": "AUDIO", "tokenCount": 80}]
        }
    })
}

/// 10 × 0.3 + 80 × 1 + 3 × 2.5 per million.
const HEARD: &str = "0.0000905";

#[tokio::test]
async fn a_recording_goes_up_as_base64_and_costs_its_sound() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    upstream.always(Answer::json(200, &heard("Hello you\n")));
    for (provider, path) in [
        ("gemini", "/v1beta/models/gemini-2.5-flash:generateContent".to_owned()),
        ("vertex", format!("{IN_VERTEX}gemini-2.5-flash:generateContent")),
    ] {
        let model = format!("{provider}/gemini-2.5-flash");
        let fields =
            [("model", &*model), ("language", "en"), ("prompt", "Ann \"B\""), ("temperature", "0.5")];
        let answer = post_form(&world.client, HEAR, &recording(&fields)).await.ok();
        let told = answer.json();
        assert_eq!(
            (&told["text"], &told["usage"]["input_tokens"]),
            (&json!("Hello you"), &json!(90)),
            "{told}"
        );
        assert_eq!(answer.header("x-gateway-cost-usd"), Some(HEARD), "{provider}");
        let sent = upstream.last();
        assert_eq!(sent.path, path);
        assert_eq!(sent.header("content-length"), Some(&*sent.body.len().to_string()));
        let sent = sent.json();
        let parts = &sent["contents"][0]["parts"];
        assert_eq!(parts[0]["inlineData"]["mimeType"], "audio/wav");
        let data = parts[0]["inlineData"]["data"].as_str().expect("data");
        assert!(BASE64_STANDARD.decode(data).expect("base64") == wav(2_500));
        let text = parts[1]["text"].as_str().expect("a text");
        assert!(text.contains("\"en\"") && text.ends_with("Ann \"B\""), "{text}");
        assert_eq!(sent["generationConfig"], json!({"temperature": 0.5}));
        let row = row_of(&world, &answer).await;
        assert_eq!(
            (&row["surface"], &row["units"]),
            (&json!("transcriptions"), &json!({"second": 2.5})),
            "{row}"
        );
    }
    let fields = [("model", "gemini/gemini-2.5-flash"), ("response_format", "text")];
    let answer = post_form(&world.client, TRANSLATE, &recording(&fields)).await.ok();
    assert_eq!(answer.text(), "Hello you\n");
    let text = upstream.last().json()["contents"][0]["parts"][1]["text"].to_string();
    assert!(text.contains("English"), "{text}");
}

#[tokio::test]
async fn a_transcript_streams_and_limits_are_told() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    let mut first = heard("Hello ");
    first["candidates"][0].as_object_mut().expect("a candidate").remove("finishReason");
    upstream.enqueue(Answer::sse().data(&first).data(&heard("you")).end());
    let fields = [("model", "gemini/gemini-2.5-flash"), ("stream", "true")];
    let answer = post_form(&world.client, HEAR, &recording(&fields)).await.ok();
    let text = answer.text();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    let last = events.last().expect("an end");
    assert_eq!(
        (&last["type"], &last["text"]),
        (&json!("transcript.text.done"), &json!("Hello you")),
        "{last}"
    );
    assert_eq!(last["usage"]["cost_usd"].to_string(), HEARD, "{last}");
    assert_eq!(upstream.last().path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    let hits = upstream.hits();
    for format in ["srt", "vtt", "verbose_json", "diarized_json"] {
        let fields = [("model", "gemini/gemini-2.5-flash"), ("response_format", format)];
        let refused = post_form(&world.client, HEAR, &recording(&fields)).await;
        assert_invalid(format, &refused, "unsupported_parameter");
    }
    let long = vec![0; 15_000_000];
    let body = form(&[("model", None, b"gemini/gemini-2.5-flash"), ("file", Some("a.mp3"), &long)]);
    let refused = post_form(&world.client, HEAR, &body).await;
    assert_error("15 MB", &refused, 413, "invalid_request_error", "request_too_large");
    assert!(refused.message().contains("14900000"), "{}", refused.message());
    assert_eq!(upstream.hits(), hits);
}

/// A transcript has no member that tells that it is cut.
#[tokio::test]
async fn a_transcript_that_its_model_does_not_end_is_an_error_and_is_charged() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    for (reason, status, code) in [
        ("SAFETY", 400, "content_filter"),
        ("PROHIBITED_CONTENT", 400, "content_filter"),
        ("MAX_TOKENS", 502, "upstream_invalid_response"),
    ] {
        let mut cut = heard("Hello");
        cut["candidates"][0]["finishReason"] = json!(reason);
        let model = ("model", "gemini/gemini-2.5-flash");
        upstream.enqueue(Answer::json(200, &cut));
        let plain = post_form(&world.client, HEAR, &recording(&[model])).await;
        assert_eq!((plain.status, plain.code().as_str()), (status, code), "{reason}: {}", plain.text());
        upstream.enqueue(Answer::sse().data(&cut).end());
        let answer = post_form(&world.client, HEAR, &recording(&[model, ("stream", "true")])).await;
        let text = answer.text();
        assert!(text.contains("\"upstream_stream_error\""), "{reason}: {text}");
        assert!(!text.contains("transcript.text.done"), "{reason}: {text}");
        for answer in [plain, answer] {
            let row = row_of(&world, &answer).await;
            assert_eq!(row["cost_usd"].to_string(), HEARD, "{reason}: {row}");
        }
    }
}

#[tokio::test]
async fn an_edit_sends_its_images_with_the_prompt() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": PIXEL}});
    upstream.always(Answer::json(
        200,
        &json!({
            "candidates": [{"content": {"role": "model", "parts": [inline]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 264, "candidatesTokenCount": 1290, "totalTokenCount": 1554}
        }),
    ));
    let edit = |model: &'static str, more: &[(&'static str, Option<&'static str>, &'static [u8])]| {
        let mut parts: Vec<(&str, Option<&str>, &[u8])> = vec![
            ("image", Some("a.png"), b"one"),
            ("image[]", Some("b.jpg"), b"two!"),
            ("model", None, model.as_bytes()),
            ("prompt", None, b"a \"cat\""),
        ];
        parts.extend(more);
        form(&parts)
    };
    let body = edit("gemini/gemini-2.5-flash-image", &[("size", None, b"1536x1024")]);
    let answer = post_form(&world.client, EDIT, &body).await.ok();
    assert_eq!(answer.json()["data"], json!([{"b64_json": PIXEL}]));
    // 264 × 0.3 + 1290 × 30 per million.
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.0387792"));
    let sent = upstream.last();
    assert_eq!(sent.path, "/v1beta/models/gemini-2.5-flash-image:generateContent");
    let expected = json!({
        "contents": [{"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "b25l"}},
            {"inlineData": {"mimeType": "image/jpeg", "data": "dHdvIQ=="}},
            {"text": "a \"cat\""}
        ]}],
        "generationConfig": {"responseModalities": ["IMAGE"], "imageConfig": {"aspectRatio": "3:2"}}
    });
    assert_eq!(sent.json(), expected);
    let body = edit("vertex/gemini-2.5-flash-image", &[]);
    post_form(&world.client, EDIT, &body).await.ok();
    assert_eq!(upstream.last().path, format!("{IN_VERTEX}gemini-2.5-flash-image:generateContent"));
    let hits = upstream.hits();
    let body = edit("gemini/gemini-2.5-flash-image", &[("mask", Some("m.png"), b"mask")]);
    let refused = post_form(&world.client, EDIT, &body).await;
    assert_invalid("a mask", &refused, "unsupported_value");
    let vary = form(&[("image", Some("a.png"), b"one"), ("model", None, b"gemini/gemini-2.5-flash-image")]);
    let refused = post_form(&world.client, "/v1/images/variations", &vary).await;
    assert_invalid("a variation", &refused, "unsupported_parameter");
    assert_eq!(upstream.hits(), hits);
}
