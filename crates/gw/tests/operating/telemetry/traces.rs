//! Spans of requests at a collector, and the headers that carry a trace.

use gw_testkit::measured::at_most;
use gw_testkit::wait::within;
use gw_testkit::{Answer, eventually};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};

use crate::harness::answers::fallback;
use crate::harness::canary::Heap;
use crate::harness::{ADMIN, KEY, Setup, UPSTREAM_KEY, World, chat, chat_with, world};
use crate::telemetry::collector::{Collector, attributes, hex};

const CHAT: &str = "/v1/chat/completions";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn traced(collector: &Collector, more: &str) -> World {
    let extra = collector.config(more);
    // A test sends many wrong keys.
    Setup { server: "bad_keys_per_minute = 0", routing: "retries = 0", extra, ..Setup::default() }
        .start()
        .await
}

/// The spans of a request: the server's first, then the attempts in order.
fn in_order(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.kind != SpanKind::Server as i32, span.start_time_unix_nano));
    spans
}

/// The trace and the span that an upstream was told.
fn told(header: Option<&str>) -> (String, String) {
    let header = header.expect("the upstream gets a traceparent");
    let parts: Vec<_> = header.split('-').collect();
    assert_eq!((parts[0], parts[3]), ("00", "01"), "{header}");
    (parts[1].to_owned(), parts[2].to_owned())
}

/// The value of a metric without labels.
async fn metric(world: &World, name: &str) -> f64 {
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().expect("a number")
}

/// Waits until a metric has this value at least.
async fn until(world: &World, name: &str, least: f64) {
    within(name, async { while metric(world, name).await < least {} }).await;
}

#[track_caller]
fn assert_attributes(about: &Value, expected: &[(&str, Value)]) {
    for (name, value) in expected {
        assert_eq!(about[name], *value, "{name} in {about}");
    }
}

async fn assert_a_fallback_is_traced(collector: Collector) {
    let world = traced(&collector, "").await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let client = world.client.with_header("traceparent", &parent).with_header("tracestate", "congo=t61rc");
    let answer = client.post_json(CHAT, &chat_with("acme/fast", fallback(&["beta/spare"]))).await.ok();
    let id = answer.header("x-request-id").expect("an id").to_owned();

    let spans = in_order(collector.wait_for(3).await);
    let [server, first, second] = &spans[..] else { panic!("three spans: {spans:?}") };
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE && span.trace_state == "congo=t61rc"));
    assert_eq!(hex(&server.parent_span_id), PARENT);
    for (span, upstream) in [(first, &world.upstream), (second, &world.second)] {
        assert_eq!((span.kind, &span.parent_span_id), (SpanKind::Client as i32, &server.span_id));
        let call = upstream.last();
        assert_eq!(told(call.header("traceparent")), (TRACE.to_owned(), hex(&span.span_id)));
        assert_eq!(call.header("tracestate"), Some("congo=t61rc"));
    }
    assert!(server.start_time_unix_nano <= first.start_time_unix_nano);
    assert!(first.end_time_unix_nano <= second.start_time_unix_nano);
    assert!(second.end_time_unix_nano <= server.end_time_unix_nano);
    let answered = &answer.json()["id"];
    assert!(answered.is_string());
    assert_eq!(attributes(&server.attributes)["gen_ai.response.id"], *answered);
    assert_server_span(server, &id);
    assert_client_spans(first, second);
    let line = world.gateway.log_of(&id).await;
    assert_eq!(line["trace_id"], TRACE, "the access log names the trace");
    until(&world, "gateway_spans_sent_total", 3.0).await;
}

fn assert_server_span(server: &Span, id: &str) {
    assert_eq!((server.name.as_str(), &server.status), ("POST /v1/chat/completions", &None));
    assert_attributes(
        &attributes(&server.attributes),
        &[
            ("gateway.request_id", json!(id)),
            ("gateway.key", json!("ci")),
            ("gateway.attempts", json!(2)),
            ("gateway.fallback", json!(true)),
            ("http.response.status_code", json!(200)),
        ],
    );
    let event = |event: &opentelemetry_proto::tonic::trace::v1::span::Event| {
        (event.name.clone(), attributes(&event.attributes))
    };
    let moved =
        json!({ "gateway.from": "acme/fast", "gateway.to": "beta/spare", "error.type": "upstream_error" });
    assert_eq!(server.events.iter().map(event).collect::<Vec<_>>(), [("gateway.fallback".to_owned(), moved)]);
}

