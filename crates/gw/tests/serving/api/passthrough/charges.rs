//! The costs of requests that pass through, the lists of keys, limits and budgets.

use gw_testkit::Answer;
use gw_testkit::upstream::Step;
use serde_json::{Value, json};

use super::{admin, row, told, world_with};
use crate::harness::{LIMITED, assert_error, with};

/// `acme/fast` by its name at the provider.
const FAST: &str = "fast-2026-01";

#[tokio::test]
async fn reported_tokens_are_charged_at_the_models_prices_else_the_fee_else_the_row_is_unpriced() {
    let world = world_with("").await;
    let cost = |row: &Value| (row["cost_usd"].clone(), row["unpriced"].clone(), row["tokens"].clone());
    for (path, model, body, wanted) in [
        // 100 × 0.15 + 10 × 0.60 per million.
        ("/acme/chat/completions", FAST, told(), (json!(0.000_021), Value::Null)),
        ("/acme/chat/completions", "unknown", told(), (Value::Null, json!(true))),
        ("/acme/chat/completions", FAST, json!({"ok": 1}), (Value::Null, json!(true))),
        ("/fee/chat/completions", FAST, told(), (json!(0.0125), Value::Null)),
        ("/fee/read/x", FAST, told(), (json!(0.000_021), Value::Null)),
        ("/fee/read/x", "unknown", told(), (json!(0.5), Value::Null)),
        ("/fee/read/x", FAST, json!({}), (json!(0.5), Value::Null)),
        // 100 × 100 + 10 × 200 per million.
        ("/v1/videos", "unknown", told(), (json!(0.012), Value::Null)),
    ] {
        world.upstream.enqueue(Answer::json(200, &body));
        let asked = json!({"model": model, "any": {"thing": [1]}});
        let answer = world.client.post_json(path, &asked).await.ok();
        assert_eq!(answer.json(), body);
        assert_eq!(world.upstream.last().json(), asked, "the body goes as it is");
        let row = row(&world, &answer).await;
        let (cost, unpriced, _) = cost(&row);
        assert_eq!((cost, unpriced), wanted, "{path} {model}: {row}");
        // A body that nothing is read from passes as it comes.
        let named = if path.starts_with("/fee/chat") { "" } else { model };
        assert_eq!((&row["requested_model"], &row["operation"]), (&json!(named), &json!("passthrough")));
        let known =
            if named == FAST { "acme/fast".to_owned() } else { format!("passthrough{}", route_of(path)) };
        assert_eq!(row["model"], known, "{row}");
    }
    let metrics = admin(&world).get("/metrics").await.ok().text();
    assert!(
        metrics
            .contains("gateway_http_requests_total{route=\"passthrough\",method=\"POST\",status=\"200\"} 8")
    );
}

fn route_of(path: &str) -> &str {
    ["/fee/read", "/fee", "/acme", "/v1/videos"]
        .into_iter()
        .find(|route| path.starts_with(route))
        .expect("a route")
}

#[tokio::test]
async fn streams_pass_as_they_come_and_every_ending_is_charged() {
    let world = world_with("").await;
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n";
    let asked = json!({"model": FAST, "stream": true});
    world.upstream.enqueue(Answer::sse().chunk(text).chunk(usage).then(Step::EndChunks));
    let answer = world.client.post_json("/acme/chat/completions", &asked).await.ok();
    assert_eq!(answer.text(), [text, usage].concat());
    let served = row(&world, &answer).await;
    assert_eq!((&served["cost_usd"], &served["stream"]), (&json!(0.000_021), &json!(true)), "{served}");
    // A stream without usage, and one that breaks off: the prompt of 39 bytes has 13 tokens, the answer of 5 bytes has 2.
    let estimate = json!(0.000_003_15);
    world.upstream.enqueue(Answer::sse().chunk(text).then(Step::EndChunks));
    let answer = world.client.post_json("/acme/chat/completions", &asked).await.ok();
    let silent = row(&world, &answer).await;
    assert_eq!((&silent["cost_usd"], &silent["estimated"]), (&estimate, &json!(true)), "{silent}");
    world.upstream.enqueue(Answer::sse().chunk(text).then(Step::Reset));
    let answer = world.client.post_json("/acme/chat/completions", &asked).await;
    assert!(answer.broken && answer.status == 200, "the client sees that it broke off");
    let torn = row(&world, &answer).await;
    assert_eq!((&torn["cost_usd"], &torn["status"]), (&estimate, &json!("upstream_stream_error")), "{torn}");
    world.upstream.enqueue(Answer::sse().chunk(text).then(Step::Hang));
    let mut stream = world.client.stream("/acme/chat/completions", &asked).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    stream.data().await.expect("an event");
    stream.close();
    let left = crate::harness::logged(&admin(&world), &id).await;
    assert_eq!((&left["cost_usd"], &left["status"]), (&estimate, &json!("client_closed_request")), "{left}");
    world.upstream.last().until_closed().await;
    // With a cost of each request, a torn answer costs that.
    world.upstream.enqueue(Answer::sse().chunk(text).then(Step::Close));
    let answer = world.client.post_json("/fee/x", &asked).await;
    assert!(answer.broken);
    assert_eq!(row(&world, &answer).await["cost_usd"], json!(0.0125));
}

