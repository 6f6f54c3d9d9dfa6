//! A missing price is never silent, and zero only where SPEC.md wants a number: in a chat.

use gw_testkit::upstream::{chat_body, chat_transcript};
use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::ledger::{documents, rows};
use crate::harness::{ADMIN, Setup, World, chat, chat_with, with};

const MODEL: &str = "acme/unpriced";

/// A key whose budget refuses what it cannot count.
const STRICT: &str = "sk-test-strict-budget";

async fn start() -> World {
    let extra = format!(
        "[[models]]\nid = \"acme/unpriced-embed\"\ncategory = [\"embedding\"]\n\
         [[models]]\nid = \"acme/unpriced-rerank\"\ncategory = [\"rerank\"]\n\
         [[models]]\nid = \"acme/unpriced-moderation\"\ncategory = [\"moderation\"]\n\
         [[models]]\nid = \"acme/unpriced-speak\"\ncategory = [\"speech\"]\n\
         [[models]]\nid = \"acme/unpriced-paint\"\ncategory = [\"image\"]\n\
         [[keys]]\nname = \"strict\"\nkey = \"{STRICT}\"\nbudget_usd = 5.0\nunpriced = \"refuse\"\n\
         [[keys]]\nname = \"open\"\nkey = \"sk-test-open-budget\"\nbudget_usd = 5.0\nunpriced = \"allow\"\n"
    );
    Setup { extra, ..Setup::default() }.start().await
}

#[tokio::test]
async fn c28_an_unknown_price_is_zero_in_a_chat_and_absent_everywhere_else() {
    let world = start().await;
    let message = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let completion = json!({"model": MODEL, "prompt": "Hi"});
    let response = json!({"model": MODEL, "input": "Hi"});
    for (path, body) in [
        ("/v1/chat/completions", chat(MODEL)),
        ("/v1/completions", completion),
        ("/v1/messages", message),
        ("/v1/responses", response),
    ] {
        let is_chat = path == "/v1/chat/completions";
        let answer = world.client.post_json(path, &body).await.ok();
        let told = answer.json();
        let cost = is_chat.then_some(0.0);
        assert_eq!(told["usage"]["cost_usd"].as_f64(), cost, "{path}: {told}");
        assert_eq!(told["gateway"]["warnings"], json!(["price_unknown"]), "{path}");
        assert_eq!(told["gateway"]["attempts"][0]["cost_usd"], Value::Null, "{path}: {told}");
        assert_eq!(answer.header("x-gateway-cost-usd"), None, "{path}");

        let mut streamed = with(body, json!({"stream": true}));
        if path.ends_with("completions") {
            streamed["stream_options"] = json!({"include_usage": true});
            world.upstream.enqueue(Answer::sse().all(&chat_transcript(&["x"])).done());
        }
        let frames = world.client.stream(path, &streamed).await.rest().await;
        let documents = documents(&frames);
        let usages: Vec<&Value> = documents
            .iter()
            .flat_map(|document| [&document["usage"], &document["response"]["usage"]])
            .filter(|usage| usage.is_object())
            .collect();
        let costs: Vec<Option<f64>> = usages.iter().map(|usage| usage["cost_usd"].as_f64()).collect();
        assert_eq!(costs.last(), Some(&cost), "{path}: {frames:?}");
    }
    let embedding = json!({"model": "acme/unpriced-embed", "input": "Hi"});
    let answer = world.client.post_json("/v1/embeddings", &embedding).await.ok();
    assert_eq!(answer.header("x-gateway-cost-usd"), None);
    // A known price is a number on all of them.
    let priced =
        world.client.post_json("/v1/completions", &json!({"model": "acme/fast", "prompt": "Hi"})).await;
    assert_eq!(priced.ok().json()["usage"]["cost_usd"].as_f64(), Some(0.000_004_5));
}

