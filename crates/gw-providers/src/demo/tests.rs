//! The demo through its adapter: the answers of its models, and their failures.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use gw_wire::reply::{Finish, Vector};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::{Demo, DemoBody, DemoResponse, demo_catalogue};
use crate::adapter::{Adapter, HttpCall, Reading};
use crate::adapters::openai::OpenAi;
use crate::in_process::InProcessBody;
use crate::presets;

async fn send(path: &str, request: &Value) -> DemoResponse {
    let body = Bytes::from(request.to_string());
    Demo::new()
        .send(HttpCall {
            method: Method::POST,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body,
            upload: None,
        })
        .await
}

/// Collects pieces until the body ends, breaks or falls silent.
async fn read(mut body: DemoBody) -> (Vec<u8>, &'static str) {
    let mut all = Vec::new();
    loop {
        let next = poll_fn(|cx| match body.poll_chunk(cx) {
            Poll::Pending if body.is_silent() => Poll::Ready(Err(())),
            other => other.map(Ok),
        });
        match next.await {
            Ok(Some(Ok(chunk))) => all.extend_from_slice(&chunk),
            Ok(Some(Err(_))) => return (all, "broken"),
            Ok(None) => return (all, "ended"),
            Err(()) => return (all, "silent"),
        }
    }
}

fn adapter() -> OpenAi {
    OpenAi::new(presets::find("openai").unwrap().quirks)
}

fn ask(model: &str, said: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": said}]})
}

fn with(mut request: Value, more: Value) -> Value {
    let (Value::Object(members), Value::Object(more)) = (&mut request, more) else { panic!("objects") };
    members.extend(more);
    request
}

/// The contents and finish reasons of a complete answer.
async fn answers(request: &Value) -> Vec<(String, Option<Finish>)> {
    let (body, _) = read(send("/chat/completions", request).await.body).await;
    let reply = adapter().decode_chat(&body, &Reading::default()).unwrap();
    reply
        .choices
        .into_iter()
        .map(|choice| (choice.content.unwrap_or_default().into_owned(), choice.finish))
        .collect()
}

async fn events(path: &str, request: &Value) -> (Vec<String>, &'static str) {
    let (body, end) = read(send(path, &with(request.clone(), json!({"stream": true}))).await.body).await;
    let mut decoder = adapter().stream(&Reading::default());
    let mut lines = Vec::new();
    let mut sink = |event: Event<'_>| lines.push(format!("{event:?}"));
    decoder.feed(&body, &mut sink);
    if end == "ended" {
        decoder.eof(&mut sink);
    }
    (lines, end)
}

fn one(text: &str, finish: Finish) -> Vec<(String, Option<Finish>)> {
    vec![(text.to_owned(), Some(finish))]
}

#[tokio::test]
async fn the_demo_echoes_within_the_token_limit() {
    let hello = ask("chat", "Hello  you, two");
    assert_eq!(answers(&hello).await, one("Demo answer to: Hello  you, two", Finish::Stop));
    assert_eq!(
        answers(&with(hello.clone(), json!({"max_tokens": 4}))).await,
        one("Demo answer to: Hello", Finish::Length)
    );
    assert_eq!(
        answers(&with(hello.clone(), json!({"stop": ["two", "you"]}))).await,
        one("Demo answer to: Hello  ", Finish::Stop)
    );
    assert_eq!(answers(&with(hello.clone(), json!({"n": 3}))).await.len(), 3);
    let parts = json!({"model": "chat", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]});
    assert_eq!(answers(&parts).await, one("Demo answer to: a b", Finish::Stop));
}

