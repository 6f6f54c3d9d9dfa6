//! The catalogue: list with paging and filters, one entry by every spelling of its id, comparison.

use serde_json::{Value, json};

use crate::harness::{LIMITED, World, assert_invalid, world};

async fn get(world: &World, path: &str) -> Value {
    world.client.get(path).await.ok().json()
}

fn ids(list: &Value) -> Vec<String> {
    let entries = list["data"].as_array().expect("data");
    entries.iter().map(|entry| entry["id"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn lists_every_model_of_the_configured_providers() {
    let world = world().await;
    let list = get(&world, "/v1/models").await;
    assert_eq!(list["object"], "list");
    assert_eq!(list["has_more"], false);
    let all = ids(&list);
    assert_eq!(list["total"], json!(all.len()));
    for id in ["acme/fast", "acme/plain", "acme/embed", "beta/fast", "demo/chat", "demo/embed"] {
        assert!(all.iter().any(|have| have == id), "{id} in {all:?}");
    }
    let (alias, models) = all.split_last().expect("models");
    assert_eq!(alias, "smart", "the aliases come last");
    assert!(models.iter().all(|id| ["acme/", "beta/", "demo/"].iter().any(|p| id.starts_with(p))), "{all:?}");
    for entry in list["data"].as_array().expect("data") {
        assert_eq!(entry["object"], "model");
        assert!(entry["created"].is_u64() && entry["owned_by"] == entry["provider"], "{entry}");
    }
    assert_eq!(get(&world, "/v1/models/").await, list, "a trailing slash is not significant");
}

#[tokio::test]
async fn pages_by_limit_after_and_offset() {
    let world = world().await;
    let all = ids(&get(&world, "/v1/models").await);
    let first = get(&world, "/v1/models?limit=2").await;
    assert_eq!(
        (ids(&first), &first["has_more"], &first["total"]),
        (all[..2].to_vec(), &json!(true), &json!(all.len()))
    );
    let second = get(&world, &format!("/v1/models?limit=2&after={}", all[1])).await;
    assert_eq!(ids(&second), all[2..4]);
    let tail = get(&world, &format!("/v1/models?offset={}", all.len() - 1)).await;
    assert_eq!((ids(&tail), &tail["has_more"]), (all[all.len() - 1..].to_vec(), &json!(false)));
    assert_eq!(ids(&get(&world, "/v1/models?offset=100000").await).len(), 0);
    for query in ["after=acme/none", "after=acme/fast&offset=1", "limit=x"] {
        assert_eq!(world.client.get(&format!("/v1/models?{query}")).await.status, 400, "{query}");
    }
    get(&world, "/v1/models?unknown=1").await;
}

#[tokio::test]
async fn filters_by_provider_category_feature_modality_and_search() {
    let world = world().await;
    let beta = get(&world, "/v1/models?provider=beta").await;
    assert_eq!(ids(&beta), ["beta/fast", "beta/spare", "beta/embed-fixed"]);
    assert_eq!(beta["total"], 3);
    let both = ids(&get(&world, "/v1/models?provider=acme,beta&category=embedding").await);
    assert_eq!(both.len(), 2);
    assert_eq!(
        ids(&get(&world, "/v1/models?provider=acme&feature=vision,json_mode").await),
        ["acme/fast", "smart"]
    );
    assert_eq!(ids(&get(&world, "/v1/models?provider=acme&modality=image").await), ["acme/fast", "smart"]);
    assert_eq!(ids(&get(&world, "/v1/models?search=QUICK%20and").await), ["acme/fast", "smart"]);
    let page = get(&world, "/v1/models?provider=beta&limit=1").await;
    assert_eq!((&page["total"], &page["has_more"]), (&json!(3), &json!(true)), "total counts before paging");
    let none = get(&world, "/v1/models?category=nonsense").await;
    assert_eq!((ids(&none).len(), &none["total"]), (0, &json!(0)));
}

#[tokio::test]
async fn one_model_has_every_field() {
    let world = world().await;
    let model = get(&world, "/v1/models/acme/fast").await;
    let expected = json!({
        "id": "acme/fast", "object": "model", "name": "Acme Fast", "provider": "acme", "description": "Quick and cheap",
        "category": ["chat"], "context_length": 128_000, "max_output_tokens": 16384,
        "modalities": { "input": ["text", "image"], "output": ["text"] },
        "features": ["streaming", "function_calling", "json_mode", "json_schema", "vision"],
        "license": "proprietary",
        "performance": { "availability": 99.9, "latency_p50_ms": 400, "latency_p99_ms": 2000 },
        "quality_scores": { "overall": 60, "code": 58, "math": 62, "reasoning": 55 }
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(numbers(&model[name]), numbers(value), "{name}");
    }
    let pricing = &model["pricing"];
    for (name, value) in [
        ("official_input_per_m", 0.15),
        ("official_output_per_m", 0.60),
        ("gateway_input_per_m", 0.15),
        ("gateway_output_per_m", 0.60),
        ("cached_input_per_m", 0.075),
    ] {
        assert_eq!(pricing[name].as_f64(), Some(value), "{name}");
    }
    assert_eq!(pricing["currency"], "USD");
}

/// Integers and decimals compare equal.
fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers).collect(),
        Value::Object(members) => members.iter().map(|(name, item)| (name.clone(), numbers(item))).collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn what_nobody_knows_is_null_or_empty_but_present() {
    let world = world().await;
    let model = get(&world, "/v1/models/acme/unpriced").await;
    for name in [
        "id",
        "object",
        "name",
        "provider",
        "description",
        "category",
        "context_length",
        "max_output_tokens",
        "modalities",
        "features",
        "license",
        "pricing",
        "performance",
        "quality_scores",
    ] {
        assert!(model.get(name).is_some(), "{name} in {model}");
    }
    assert!(model["context_length"].is_null());
    assert_eq!(model["license"], "unknown");
    assert_eq!(model["description"], "");
    for name in [
        "official_input_per_m",
        "official_output_per_m",
        "gateway_input_per_m",
        "gateway_output_per_m",
        "cached_input_per_m",
    ] {
        assert!(model["pricing"].get(name).is_some_and(Value::is_null), "{name}: {}", model["pricing"]);
    }
    for name in ["overall", "code", "math", "reasoning"] {
        assert!(model["quality_scores"].get(name).is_some_and(Value::is_null), "{name}");
    }
    for name in ["availability", "latency_p50_ms", "latency_p99_ms"] {
        assert!(model["performance"].get(name).is_some_and(Value::is_null), "{name}");
    }
}

#[tokio::test]
async fn an_id_is_found_by_each_of_its_spellings() {
    let world = world().await;
    for path in ["acme/fast", "acme%2Ffast", "acme%2ffast", "acme/fast/", "fast", "smart", "%61cme/fast"] {
        assert_eq!(get(&world, &format!("/v1/models/{path}")).await["id"], "acme/fast", "{path}");
    }
    for path in ["acme%252Ffast", "acme//fast", "acme", "acme/fast/x"] {
        let answer = world.client.get(&format!("/v1/models/{path}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_key_sees_only_the_models_of_its_list() {
    let world = world().await;
    let limited = world.client.with_key(LIMITED);
    let list = limited.get("/v1/models").await.ok().json();
    assert_eq!((ids(&list), &list["total"]), (vec!["acme/plain".to_owned()], &json!(1)));
    let answer = limited.get("/v1/models/compare?models=acme/plain,acme/fast").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
}

#[tokio::test]
async fn compares_two_to_four_models_with_highlights() {
    let world = world().await;
    let body = get(&world, "/v1/models/compare?models=beta/fast,acme/fast,acme/plain").await;
    assert_eq!(body["object"], "model_comparison");
    assert_eq!(body["models"], json!(["beta/fast", "acme/fast", "acme/plain"]));
    let keys: Vec<_> = body["comparison"].as_object().expect("a map").keys().cloned().collect();
    assert_eq!(keys.len(), 3);
    let entry = &body["comparison"]["acme/fast"];
    assert_eq!(entry["name"], "Acme Fast");
    assert_eq!(entry["provider"], "acme");
    assert_eq!(entry["context_length"], 128_000);
    assert_eq!(entry["pricing"]["gateway_input_per_m"].as_f64(), Some(0.15));
    assert_eq!(entry["performance"]["latency_p50_ms"].as_f64(), Some(400.0));
    assert_eq!(entry["quality_scores"]["code"].as_f64(), Some(58.0));
    let highlights = json!({ "cheapest": "acme/fast", "fastest": "acme/fast", "best_quality": "acme/fast",
        "best_code": "acme/fast", "longest_context": "acme/fast" });
    assert_eq!(body["highlights"], highlights);
    let without_data = get(&world, "/v1/models/compare?models=acme/unpriced,beta/embed-fixed").await;
    assert_eq!(without_data["highlights"]["fastest"], "acme/unpriced", "no data: the first");
    assert!(without_data["comparison"]["acme/unpriced"]["pricing"]["gateway_input_per_m"].is_null());
}

#[tokio::test]
async fn comparison_names_are_joined_trimmed_resolved_and_counted_once() {
    let world = world().await;
    for query in [
        "models=smart,acme/plain",
        "models=acme/fast&models=acme/plain",
        "models=%20acme%2Ffast%20,,acme/plain,fast",
    ] {
        let body = get(&world, &format!("/v1/models/compare?{query}")).await;
        assert_eq!(body["models"], json!(["acme/fast", "acme/plain"]), "{query}");
    }
    let answer = world.client.get("/v1/models/compare?models=smart,fast").await;
    assert_invalid("the same model twice", &answer, "invalid_value");
}