fn assert_client_spans(first: &Span, second: &Span) {
    assert_eq!(first.name, "chat fast-2026-01");
    assert_eq!(first.status.as_ref().map(|status| status.code), Some(StatusCode::Error as i32));
    assert_attributes(
        &attributes(&first.attributes),
        &[("error.type", json!("upstream_error")), ("gateway.attempt", json!(1))],
    );
    assert_eq!(
        attributes(&first.attributes).get("gen_ai.response.finish_reasons"),
        None,
        "it did not answer"
    );
    let about = attributes(&second.attributes);
    assert_eq!(second.status, None);
    assert_attributes(
        &about,
        &[
            ("gen_ai.operation.name", json!("chat")),
            ("gen_ai.provider.name", json!("beta")),
            ("gen_ai.request.model", json!("spare")),
            ("gen_ai.usage.input_tokens", json!(10)),
            ("gen_ai.usage.output_tokens", json!(5)),
            ("gen_ai.response.finish_reasons", json!(["stop"])),
            ("gen_ai.response.model", json!("spare")),
            ("gateway.model", json!("beta/spare")),
            ("gateway.cost_usd", json!(0.000_105)),
            ("server.address", json!("127.0.0.1")),
        ],
    );
    for name in ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system"] {
        assert_eq!(about.get(name), None, "{name} is only there when it was asked for");
    }
}

#[tokio::test]
async fn a_fallback_is_traced_over_http() {
    assert_a_fallback_is_traced(Collector::http().await).await;
}

#[tokio::test]
async fn a_fallback_is_traced_over_grpc() {
    assert_a_fallback_is_traced(Collector::grpc().await).await;
}

