//! Moderations: OpenAI's request and answer, the usual model, Mistral's results, the cost, and wrong answers.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, logged, with, world};

const PATH: &str = "/v1/moderations";

async fn ok(world: &World, body: &Value) -> Value {
    world.client.post_json(PATH, body).await.ok().json()
}

#[tokio::test]
async fn an_answer_has_openais_shape_and_the_row_has_its_cost() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let result = json!({
        "flagged": true, "categories": {"violence": true, "illicit": null}, "category_scores": {"violence": 0.90, "illicit": 0},
        "category_applied_input_types": {"violence": ["text"]}
    });
    world
        .upstream
        .enqueue(Answer::json(200, &json!({"id": "x", "model": "mod-1", "results": [result, result]})));
    let body = json!({"model": "acme/moderation", "input": ["Hello", "Hi"], "user": "u", "extra": 1});
    let answer = world.client.post_json(PATH, &body).await.ok();
    let told = answer.json();
    assert!(told["id"].as_str().is_some_and(|id| id.starts_with("modr-")), "{told}");
    assert_eq!((&told["model"], &told["results"]), (&json!("mod-1"), &json!([result, result])));
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/moderations");
    assert_eq!(sent.json(), json!({"model": "moderation", "input": ["Hello", "Hi"]}));
    // The upstream counts no tokens. 7 bytes are 3 tokens, and the frame of each input has 8.
    assert_eq!(told["usage"], json!({"prompt_tokens": 19, "total_tokens": 19}));
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.000019"));
    let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
    assert_eq!((&row["surface"], &row["operation"]), (&json!("moderations"), &json!("moderation")), "{row}");
    assert_eq!(row["cost_usd"], json!(0.000_019), "{row}");
}

#[tokio::test]
async fn addresses_and_names_of_files_in_texts_are_texts() {
    let world = world().await;
    let text = "http://169.254.169.254/latest and files/a, file-abc";
    for input in
        [json!("gs://operator/a"), json!([text, "s3://b/c"]), json!([{"type": "text", "text": text}])]
    {
        let found = json!({"model": "mod-1", "results": [{"flagged": false, "categories": {}, "category_scores": {}}]});
        let results = if input.as_array().is_some_and(|all| all.len() == 2) { 2 } else { 1 };
        let found = with(found.clone(), json!({"results": vec![found["results"][0].clone(); results]}));
        world.upstream.enqueue(Answer::json(200, &found));
        ok(&world, &json!({"model": "acme/moderation", "input": input})).await;
        assert_eq!(world.upstream.last().json()["input"], input);
    }
}

#[tokio::test]
async fn a_request_without_a_model_gets_the_first_one_that_its_key_may_use() {
    let key = |name: &str, models: &str| {
        format!("[[keys]]\nname = \"{name}\"\nkey = \"sk-test-{name}-models\"\nmodels = [\"{models}\"]\n")
    };
    let extra = key("demo", "demo/*") + &key("chat", "acme/fast");
    let world = Setup { extra, ..Setup::default() }.start().await;
    let body = json!({"input": "Hello"});
    let answer = world.client.post_json(PATH, &body).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("acme/moderation"));
    let row =
        logged(&world.gateway.client().with_key(ADMIN), answer.header("x-request-id").expect("an id")).await;
    assert_eq!(row["requested_model"], "acme/moderation", "{row}");
    let answer = world.gateway.client().with_key("sk-test-demo-models").post_json(PATH, &body).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("demo/moderation"));
    let refused = world.gateway.client().with_key("sk-test-chat-models").post_json(PATH, &body).await;
    assert_invalid("no model of the key", &refused, "missing_required_parameter");
    let admin = world.gateway.client().with_key(ADMIN);
    let named = json!({"model": "acme/moderation", "input": "x"});
    let explained = admin.post_json("/admin/v1/routing/explain", &named).await.ok().json();
    assert_eq!(explained["candidates"][0]["model"], "acme/moderation", "{explained}");
}

#[tokio::test]
async fn the_demo_flags_a_word_and_mistral_tells_no_flag() {
    let mistral = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"mist\"\napi = \"mistral\"\nbase_url = \"{}\"\napi_key = \"sk-m\"\n\
         [[models]]\nid = \"mist/judge\"\ncategory = [\"moderation\"]\npricing = {{ official_input_per_m = 1.0 }}\n",
        mistral.base_url()
    );
    let world = Setup { extra, ..Setup::default() }.start().await;
    let flags = |answer: &Value| -> Vec<bool> {
        answer["results"]
            .as_array()
            .expect("results")
            .iter()
            .filter_map(|result| result["flagged"].as_bool())
            .collect()
    };
    let texts = ok(&world, &json!({"model": "demo/moderation", "input": ["peace", "Violence!"]})).await;
    assert_eq!(flags(&texts), [false, true]);
    for members in ["categories", "category_scores", "category_applied_input_types"] {
        let told = texts["results"][1][members].as_object().expect("OpenAI's categories");
        assert!(told.len() == 13 && told.contains_key("self-harm/intent"), "{texts}");
    }
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}});
    let parts = json!([{"type": "text", "text": "violence"}, image]);
    assert_eq!(flags(&ok(&world, &json!({"model": "demo/moderation", "input": parts})).await), [true]);
    let result =
        json!({"categories": {"pii": true, "hate": false}, "category_scores": {"pii": 0.9, "hate": 0.1}});
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5});
    mistral.enqueue(Answer::json(
        200,
        &json!({"id": "m", "model": "judge", "results": [result], "usage": usage}),
    ));
    let answer = world.client.post_json(PATH, &json!({"model": "mist/judge", "input": "x"})).await.ok();
    assert_eq!(flags(&answer.json()), [true]);
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.000005"));
    assert_eq!(
        (&*mistral.last().path, mistral.last().json()),
        ("/v1/moderations", json!({"model": "judge", "input": "x"}))
    );
}

#[tokio::test]
async fn other_models_and_wrong_answers_are_refused_and_fallbacks_judge() {
    let world = world().await;
    for model in ["acme/fast", "acme/embed", "acme/rerank"] {
        let answer = world.client.post_json(PATH, &json!({"model": model, "input": "x"})).await;
        assert_invalid(model, &answer, "unsupported_model");
    }
    let chat = json!({"model": "acme/moderation", "messages": [{"role": "user", "content": "x"}]});
    assert_invalid(
        "a chat",
        &world.client.post_json("/v1/chat/completions", &chat).await,
        "unsupported_model",
    );
    assert_eq!(world.upstream.hits(), 0);
    let result = json!({"flagged": false, "categories": {"a": false}, "category_scores": {"a": 0.1}});
    for results in [json!([result, result]), json!([]), json!([{"flagged": false}]), json!("none")] {
        world.upstream.enqueue(Answer::json(200, &json!({"results": results})));
        let answer = world.client.post_json(PATH, &json!({"model": "acme/moderation", "input": "x"})).await;
        assert_error(&results.to_string(), &answer, 502, "upstream_error", "upstream_invalid_response");
    }
    world.upstream.enqueue(Answer::error(500, "server_error", "down"));
    let body =
        json!({"model": "acme/moderation", "input": "x", "routing": {"fallback": ["demo/moderation"]}});
    let answer = world.client.post_json(PATH, &body).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("demo/moderation"));
}