#[tokio::test]
async fn the_row_the_reports_and_the_metric_name_unpriced_requests() {
    let world = start().await;
    world.chat(&chat(MODEL)).await.ok();
    world.chat(&chat("acme/fast")).await.ok();
    let found = rows(&world.gateway, 2).await;
    let row = found.iter().find(|row| *row.model == *MODEL).expect("the row");
    assert_eq!((row.unpriced, row.cost, row.attempts[0].cost), (true, 0, None));
    let admin = world.gateway.client().with_key(ADMIN);
    let shown = admin.get(&format!("/admin/v1/requests/{}", row.request_id)).await.ok().json();
    assert_eq!((&shown["cost_usd"], &shown["unpriced"]), (&Value::Null, &json!(true)), "{shown}");
    assert_eq!(shown["attempts"][0]["cost_usd"], Value::Null);
    let listed = admin.get("/admin/v1/requests?model=acme/fast").await.ok().json();
    let priced = &listed["data"][0];
    assert_eq!((priced["cost_usd"].as_f64(), &priced["unpriced"]), (Some(0.000_004_5), &Value::Null));

    let report = admin.get("/admin/v1/usage?by=model").await.ok().json();
    let of = |model: &str| {
        let rows = report["data"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["model"] == model).expect("the model");
        (row["cost_usd"].as_f64(), row["unpriced_requests"].as_u64())
    };
    assert_eq!((of(MODEL), of("acme/fast")), ((Some(0.0), Some(1)), (Some(0.000_004_5), Some(0))));
    assert_eq!(report["total"]["unpriced_requests"], 1);
    let csv = admin.get("/admin/v1/usage?by=model&format=csv").await.ok().text();
    let line = csv.lines().find(|line| line.starts_with(MODEL)).expect("the model");
    assert!(
        csv.lines()
            .next()
            .expect("a head")
            .ends_with(",cost_usd,provider_cost_usd,saved_usd,unpriced_requests"),
        "{csv}"
    );
    assert!(line.ends_with(",0,,0,1"), "{csv}");
    let me = world.client.get("/v1/me").await.ok().json();
    let day = &me["spend"]["day"];
    assert_eq!(
        (day["cost_usd"].as_f64(), day["unpriced_requests"].as_u64()),
        (Some(0.000_004_5), Some(1)),
        "{me}"
    );
    let page = admin.get("/metrics").await.ok().text();
    let counts = |line: &&str| line.starts_with("gateway_unpriced_requests_total{") && line.ends_with(" 1");
    assert_eq!(page.lines().filter(counts).count(), 1, "{page}");
    let log = world.gateway.log_of(&row.request_id).await;
    assert_eq!(log["cost_usd"], Value::Null, "{log}");
}

#[tokio::test]
async fn a_budget_that_refuses_unpriced_requests_names_the_model_and_sends_nothing() {
    let world = start().await;
    let strict = world.gateway.client().with_key(STRICT);
    let hits = world.upstream.hits();
    for (path, body) in [
        ("/v1/chat/completions", chat(MODEL)),
        ("/v1/chat/completions", chat_with(MODEL, json!({"stream": true}))),
        ("/v1/responses", json!({"model": MODEL, "input": "Hi"})),
        ("/v1/completions", json!({"model": MODEL, "prompt": "Hi"})),
        ("/v1/embeddings", json!({"model": "acme/unpriced-embed", "input": "Hi"})),
        ("/v1/score", json!({"model": "acme/unpriced-rerank", "text_1": "q", "text_2": "Hi"})),
        ("/v1/moderations", json!({"model": "acme/unpriced-moderation", "input": "Hi"})),
        ("/v1/images/generations", json!({"model": "acme/unpriced-paint", "prompt": "Hi"})),
        ("/v1/audio/speech", json!({"model": "acme/unpriced-speak", "input": "Hi", "voice": "v"})),
        ("/v1/rerank", json!({"model": "acme/unpriced-rerank", "query": "q", "documents": ["Hi"]})),
    ] {
        let refused = strict.post_json(path, &body).await;
        assert_eq!((refused.status, refused.code().as_str()), (429, "insufficient_quota"), "{path}");
        let model = body["model"].as_str().expect("a model");
        assert!(refused.message().contains(&format!("'{model}'")), "{}", refused.message());
        assert_eq!(refused.header("x-should-retry"), Some("false"), "{path}");
    }
    let contents = json!({"contents": [{"parts": [{"text": "Hi"}]}]});
    let refused = strict.post_json(&format!("/v1beta/models/{MODEL}:generateContent"), &contents).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "insufficient_quota"));
    let message = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let refused = strict.post_json("/v1/messages", &message).await;
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (429, &json!("billing_error")));
    assert_eq!(world.upstream.hits(), hits, "nothing is sent");
    // A model with a price passes, also as the fallback of one without.
    strict.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    let fallback = chat_with(MODEL, json!({"routing": {"fallback": ["acme/fast"]}}));
    let served = strict.post_json("/v1/chat/completions", &fallback).await.ok().json();
    assert_eq!(served["gateway"]["model_used"], "acme/fast");
    let open = world.gateway.client().with_key("sk-test-open-budget");
    open.post_json("/v1/chat/completions", &chat(MODEL)).await.ok();
}