#[tokio::test]
async fn an_answer_without_usage_is_estimated_and_a_count_that_no_model_can_have_is_the_models_limit() {
    let world = world_with(
        "[[passthrough]]\npath = \"/by-second\"\nprovider = \"acme\"\nusage = \"openai\"\n\
         pricing = { official_per_second = 0.0001 }\n\
         [[models]]\nid = \"acme/draw\"\npricing = { official_per_image = 0.04 }\n",
    )
    .await;
    let asked = json!({"model": FAST, "stream": true});
    let text = json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]});
    let huge = 1_u64 << 60;
    let counts = json!({"prompt_tokens": huge, "completion_tokens": huge});
    let told = json!({"choices": [{"message": {"content": "Hello"}}], "usage": counts});
    for (name, answer, (prompt, completion), cost) in [
        // The prompt of 39 bytes has 13 tokens, the answer of 5 bytes has 2: 13 × 0.15 + 2 × 0.60 per million.
        ("texts", Answer::json(200, &text), (13, 2), 0.000_003_15),
        ("no event", Answer::sse().then(Step::EndChunks), (13, 0), 0.000_001_95),
        (
            "an end alone",
            Answer::sse().chunk("data: [DONE]\n\n").then(Step::EndChunks),
            (13, 0),
            0.000_001_95,
        ),
        // The context and the longest answer of the model: 128,000 × 0.15 + 16,384 × 0.60 per million.
        ("more than any model", Answer::json(200, &told), (128_000, 16_384), 0.029_030_4),
    ] {
        world.upstream.enqueue(answer);
        let answer = world.client.post_json("/acme/chat/completions", &asked).await.ok();
        let row = row(&world, &answer).await;
        let tokens = (row["prompt_tokens"].as_u64(), row["completion_tokens"].as_u64());
        assert_eq!(tokens, (Some(prompt), Some(completion)), "{name}: {row}");
        assert_eq!((&row["cost_usd"], &row["estimated"]), (&json!(cost), &json!(true)), "{name}: {row}");
        assert_eq!(row["unpriced"], Value::Null, "{name}: {row}");
    }
    // An answer that a client reads again was charged when the model wrote it.
    world.upstream.enqueue(Answer::json(200, &text));
    let read_again = world.client.get("/acme/chat/completions/chatcmpl_1").await.ok();
    // Texts do not tell the number of images. A price of the route is no sign that a model wrote them.
    world
        .upstream
        .enqueue(Answer::json(200, &json!({"data": [{"revised_prompt": "A cat", "url": "https://x"}]})));
    let drawn = world.client.post_json("/acme/images/generations", &json!({"model": "draw"})).await.ok();
    world.upstream.enqueue(Answer::sse().chunk("data: {\"b64_json\":\"eA==\"}\n\n").then(Step::EndChunks));
    let drawing = json!({"model": "draw", "stream": true});
    let drawn_in_parts = world.client.post_json("/acme/images/generations", &drawing).await.ok();
    world.upstream.enqueue(Answer::json(200, &json!({"text": "x"})));
    let media = Some("multipart/form-data; boundary=x");
    let heard =
        world.client.send("POST", "/by-second/audio/transcriptions", media, Some(b"--x--")).await.ok();
    for answer in [read_again, drawn, drawn_in_parts, heard] {
        let row = row(&world, &answer).await;
        assert_eq!((&row["cost_usd"], &row["unpriced"]), (&Value::Null, &json!(true)), "{row}");
    }
}

