//! Embeddings: batches, both encodings, dimensions, and errors for invalid upstream answers.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::{KEY, Setup, World, assert_error, serve, with, world};

const PATH: &str = "/v1/embeddings";

fn embed(more: Value) -> Value {
    with(json!({ "model": "acme/embed", "input": "text" }), more)
}

async fn ok(world: &World, body: &Value) -> Value {
    world.client.post_json(PATH, body).await.ok().json()
}

#[tokio::test]
async fn answers_exactly_the_specified_shape() {
    let world = world().await;
    let body = ok(&world, &embed(json!({}))).await;
    let expected = json!({
        "object": "list", "model": "embed",
        "data": [{ "object": "embedding", "index": 0, "embedding": [0.0, 0.25, -0.5, 1.0] }],
        "usage": { "prompt_tokens": 8, "total_tokens": 8 }
    });
    assert_eq!(normal(&body), normal(&expected));
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/embeddings");
    assert_eq!(sent.json()["encoding_format"], "float", "we ask for numbers whatever the client wants");
}

/// 0 and 0.0 are the same number to a client.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => members.iter().map(|(name, item)| (name.clone(), normal(item))).collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn a_count_in_bedrocks_headers_is_the_usage_of_an_answer_without_any() {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"aws\"\napi = \"bedrock\"\nregion = \"eu-west-1\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"aws/embed\"\nupstream_model = \"cohere.embed-v4:0\"\ncategory = [\"embedding\"]\n",
        upstream.addr
    );
    let gateway = serve(&config).await;
    let headers = [("content-type", "application/json"), ("x-amzn-bedrock-input-token-count", "3")];
    upstream.always(Answer::full(200, &headers, r#"{"embeddings":{"float":[[0.5,1.0]]}}"#));
    let body = json!({ "model": "aws/embed", "input": "a text of more than three tokens" });
    let answer = gateway.client().with_key(KEY).post_json(PATH, &body).await.ok().json();
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["usage"]["total_tokens"]), (&json!(3), &json!(3)));
    // The count in a body goes first.
    let counted = r#"{"embedding":[0.5,1.0],"inputTextTokenCount":5}"#;
    upstream.always(Answer::full(200, &headers, counted));
    let answer = gateway.client().with_key(KEY).post_json(PATH, &body).await.ok().json();
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["usage"]["total_tokens"]), (&json!(5), &json!(5)));
}

#[tokio::test]
async fn base64_is_made_by_the_gateway() {
    let world = world().await;
    let body = ok(&world, &embed(json!({ "encoding_format": "base64" }))).await;
    // 0, 0.25, -0.5, 1 as little-endian f32.
    assert_eq!(body["data"][0]["embedding"], "AAAAAAAAgD4AAAC/AACAPw==");
    assert_eq!(world.upstream.last().json()["encoding_format"], "float");
}

#[tokio::test]
async fn a_batch_keeps_its_order_even_when_the_upstream_does_not() {
    let world = world().await;
    let item =
        |index: u64, first: f64| json!({ "object": "embedding", "index": index, "embedding": [first, 1.0] });
    world.upstream.enqueue(Answer::json(200, &json!({ "object": "list", "model": "m",
        "data": [item(2, 22.0), item(0, 20.0), item(1, 21.0)], "usage": { "prompt_tokens": 3, "total_tokens": 3 } })));
    let body = ok(&world, &embed(json!({ "input": ["a", "b", "c"] }))).await;
    for (place, item) in body["data"].as_array().expect("data").iter().enumerate() {
        assert_eq!(item["index"], json!(place));
        assert_eq!(
            item["embedding"][0].as_f64(),
            Some(20.0 + f64::from(u32::try_from(place).expect("small")))
        );
    }
}

#[tokio::test]
async fn a_batch_over_the_providers_limit_is_split_and_joined() {
    let world = Setup { acme: "embedding_batch = 4".to_owned(), ..Setup::default() }.start().await;
    let inputs: Vec<_> = (0..10).map(|place| format!("text {place}")).collect();
    let body = ok(&world, &embed(json!({ "input": inputs }))).await;
    assert_eq!(world.upstream.hits(), 3);
    let mut sizes: Vec<_> = world
        .upstream
        .requests()
        .iter()
        .map(|sent| sent.json()["input"].as_array().map_or(0, Vec::len))
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 4, 4]);
    let firsts: Vec<_> =
        body["data"].as_array().expect("data").iter().map(|item| item["embedding"][0].as_f64()).collect();
    let expected: Vec<_> =
        [0, 1, 2, 3, 0, 1, 2, 3, 0, 1].iter().map(|&place| Some(f64::from(place))).collect();
    assert_eq!(firsts, expected);
    assert_eq!(body["usage"]["prompt_tokens"], 24);
}