#[tokio::test]
async fn the_policy_is_kept_by_the_keys_and_teams_api() {
    let world = start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let body = json!({"name": "n", "budget_usd": 1, "unpriced": "refuse"});
    let key = admin.post_json("/admin/v1/keys", &body).await;
    assert_eq!((key.status, &key.json()["unpriced"]), (201, &json!("refuse")), "{}", key.text());
    let client = world.gateway.client().with_key(key.json()["key"].as_str().expect("the key"));
    let refused = client.post_json("/v1/chat/completions", &chat(MODEL)).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "insufficient_quota"));
    // The policy needs no budget.
    let key = admin.post_json("/admin/v1/keys", &json!({"name": "n", "unpriced": "refuse"})).await;
    assert_eq!((key.status, &key.json()["unpriced"]), (201, &json!("refuse")), "{}", key.text());
    let client = world.gateway.client().with_key(key.json()["key"].as_str().expect("the key"));
    let refused = client.post_json("/v1/chat/completions", &chat(MODEL)).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "insufficient_quota"));
}

/// One case of the table: the prices of a model, its reported usage, and the cost of a call in USD; None = unpriced.
type Unit = (&'static str, &'static str, Value, Option<f64>);

#[tokio::test]
async fn s18_every_unit_is_charged_by_its_own_price_or_marked() {
    let usage = |prompt: Value, completion: Value| {
        json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
            "prompt_tokens_details": prompt, "completion_tokens_details": completion})
    };
    let (none, text) = (json!({}), "official_input_per_m = 1.0, official_output_per_m = 10.0");
    let cases: Vec<Unit> = vec![
        ("text", "", usage(none.clone(), none.clone()), Some(0.002)),
        ("reasoning", "", usage(none.clone(), json!({"reasoning_tokens": 60})), Some(0.002)),
        ("fee", ", official_per_query = 0.005", usage(none.clone(), none.clone()), Some(0.007)),
        ("hour", ", cache_write_per_m = 1.25", usage(hour_write(), none.clone()), Some(0.002_4)),
        (
            "hour-set",
            ", cache_write_per_m = 1.25, cache_write_1h_per_m = 3.0",
            usage(hour_write(), none.clone()),
            Some(0.002_8),
        ),
        ("sound", "", usage(json!({"audio_tokens": 400}), none.clone()), None),
        (
            "sound-set",
            ", official_audio_input_per_m = 11.0",
            usage(json!({"audio_tokens": 400}), none.clone()),
            Some(0.006),
        ),
        ("speech", "", usage(none.clone(), json!({"audio_tokens": 40})), None),
        (
            "speech-set",
            ", official_audio_output_per_m = 60.0",
            usage(none.clone(), json!({"audio_tokens": 40})),
            Some(0.004),
        ),
        ("image", "", usage(none.clone(), json!({"image_tokens": 40})), None),
        (
            "image-set",
            ", official_image_output_per_m = 60.0",
            usage(none.clone(), json!({"image_tokens": 40})),
            Some(0.004),
        ),
    ];
    let models = cases.iter().map(|(name, more, _, _)| {
        format!("[[models]]\nid = \"acme/{name}\"\ncategory = [\"chat\"]\npricing = {{ {text}{more}, currency = \"USD\" }}\n")
    });
    let world = Setup { extra: models.collect(), ..Setup::default() }.start().await;
    for (name, _, usage, expected) in cases {
        enqueue(&world.upstream, usage);
        let answer = world.chat(&chat(&format!("acme/{name}"))).await.ok().json();
        let cost = answer["usage"]["cost_usd"].as_f64();
        assert_eq!(cost, Some(expected.unwrap_or(0.0)), "{name}: {answer}");
        let marked = answer["gateway"]["warnings"] == json!(["price_unknown"]);
        assert_eq!(marked, expected.is_none(), "{name}: {answer}");
    }
    // The tokens of sound cost at least as much as text: a budget counts so much, and the row is marked.
    let found = rows(&world.gateway, 11).await;
    let row = found.iter().find(|row| *row.model == *"acme/sound").expect("the row");
    assert_eq!((row.unpriced, row.cost), (true, 2_000_000_000_000), "{row:?}");
}