#[tokio::test]
async fn a_key_with_a_list_of_models_names_a_model_of_it() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &told()));
    let client = world.gateway.client().with_key(LIMITED);
    client.post_json("/acme/chat/completions", &json!({"model": "plain"})).await.ok();
    client.get("/acme/v1beta/models/plain:generateContent").await.ok();
    let hits = world.upstream.hits();
    for body in [
        json!({"model": FAST}),
        json!({"model": "unknown"}),
        json!({}),
        json!({"model": "plain", "Model": FAST}),
        json!({"model": "plain", "models": [FAST]}),
        json!({"model": ["plain"]}),
        json!({"model": "plain", "preset": "other"}),
        json!({"model": "plain", "plugins": [{"id": "web", "model": FAST}]}),
        json!({"model": "plain", "extra_body": {"model": FAST}}),
        json!({"model": "plain", "tools": [{"type": "image_generation", "model": FAST}]}),
    ] {
        let answer = client.post_json("/acme/chat/completions", &body).await;
        assert_error(&body.to_string(), &answer, 403, "permission_error", "model_not_allowed");
    }
    let twice = br#"{"model":"plain","model":"fast-2026-01"}"#;
    let answer = client.post_bytes("/acme/chat/completions", twice).await;
    assert_error("two models", &answer, 403, "permission_error", "model_not_allowed");
    for path in ["/acme/models", "/acme/models/fast-2026-01", "/acme/models/plain;fast-2026-01:x", "/fee/x"] {
        let answer = client.get(path).await;
        assert_error(path, &answer, 403, "permission_error", "model_not_allowed");
    }
    let form =
        client.send("POST", "/acme/files", Some("multipart/form-data; boundary=x"), Some(b"--x--")).await;
    assert_error("a form", &form, 403, "permission_error", "model_not_allowed");
    for encoding in ["gzip", "deflate", "br, identity"] {
        let client = client.with_header("Content-Encoding", encoding);
        let encoded = client.post_json("/acme/chat/completions", &json!({"model": "plain"})).await;
        assert_error(encoding, &encoded, 403, "permission_error", "model_not_allowed");
    }
    assert_eq!(world.upstream.hits(), hits, "nothing was sent");
    let refused = row(&world, &form).await;
    assert_eq!(
        (&refused["status"], &refused["cost_usd"]),
        (&json!("model_not_allowed"), &json!(0)),
        "{refused}"
    );
}

#[tokio::test]
async fn further_names_of_models_need_to_be_in_the_list_too_and_matter_to_no_other_key() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &told()));
    let limited = world.gateway.client().with_key(LIMITED);
    let path = "/acme/chat/completions";
    for (path, more) in [
        (path, json!({"model_id": FAST})),
        (path, json!({"Deployment": FAST})),
        (path, json!({"engine": FAST})),
        (path, json!({"deployment_id": FAST})),
        (path, json!({"model_name": FAST})),
        (path, json!({"base_model": FAST})),
        (path, json!({"speech_model": FAST})),
        (path, json!({"speech_models": [FAST]})),
        (path, json!({"session": {"type": "realtime", "model": FAST}})),
        (path, json!({"requests": [{"model": "plain"}, {"params": {"model": FAST}}]})),
        ("/acme/engines/fast-2026-01/completions", json!({})),
    ] {
        let body = with(json!({"model": "plain"}), more);
        let hits = world.upstream.hits();
        let answer = limited.post_json(path, &body).await;
        assert_error(&body.to_string(), &answer, 403, "permission_error", "model_not_allowed");
        assert_eq!(world.upstream.hits(), hits, "{body}: nothing is sent");
        // A key without a list sends it, at the price of the model in `model`.
        let free = world.client.post_json(path, &body).await.ok();
        assert_eq!(row(&world, &free).await["model"], "acme/plain", "{body}");
    }
    let called = json!([{"role": "assistant", "content": [{"type": "tool_use", "input": {"model": FAST}}]}]);
    for (path, body) in [
        (path, json!({"model": "plain", "model_id": "plain", "session": {"model": "plain"}})),
        (path, json!({"model_id": "plain"})),
        (path, json!({"model": "plain", "messages": called})),
        ("/acme/engines/plain/completions", json!({})),
    ] {
        limited.post_json(path, &body).await.ok();
    }
    let inner = limited.post_json(path, &json!({"session": {"model": "plain"}})).await;
    assert_error("only an inner object names one", &inner, 403, "permission_error", "model_not_allowed");
}