#[tokio::test]
async fn the_demo_streams_and_answers_alike() {
    let request =
        with(ask("chat", "Grüße an 世界 und 👩‍👩‍👧"), json!({"n": 2, "stream_options": {"include_usage": true}}));
    let whole: Vec<String> = answers(&request).await.into_iter().map(|(text, _)| text).collect();
    let (body, _) = read(send("/chat/completions", &with(request, json!({"stream": true}))).await.body).await;
    let mut decoder = adapter().stream(&Reading::default());
    let mut texts = vec![String::new(); 2];
    let (mut finished, mut used, mut ended) = (0, None, false);
    decoder.feed(&body, &mut |event| match event {
        Event::Text { choice, text, .. } => texts[choice as usize].push_str(&text),
        Event::Finish { reason: Finish::Stop, .. } => finished += 1,
        Event::Usage(usage) => used = Some((usage.prompt, usage.completion, usage.estimated)),
        Event::End => ended = true,
        Event::Start { .. } => {}
        other => panic!("{other:?}"),
    });
    assert_eq!((texts, finished, used, ended), (whole, 2, Some((5, 17, false)), true));
}

fn weather() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string", "maxLength": 4}, "days": {"type": "integer", "minimum": 3}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "days"]});
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}, {"type": "function", "function": {"name": "now"}}])
}

#[tokio::test]
async fn the_demo_calls_tools_and_answers_from_their_results() {
    let offered = with(ask("chat", "Please get_weather"), json!({"tools": weather()}));
    let (body, _) = read(send("/chat/completions", &offered).await.body).await;
    let reply = adapter().decode_chat(&body, &Reading::default()).unwrap();
    let call = &reply.choices[0].tool_calls[0];
    assert_eq!((&*call.name, &*call.arguments), ("get_weather", r#"{"city":"Plea","days":3}"#));
    assert_eq!(reply.choices[0].finish, Some(Finish::ToolCalls));
    let (lines, _) = events("/chat/completions", &with(offered, json!({"tool_choice": "required"}))).await;
    assert!(
        lines.iter().any(|line| line.starts_with("ToolStart") && line.contains("get_weather")),
        "{lines:?}"
    );
    for (choice, calls) in [
        (json!("none"), 0),
        (json!("auto"), 0),
        (json!("required"), 1),
        (json!({"type": "function", "function": {"name": "now"}}), 1),
    ] {
        let request = with(ask("chat", "hi"), json!({"tools": weather(), "tool_choice": choice}));
        let (body, _) = read(send("/chat/completions", &request).await.body).await;
        assert_eq!(
            adapter().decode_chat(&body, &Reading::default()).unwrap().choices[0].tool_calls.len(),
            calls,
            "{choice}"
        );
    }
    let after = json!({"model": "chat", "tools": weather(), "messages": [{"role": "user", "content": "get_weather"}, {"role": "tool", "tool_call_id": "call_demo_1", "content": "sunny"}]});
    assert_eq!(answers(&after).await, one("Demo answer from the tool's result: sunny", Finish::Stop));
    let legacy =
        with(ask("chat", "hi"), json!({"functions": [{"name": "f"}], "function_call": {"name": "f"}}));
    assert_eq!(answers(&legacy).await[0].1, Some(Finish::FunctionCall));
}

#[tokio::test]
async fn the_demo_answers_in_json_of_the_schema() {
    let object = answers(&with(ask("chat", "hi"), json!({"response_format": {"type": "json_object"}}))).await;
    assert_eq!(serde_json::from_str::<Value>(&object[0].0).unwrap(), json!({"answer": "Demo answer to: hi"}));
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string", "minLength": 30}, "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 2},
        "score": {"type": ["null", "number"], "maximum": 0.5}, "kind": {"anyOf": [{"type": "null"}, {"const": "x"}]}, "on": {"type": "string", "format": "date"}},
        "$defs": {"tag": {"type": "boolean"}}, "required": ["name"]});
    let format =
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}});
    let shaped: Value = serde_json::from_str(&answers(&with(ask("chat", "hi"), format)).await[0].0).unwrap();
    assert_eq!(shaped["name"].as_str().unwrap().len(), 30);
    assert_eq!(
        (&shaped["tags"], &shaped["kind"], &shaped["score"]),
        (&json!([true, true]), &json!("x"), &json!(0.5))
    );
    let endless = json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": {"me": {"$ref": "#"}}}}}});
    assert_eq!(answers(&with(ask("chat", "hi"), endless)).await.len(), 1);
}