/// Details of a prompt of which 400 tokens are kept for an hour.
fn hour_write() -> Value {
    json!({"cache_write_tokens": 400, "cache_creation_token_details": {"ephemeral_1h_input_tokens": 400}})
}

fn enqueue(upstream: &FakeUpstream, usage: Value) {
    let mut body = chat_body("m", "x");
    body["usage"] = usage;
    upstream.enqueue(Answer::json(200, &body));
}

#[tokio::test]
async fn a_hit_whose_original_was_unpriced_saves_an_unknown_cost() {
    let world = start().await;
    let cached = chat_with(MODEL, json!({"cache": {"enabled": true}}));
    world.chat(&cached).await.ok();
    let hit = world.chat(&cached).await.ok();
    assert_eq!(hit.json()["gateway"]["cache_hit"], true, "{}", hit.text());
    assert_eq!(hit.json()["gateway"].get("saved_usd"), None, "{}", hit.text());
    let row =
        crate::harness::logged(&world.client.with_key(ADMIN), hit.header("x-request-id").expect("an id"))
            .await;
    assert_eq!((&row["cache_hit"], &row["saved_usd"]), (&json!(true), &Value::Null), "{row}");
}

/// The answer names a service tier whose price the catalogue does not hold.
#[tokio::test]
async fn an_answer_in_another_service_tier_is_unpriced() {
    let world = start().await;
    for (tier, is_priced) in [("default", true), ("priority", false), ("flex", false)] {
        let mut body = chat_body("acme/fast", "Hi");
        body["service_tier"] = json!(tier);
        world.upstream.enqueue(Answer::json(200, &body));
        let plain = world.chat(&chat("acme/fast")).await.ok();
        let warnings = plain.json()["gateway"]["warnings"].to_string();
        assert_eq!(!warnings.contains("price_unknown"), is_priced, "{tier}: {warnings}");
        let frames: Vec<Value> = chat_transcript(&["x"])
            .into_iter()
            .map(|frame| with(frame, json!({"service_tier": tier})))
            .collect();
        world.upstream.enqueue(Answer::sse().all(&frames).done());
        let streamed = world.chat(&chat_with("acme/fast", json!({"stream": true}))).await.ok();
        for answer in [plain, streamed] {
            let id = answer.header("x-request-id").expect("an id");
            let row = crate::harness::logged(&world.client.with_key(ADMIN), id).await;
            assert_eq!(row["cost_usd"].is_number(), is_priced, "{tier}: {row}");
            assert_eq!(row["unpriced"] == true, !is_priced, "{tier}: {row}");
        }
    }
}

#[tokio::test]
async fn the_metric_has_the_known_part_of_an_unknown_cost_as_the_reports_have() {
    let world = start().await;
    for tier in ["default", "priority"] {
        let mut body = chat_body("acme/fast", "Hi");
        body["service_tier"] = json!(tier);
        world.upstream.enqueue(Answer::json(200, &body));
        world.chat(&chat("acme/fast")).await.ok();
    }
    rows(&world.gateway, 2).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let report = admin.get("/admin/v1/usage?by=model").await.ok().json();
    assert_eq!(report["total"]["cost_usd"].as_f64(), Some(0.000_009), "{report}");
    let page = admin.get("/metrics").await.ok().text();
    let line =
        page.lines().find(|line| line.starts_with("gateway_cost_usd_total{") && line.contains("acme/fast"));
    assert_eq!(line.and_then(|line| line.rsplit(' ').next()), Some("0.000009"), "{page}");
}