#[tokio::test]
async fn members_that_every_batch_repeats_are_bounded() {
    let world = Setup { acme: "embedding_batch = 4".to_owned(), ..Setup::default() }.start().await;
    let ask = |inputs: usize, bytes: usize| {
        embed(json!({ "input": vec!["x"; inputs], "small": 1, "filler": "x".repeat(bytes) }))
    };
    // Ten calls of 3 MiB each, and one larger call.
    for (inputs, bytes, calls) in [(40, 3 << 20, 10), (4, 8 << 20, 1)] {
        let hits = world.upstream.hits();
        ok(&world, &ask(inputs, bytes)).await;
        assert_eq!(world.upstream.hits() - hits, calls);
    }
    let hits = world.upstream.hits();
    let answer = world.client.post_json(PATH, &ask(44, 3 << 20)).await;
    assert_error("11 calls", &answer, 400, "invalid_request_error", "unsupported_value");
    let message = "Invalid 'filler': too large beside so many inputs. The model 'acme/embed' takes 4 inputs in one call, and \
                   each of the 11 calls repeats the 3145759 bytes of the members beside 'input'. Expected at most 33554432 \
                   bytes in all of them together.";
    assert_eq!(answer.json()["error"]["message"], message);
    assert_eq!(world.upstream.hits(), hits, "no request is sent");
}

#[tokio::test]
async fn dimensions_go_up_when_the_model_has_them() {
    let world = world().await;
    let body = ok(&world, &embed(json!({ "dimensions": 8 }))).await;
    assert_eq!(body["data"][0]["embedding"].as_array().map(Vec::len), Some(8));
    assert_eq!(world.upstream.last().json()["dimensions"], 8);
}

#[tokio::test]
async fn wrong_vectors_are_an_invalid_upstream_response() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let vector =
        |index: u64, numbers: Value| json!({ "object": "embedding", "index": index, "embedding": numbers });
    let answers = [
        (json!({ "data": [vector(0, json!([1.0]))] }), json!({ "input": ["a", "b"] })),
        (
            json!({ "data": [vector(0, json!([1.0])), vector(0, json!([1.0]))] }),
            json!({ "input": ["a", "b"] }),
        ),
        (
            json!({ "data": [vector(0, json!([1.0])), vector(1, json!([1.0, 2.0]))] }),
            json!({ "input": ["a", "b"] }),
        ),
        (json!({ "data": [] }), json!({})),
        (json!({ "data": [vector(0, json!(["x"]))] }), json!({})),
        (json!({ "data": [vector(0, json!([1.0, 2.0, 3.0]))] }), json!({ "dimensions": 8 })),
    ];
    for (upstream, request) in answers {
        world.upstream.enqueue(Answer::json(200, &upstream));
        let answer = world.client.post_json(PATH, &embed(request)).await;
        assert_error(&upstream.to_string(), &answer, 502, "upstream_error", "upstream_invalid_response");
    }
}

#[tokio::test]
async fn mixed_inputs_are_refused_and_foreign_members_ignored() {
    let world = world().await;
    for input in [json!(["a", 1]), json!([null]), json!([[]]), json!([[1], "a"])] {
        let answer = world.client.post_json(PATH, &embed(json!({ "input": input }))).await;
        assert_eq!(answer.status, 400, "{input}: {}", answer.text());
    }
    assert_eq!(world.upstream.hits(), 0);
    // Embeddings ignore the members `routing` and `cache`.
    ok(
        &world,
        &embed(json!({ "routing": { "strategy": "cheapest" }, "cache": { "enabled": true }, "user": "u" })),
    )
    .await;
    assert!(world.upstream.last().json().get("routing").is_none());
}

#[tokio::test]
async fn token_inputs_for_models_with_other_tokens_name_the_way_out() {
    let world = world().await;
    for input in [json!([1, 2, 3]), json!([[1, 2], [3]])] {
        let answer = world.client.post_json(PATH, &embed(json!({ "input": input }))).await;
        crate::harness::assert_invalid("tokens", &answer, "unsupported_value");
        assert!(answer.message().contains("check_embedding_ctx_length"), "{}", answer.message());
    }
}