#[tokio::test]
async fn the_demo_completes_every_prompt_n_times() {
    for (prompt, choices) in
        [(json!("a"), 2), (json!(["a", "b"]), 4), (json!([1, 2]), 2), (json!([[1], [2], [3]]), 6)]
    {
        let request = json!({"model": "chat", "prompt": prompt, "n": 2, "echo": true});
        let (body, _) = read(send("/completions", &request).await.body).await;
        let reply = adapter().decode_completion(&body, &Reading::default()).unwrap();
        assert_eq!(reply.choices.len(), choices, "{prompt}");
        let (lines, _) = events("/completions", &request).await;
        assert_eq!(lines.iter().filter(|line| line.starts_with("Finish")).count(), choices);
    }
}

#[tokio::test]
async fn a_small_request_does_not_become_a_huge_answer() {
    let prompts = |count: usize| json!({"model": "chat", "prompt": vec!["x"; count], "n": 128});
    assert_eq!(send("/completions", &prompts(32)).await.status, 200);
    assert_eq!(send("/completions", &prompts(33)).await.status, 400);
    let echo = json!({"model": "chat", "prompt": "x".repeat(100 << 10), "n": 128, "echo": true});
    assert_eq!(send("/completions", &echo).await.status, 400);
    let chat = with(ask("chat", &"é".repeat(2 << 20)), json!({"n": 128}));
    let (body, _) = read(send("/chat/completions", &chat).await.body).await;
    assert!(body.len() < 2 << 20, "{}", body.len());
}

#[tokio::test]
async fn demo_vectors_are_unit_vectors_that_depend_on_the_text_only() {
    let (body, _) = read(
        send("/embeddings", &json!({"model": "embed", "input": ["a", "b", "a"], "dimensions": 7})).await.body,
    )
    .await;
    let reply = adapter().decode_embeddings(&body, 3).unwrap();
    let numbers = |vector: &Vector<'_>| match vector {
        Vector::Json { text, .. } => serde_json::from_str::<Vec<f32>>(text).unwrap(),
        Vector::Floats(floats) => floats.clone(),
        Vector::Packed(_) => panic!("it comes from an upstream"),
    };
    let vectors: Vec<_> = reply.vectors.iter().map(numbers).collect();
    assert!(vectors[0] == vectors[2] && vectors[0] != vectors[1] && vectors[0].len() == 7);
    assert!((vectors[0].iter().map(|number| number * number).sum::<f32>() - 1.0).abs() < 1e-5);
    let (body, _) = read(
        send(
            "/embeddings",
            &json!({"model": "embed", "input": "a", "dimensions": 7, "encoding_format": "base64"}),
        )
        .await
        .body,
    )
    .await;
    assert_eq!(numbers(&adapter().decode_embeddings(&body, 1).unwrap().vectors[0]), vectors[0]);
    assert_eq!(
        send("/embeddings", &json!({"model": "embed", "input": "a", "dimensions": 0})).await.status,
        400
    );
}

#[tokio::test]
async fn refusing_demo_models_refuse_at_every_endpoint() {
    for (model, kind) in [
        ("error-429", FailureKind::RateLimited),
        ("error-500", FailureKind::Server),
        ("error-503", FailureKind::Overloaded),
        ("error-401", FailureKind::Auth),
        ("error-400", FailureKind::BadRequest),
        ("context", FailureKind::ContextLength),
        ("filter", FailureKind::ContentFilter),
        ("nobody", FailureKind::ModelMissing),
    ] {
        for path in ["/chat/completions", "/completions", "/embeddings"] {
            let response = send(path, &ask(model, "hi")).await;
            let (body, _) = read(response.body).await;
            let failure = (adapter().traits().classify)(response.status, &response.headers, &body);
            assert_eq!(failure.kind, kind, "{model} {path}");
            assert_eq!(failure.retry_after.is_some(), model == "error-429");
        }
    }
}