#[tokio::test]
async fn work_that_no_usage_shows_makes_the_cost_unknown() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &told()));
    for more in [
        json!({"web_search_options": {}}),
        json!({"tools": [{"type": "web_search"}]}),
        json!({"plugins": []}),
    ] {
        let body = with(json!({"model": "plain"}), more);
        let answer = world.client.post_json("/acme/chat/completions", &body).await.ok();
        let row = row(&world, &answer).await;
        assert_eq!((&row["unpriced"], &row["prompt_tokens"]), (&json!(true), &json!(100)), "{body}: {row}");
    }
}

#[tokio::test]
async fn limits_budgets_and_roles_hold() {
    let keys = "[[keys]]\nname = \"poor\"\nkey = \"sk-test-poor\"\nbudget_usd = 0.02\n\
        [[keys]]\nname = \"careful\"\nkey = \"sk-test-careful\"\nbudget_usd = 1.0\nunpriced = \"refuse\"\n\
        [[keys]]\nname = \"slow\"\nkey = \"sk-test-slow\"\nrpm = 1\n\
        [[keys]]\nname = \"few\"\nkey = \"sk-test-few-tokens\"\ntpm = 50\n\
        [[keys]]\nname = \"eye\"\nkey = \"sk-test-viewer\"\nrole = \"viewer\"\n";
    let world = world_with(keys).await;
    world.upstream.always(Answer::json(200, &json!({})));
    let client = |key: &str| world.gateway.client().with_key(key);
    client("sk-test-poor").get("/fee/x").await.ok();
    let answer = client("sk-test-poor").get("/fee/x").await;
    assert_error("0.0125 twice", &answer, 429, "insufficient_quota", "insufficient_quota");
    let hits = world.upstream.hits();
    let careful = client("sk-test-careful");
    let answer = careful.post_json("/acme/x", &json!({"model": "unknown"})).await;
    assert_error("no price", &answer, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), hits);
    careful.post_json("/acme/x", &json!({"model": FAST})).await.ok();
    careful.get("/fee/x").await.ok();
    let slow = client("sk-test-slow");
    let first = slow.get("/fee/x").await.ok();
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("0"));
    assert_error("rpm", &slow.get("/fee/x").await, 429, "rate_limit_error", "rate_limit_exceeded");
    let asked = json!({"model": FAST, "max_tokens": 100});
    let answer = client("sk-test-few-tokens").post_json("/acme/x", &asked).await;
    assert_error("tpm", &answer, 429, "rate_limit_error", "rate_limit_exceeded");
    let answer = client("sk-test-viewer").get("/fee/x").await;
    assert_error("a viewer", &answer, 403, "permission_error", "role_not_allowed");
}

#[tokio::test]
async fn recordings_are_charged_by_their_seconds_or_by_the_tokens_of_their_sound() {
    let routes = "[[passthrough]]\npath = \"/by-second\"\nprovider = \"acme\"\nusage = \"openai\"\n\
        pricing = { official_per_second = 0.0001 }\n\
        [[passthrough]]\npath = \"/by-token\"\nprovider = \"acme\"\nusage = \"openai\"\n\
        pricing = { official_input_per_m = 2.5, official_audio_input_per_m = 6.0, official_output_per_m = 10.0 }\n\
        [[keys]]\nname = \"poor\"\nkey = \"sk-test-poor\"\nbudget_usd = 0.01\n";
    let world = world_with(routes).await;
    let media = Some("multipart/form-data; boundary=x");
    let tokens = json!({
        "type": "tokens", "input_tokens": 24, "output_tokens": 45, "total_tokens": 69,
        "input_token_details": {"text_tokens": 10, "audio_tokens": 14}
    });
    for (path, usage, cost, units) in [
        ("/by-second", json!({"type": "duration", "seconds": 30.5}), 0.003_05, json!({"second": 30.5})),
        // 10 × 2.5 + 14 × 6 + 45 × 10 per million.
        ("/by-token", tokens, 0.000_559, Value::Null),
    ] {
        world.upstream.enqueue(Answer::json(200, &json!({"text": "x", "usage": usage})));
        let path = format!("{path}/audio/transcriptions");
        let answer = world.client.send("POST", &path, media, Some(b"--x--")).await.ok();
        let row = row(&world, &answer).await;
        assert_eq!((&row["cost_usd"], &row["unpriced"]), (&json!(cost), &Value::Null), "{path}: {row}");
        assert_eq!(row["units"], units, "{path}: {row}");
    }
    // 200,000 bytes are at most 200 seconds: 0.02 USD.
    let hits = world.upstream.hits();
    let poor = world.gateway.client().with_key("sk-test-poor");
    let refused =
        poor.send("POST", "/by-second/audio/transcriptions", media, Some(&vec![b'-'; 200_000])).await;
    assert_error("200 seconds", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), hits);
}