#[tokio::test]
async fn token_inputs_reach_the_upstreams_that_take_them() {
    let world = Setup { acme: "token_arrays = true".to_owned(), ..Setup::default() }.start().await;
    for (input, count) in [(json!([1, 2, 3]), 1), (json!([[1, 2], [3]]), 2)] {
        let body = ok(&world, &embed(json!({ "input": input }))).await;
        assert_eq!(body["data"].as_array().map(Vec::len), Some(count));
        let sent = world.upstream.last().json()["input"].clone();
        // One array of tokens and a list with one array mean one input.
        assert!(sent == input || sent == json!([input]), "{sent}");
    }
    let openai = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"openai/embed\"\ncategory = [\"embedding\"]\n",
        openai.base_url()
    );
    let world = Setup { extra, ..Setup::default() }.start().await;
    let body = json!({ "model": "openai/embed", "input": [[1, 2], [3]] });
    world.client.post_json(PATH, &body).await.ok();
    assert_eq!(openai.last().json()["input"], json!([[1, 2], [3]]));
}

#[tokio::test]
async fn token_inputs_are_forwarded_or_refused_by_every_dialect_before_the_call() {
    let (mut config, upstreams) = crate::harness::providers::config_of_all("").await;
    for (name, _) in crate::harness::providers::targets() {
        config.push_str(&format!("[[models]]\nid = \"my-{name}/vectors\"\ncategory = [\"embedding\"]\n"));
    }
    // The preset `openai`, and a server of the dialect whose models use OpenAI's tokens.
    let takers = [FakeUpstream::start().await, FakeUpstream::start().await];
    for (taker, (name, more)) in
        takers.iter().zip([("openai", ""), ("own", "api = \"openai\"\ntoken_arrays = true")])
    {
        config.push_str(&format!(
            "[[providers]]\nname = \"{name}\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n{more}\n\
             [[models]]\nid = \"{name}/vectors\"\ncategory = [\"embedding\"]\n",
            taker.base_url()
        ));
    }
    let gateway = serve(&config).await;
    let client = gateway.client().with_key(KEY);
    let ask = |name: &str| json!({ "model": format!("{name}/vectors"), "input": [[1, 2], [3]] });
    let mut forwarding = Vec::new();
    for ((name, _), upstream) in crate::harness::providers::targets().zip(&upstreams) {
        let answer = client.post_json(PATH, &ask(&format!("my-{name}"))).await;
        if upstream.hits() > 0 {
            assert_eq!(upstream.last().json()["input"], json!([[1, 2], [3]]), "{name}");
            forwarding.push(name);
            continue;
        }
        crate::harness::assert_invalid(name, &answer, "unsupported_value");
        assert!(answer.message().starts_with("Invalid 'input': "), "{name}: {}", answer.message());
        assert!(answer.message().contains("check_embedding_ctx_length"), "{name}: {}", answer.message());
    }
    // Azure's models are OpenAI's.
    assert_eq!(forwarding, ["azure"]);
    for (name, taker) in ["openai", "own"].iter().zip(&takers) {
        client.post_json(PATH, &ask(name)).await.ok();
        assert_eq!(taker.last().json()["input"], json!([[1, 2], [3]]), "{name}");
    }
}

#[tokio::test]
async fn missing_usage_is_estimated() {
    let world = world().await;
    world.upstream.enqueue(Answer::json(200, &json!({ "data": [{ "index": 0, "embedding": [1.0] }] })));
    let body = ok(&world, &embed(json!({ "input": "a text of some length" }))).await;
    assert!(body["usage"]["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{body}");
    assert_eq!(body["model"], "acme/embed", "the requested name when the upstream reports none");
}

#[tokio::test]
async fn the_demo_provider_embeds_in_any_dimension() {
    let world = world().await;
    let ask = |input: &str| json!({ "model": "demo/embed", "input": input, "dimensions": 64 });
    let (first, again, other) =
        (ok(&world, &ask("one")).await, ok(&world, &ask("one")).await, ok(&world, &ask("two")).await);
    assert_eq!(first["data"], again["data"]);
    assert_ne!(first["data"], other["data"]);
    assert_eq!(first["data"][0]["embedding"].as_array().map(Vec::len), Some(64));
}