#[tokio::test]
async fn breaking_demo_models_break_their_streams_as_named() {
    for (model, texts, last, how) in [
        ("stall", 1, "Text", "silent"),
        ("slow", 4, "End", "ended"),
        ("cut", 3, "Text", "broken"),
        ("truncate", 3, "Text", "ended"),
        ("garbage", 0, "Error", "ended"),
        ("error-first", 0, "Error", "ended"),
        ("error-mid", 3, "Error", "ended"),
    ] {
        for (path, request) in [
            ("/chat/completions", ask(model, "hi")),
            ("/completions", json!({"model": model, "prompt": "hi"})),
        ] {
            let (lines, end) = events(path, &request).await;
            assert_eq!(
                lines.iter().filter(|line| line.starts_with("Text")).count(),
                texts,
                "{model} {lines:?}"
            );
            assert!(
                lines.last().is_some_and(|line| line.starts_with(last)) && end == how,
                "{model} {end} {lines:?}"
            );
            let (body, end) = read(send(path, &request).await.body).await;
            let good = adapter().decode_chat(&body, &Reading::default()).is_ok()
                || adapter().decode_completion(&body, &Reading::default()).is_ok();
            assert_eq!(
                (good, end == "ended"),
                (model == "slow", !matches!(model, "stall" | "cut")),
                "{model}"
            );
        }
    }
}

#[test]
fn the_silent_model_never_answers() {
    let request = ask("silent", "hi");
    let mut answer = pin!(send("/chat/completions", &request));
    assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test]
#[should_panic(expected = "demo/panic")]
async fn the_panicking_model_panics() {
    send("/chat/completions", &ask("panic", "hi")).await;
}

#[tokio::test]
async fn every_model_of_the_demo_catalogue_exists() {
    let catalogue: Vec<Value> = serde_json::from_str(demo_catalogue()).unwrap();
    let call = (adapter().traits().models.unwrap().call)();
    let (body, _) = read(Demo::new().send(call).await.body).await;
    let names: Vec<String> = (adapter().traits().models.unwrap().read)(&body)
        .unwrap()
        .into_iter()
        .map(|model| model.name)
        .collect();
    assert_eq!(names.len(), catalogue.len());
    for model in &catalogue {
        let name = model["upstream_model"].as_str().unwrap();
        assert_eq!(model["id"], json!(format!("demo/{name}")));
        assert_eq!(
            (&model["provider"], &model["pricing"]["official_input_per_m"]),
            (&json!("demo"), &json!(0.0))
        );
        // A transcript is a form.
        if !matches!(name, "silent" | "panic" | "transcribe" | "realtime") {
            let path = match name {
                "embed" => "/embeddings",
                "rerank" => "/rerank",
                "moderation" => "/moderations",
                "images" => "/images/generations",
                "speech" => "/audio/speech",
                _ => "/chat/completions",
            };
            let response = send(path, &with(ask(name, "hi"), json!({"input": "hi"}))).await;
            assert_ne!(response.status, 404, "{name}");
        }
    }
}

#[test]
fn a_number_beyond_the_range_of_a_double_is_read_as_zero() {
    let body = format!(r#"{{"a":[1e999,-{0},5],"b":"1e999 \" 1","c":-0.5e1}}"#, "9".repeat(400));
    let read = super::read_json(body.as_bytes()).unwrap();
    assert_eq!(read, json!({"a": [0, 0, 5], "b": "1e999 \" 1", "c": -5.0}));
    assert_eq!(super::read_json(b"{\"a\":"), None);
}