#[tokio::test]
async fn pages_and_images_are_charged_by_their_own_prices() {
    let routes = "[[passthrough]]\npath = \"/read\"\nprovider = \"acme\"\nusage = \"openai\"\n\
        pricing = { official_per_page = 0.001 }\n\
        [[passthrough]]\npath = \"/draw\"\nprovider = \"acme\"\nusage = \"openai\"\n\
        pricing = { official_input_per_m = 5.0, official_image_input_per_m = 10.0, official_output_per_m = 10.0, \
        official_image_output_per_m = 40.0 }\n\
        [[keys]]\nname = \"poor\"\nkey = \"sk-test-poor\"\nbudget_usd = 0.5\n";
    let world = world_with(routes).await;
    let read = json!({"pages": [{"index": 0, "markdown": "x"}], "usage_info": {"pages_processed": 3, "doc_size_bytes": 9}});
    let drawn = |more: Value| {
        let usage = json!({"input_tokens": 50, "output_tokens": 272, "total_tokens": 322,
            "input_tokens_details": {"text_tokens": 10, "image_tokens": 40}});
        json!({"created": 1, "data": [{"b64_json": "QQ=="}], "usage": with(usage, more)})
    };
    let detailed = json!({"output_tokens_details": {"text_tokens": 72, "image_tokens": 200}});
    for (path, answer, cost, units) in [
        ("/read/ocr", read, 0.003, json!({"page": 3})),
        // 10 × 5 + 40 × 10 + 272 × 40 per million: output without details is images.
        ("/draw/images/generations", drawn(json!({})), 0.011_33, Value::Null),
        // 10 × 5 + 40 × 10 + 72 × 10 + 200 × 40 per million.
        ("/draw/images/generations", drawn(detailed), 0.009_17, Value::Null),
    ] {
        world.upstream.enqueue(Answer::json(200, &answer));
        let answer = world.client.post_json(path, &json!({"model": "any"})).await.ok();
        let row = row(&world, &answer).await;
        assert_eq!((&row["cost_usd"], &row["unpriced"]), (&json!(cost), &Value::Null), "{path}: {row}");
        assert_eq!(row["units"], units, "{path}: {row}");
    }
    // A document has at most 1,000 pages: one USD.
    let hits = world.upstream.hits();
    let refused = world
        .gateway
        .client()
        .with_key("sk-test-poor")
        .post_json("/read/ocr", &json!({"model": "any"}))
        .await;
    assert_error("1,000 pages", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), hits);
}

#[tokio::test]
async fn an_answer_of_a_known_cost_tells_what_its_budget_has_left() {
    let key = "[[keys]]\nname = \"rich\"\nkey = \"sk-rich\"\nbudget_usd = 1.0\n";
    let world = world_with(key).await;
    world.upstream.always(Answer::json(200, &told()));
    let rich = world.gateway.client().with_key("sk-rich");
    for left in ["0.9875", "0.975"] {
        let answer = rich.post_json("/fee/x", &json!({})).await.ok();
        assert_eq!(answer.header("x-gateway-budget-left-usd"), Some(left));
    }
    // The cost of tokens is known when the answer is over, and a key without a budget has nothing left.
    let read = rich.post_json("/acme/chat/completions", &json!({"model": "fast-2026-01"})).await.ok();
    assert_eq!(read.header("x-gateway-budget-left-usd"), None);
    let free = world.client.post_json("/fee/x", &json!({})).await.ok();
    assert_eq!(free.header("x-gateway-budget-left-usd"), None);
}