#[tokio::test]
async fn the_caller_decides_about_recording_and_else_the_ratio() {
    let collector = Collector::http().await;
    let world = traced(&collector, "sample_ratio = 0").await;
    world.chat_ok(&chat("acme/fast")).await;
    let header = world.upstream.last().header("traceparent").expect("a new trace").to_owned();
    assert!(header.ends_with("-00"), "{header}");
    let unsampled = world.client.with_header("traceparent", &format!("00-{TRACE}-{PARENT}-00"));
    unsampled.post_json(CHAT, &chat("acme/fast")).await.ok();
    let header = world.upstream.last().header("traceparent").expect("the caller's trace").to_owned();
    assert!(header.starts_with(&format!("00-{TRACE}-")) && header.ends_with("-00"), "{header}");
    let sampled = world.client.with_header("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    sampled.post_json(CHAT, &chat("acme/fast")).await.ok();
    let spans = collector.wait_for(2).await;
    assert_eq!(spans.len(), 2, "only the sampled request is recorded");
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
}

#[tokio::test]
async fn a_span_says_whom_a_request_is_for() {
    let collector = Collector::http().await;
    let key = "[[keys]]\nname = \"app\"\nkey = \"sk-app\"\ntrust_attribution = true\n";
    let extra = format!("{key}{}", collector.config(""));
    let world = Setup { extra, ..Setup::default() }.start().await;
    let client = world.client.with_key("sk-app").with_header("x-gateway-user", "ann");
    let client = client.with_header("x-gateway-tags", "a,b").with_header("x-gateway-branch", "main");
    client.post_json(CHAT, &chat("acme/fast")).await.ok();
    let spans = in_order(collector.wait_for(2).await);
    let about = attributes(&spans[0].attributes);
    let expected = [
        ("gateway.end_user", json!("ann")),
        ("gateway.tags", json!(["a", "b"])),
        ("gateway.branch", json!("main")),
        ("gateway.repository", Value::Null),
    ];
    assert_attributes(&about, &expected);
}

#[tokio::test]
async fn without_a_collector_upstreams_get_no_trace_headers() {
    let world = world().await;
    let client = world.client.with_header("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    let answer = client.post_json(CHAT, &chat("acme/fast")).await.ok();
    assert_eq!(world.upstream.last().header("traceparent"), None);
    let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    assert_eq!(line.get("trace_id"), None);
}

#[tokio::test]
async fn a_stream_has_the_time_of_its_first_token_and_a_refusal_has_a_span() {
    let collector = Collector::http().await;
    let world = traced(&collector, "").await;
    let more = json!({ "stream": true, "temperature": 0.5, "seed": 7, "max_tokens": 9 });
    world.client.stream(CHAT, &chat_with("acme/fast", more)).await.rest().await;
    let spans = in_order(collector.wait_for(2).await);
    let about = attributes(&spans[1].attributes);
    let first_chunk = about["gen_ai.response.time_to_first_chunk"].as_f64();
    assert!(first_chunk.is_some_and(|seconds| seconds > 0.0), "{about}");
    let events: Vec<_> = spans[1].events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, ["gateway.first_token"]);
    assert_attributes(
        &about,
        &[
            ("gen_ai.request.stream", json!(true)),
            ("gen_ai.response.finish_reasons", json!(["stop"])),
            ("gen_ai.response.model", json!("fast-2026-01")),
            ("gen_ai.request.temperature", json!(0.5)),
            ("gen_ai.request.seed", json!(7)),
            ("gen_ai.request.max_tokens", json!(9)),
        ],
    );
    world.client.with_key("sk-wrong").post_json(CHAT, &chat("acme/fast")).await;
    let spans = collector.wait_for(3).await;
    let mut all = spans.iter().map(|span| attributes(&span.attributes));
    let refused = all.find(|about| about["http.response.status_code"] == 401).expect("its span");
    assert_eq!(refused["error.type"], "invalid_api_key");
}

#[tokio::test]
async fn content_is_masked_and_langfuse_gets_its_names() {
    let collector = Collector::http().await;
    let more = "content = true\ncompat = \"langfuse\"\nsemantic_conventions = \"next\"";
    let world = traced(&collector, more).await;
    let messages = json!({ "messages": [{ "role": "user", "content": "Write to ann@example.com" }] });
    world.chat_ok(&chat_with("acme/fast", messages)).await;
    let spans = in_order(collector.wait_for(2).await);
    let about = attributes(&spans[1].attributes);
    let read =
        |name: &str| -> Value { serde_json::from_str(about[name].as_str().expect("content")).expect("JSON") };
    let input = read("gen_ai.input.messages");
    let asked = input[0]["parts"][0]["content"].as_str().expect("a text");
    assert!(asked.starts_with("Write to ") && !asked.contains("ann@"), "{asked}");
    let text = json!([{ "type": "text", "content": "Hello from upstream" }]);
    let answer = json!([{ "role": "assistant", "parts": text, "finish_reason": "stop" }]);
    assert_eq!(read("gen_ai.output.messages"), answer);
    assert_attributes(
        &about,
        &[
            ("gen_ai.system", json!("acme")),
            ("gen_ai.prompt.0.role", json!("user")),
            ("gen_ai.completion.0.content", json!("Hello from upstream")),
            ("gen_ai.usage.prompt_tokens", json!(10)),
            ("gen_ai.usage.completion_tokens", json!(5)),
        ],
    );
    let about = attributes(&spans[0].attributes);
    assert_eq!(about.get("gen_ai.input.messages"), None, "content stands once");
}

/// The object that a client gets at once says `queued`; the span has the answer.
#[tokio::test]
async fn the_content_of_a_response_in_the_background_is_its_answer() {
    let collector = Collector::http().await;
    let extra = collector.config("content = true\nsemantic_conventions = \"next\"");
    let acme = "responses = false".to_owned();
    let world = Setup { acme, extra, ..Setup::default() }.start().await;
    let request = json!({"model": "acme/fast", "input": "Hi", "background": true});
    world.client.post_json("/v1/responses", &request).await.ok();
    let spans = in_order(collector.wait_for(2).await);
    let about: Vec<Value> = spans.iter().map(|span| attributes(&span.attributes)).collect();
    let output = about.iter().find_map(|about| about["gen_ai.output.messages"].as_str());
    let output = output.unwrap_or_else(|| panic!("no content in {about:?}"));
    assert!(output.contains("Hello from upstream") && !output.contains("queued"), "{output}");
}

#[tokio::test]
async fn i12_no_secret_is_in_a_span() {
    let collector = Collector::http().await;
    let more = "headers = { \"x-api-key\" = \"collector-canary-5521\" }";
    let world = traced(&collector, more).await;
    let canary = "prompt-canary-4711";
    let refusal = format!("bad key {UPSTREAM_KEY} for {canary}");
    world.upstream.enqueue(Answer::error(401, "invalid_api_key", &refusal));
    world.upstream.enqueue(Answer::error(400, "bad", &refusal));
    for _ in 0..3 {
        let messages = json!({ "messages": [{ "role": "user", "content": canary }], "user": canary });
        world.chat(&chat_with("acme/fast", messages)).await;
    }
    collector.wait_for(6).await;
    let mut heap = Heap::default();
    for (place, bytes) in collector.messages().into_iter().enumerate() {
        heap.add(format!("batch {place}"), bytes);
    }
    heap.add("logs", [world.gateway.stdout(), world.gateway.stderr()].concat().join("\n"));
    heap.holds_none_of(&[canary, UPSTREAM_KEY, KEY, "collector-canary-5521"]);
    assert_eq!(collector.upstream().last().header("x-api-key"), Some("collector-canary-5521"));
}

#[tokio::test]
async fn a_hanging_collector_costs_spans_and_no_request() {
    let collector = Collector::http().await;
    collector.upstream().always(Answer::default().hang());
    let world = traced(&collector, "timeout_ms = 60000").await;
    world.chat_ok(&chat("acme/fast")).await;
    collector.upstream().request(0).await;
    let before = world.gateway.rss_kib();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let client = world.client.clone();
        clients.spawn(async move {
            for _ in 0..400 {
                assert_eq!(client.with_key("sk-wrong").get("/v1/models").await.status, 401);
            }
            client.post_json(CHAT, &chat("acme/fast")).await.ok();
        });
    }
    clients.join_all().await;
    // 6,416 requests came, and 4,096 may wait.
    assert_eq!(collector.upstream().hits(), 1, "one call at a time");
    assert_eq!(metric(&world, "gateway_spans_waiting").await, 4096.0);
    let dropped = metric(&world, "gateway_spans_dropped_total").await;
    assert!((2_320.0..=2_336.0).contains(&dropped), "{dropped} spans dropped");
    let grown = world.gateway.rss_kib().saturating_sub(before);
    at_most("KiB of waiting spans", grown, 64 << 10);
    world.gateway.sigterm();
    let has_ended = || world.gateway.stderr().iter().any(|line| line.contains("stopped")).then_some(());
    eventually("a hanging collector does not hold up the end", has_ended).await;
}

#[tokio::test]
async fn refused_spans_are_counted_and_sent_again_if_the_refusal_passes() {
    let collector = Collector::http().await;
    collector.upstream().enqueue(Answer::full(400, &[], ""));
    let world = traced(&collector, "").await;
    world.chat_ok(&chat("acme/fast")).await;
    until(&world, "gateway_spans_dropped_total", 2.0).await;
    assert_eq!(collector.upstream().hits(), 1, "a batch that is refused for good is not sent again");
    collector.upstream().enqueue(Answer::full(503, &[], ""));
    world.chat_ok(&chat("acme/fast")).await;
    until(&world, "gateway_spans_sent_total", 2.0).await;
    assert_eq!(collector.upstream().hits(), 3);
    assert_eq!(metric(&world, "gateway_spans_dropped_total").await, 2.0);
}
