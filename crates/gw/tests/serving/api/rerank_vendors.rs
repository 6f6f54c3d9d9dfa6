//! Rerank at the clouds: the calls of Bedrock, Vertex AI and Azure, their answers, and their prices by search unit.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, logged};

const PATH: &str = "/v1/rerank";

async fn start(upstream: &FakeUpstream) -> World {
    let base = upstream.base_url();
    let base = base.trim_end_matches("/v1");
    let provider = |name: &str, more: &str| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{name}\"\nbase_url = \"{base}\"\napi_key = \"sk-upstream-key-000\"\n{more}\n"
        )
    };
    let model = |id: &str| {
        format!(
            "[[models]]\nid = \"{id}\"\ncategory = [\"rerank\"]\npricing = {{ official_per_search_unit = 0.002 }}\n"
        )
    };
    let extra = [
        provider("bedrock", "region = \"us-east-1\""),
        provider("vertex", "project = \"my-project\"\nregion = \"europe-west4\""),
        provider("azure", "deployments = { \"cohere-rerank-v4\" = \"ranker\" }"),
        model("bedrock/cohere.rerank-v3-5:0"),
        model("bedrock/amazon.rerank-v1:0"),
        model("vertex/semantic-ranker-default@latest"),
        model("azure/cohere-rerank-v4"),
    ];
    Setup { extra: extra.concat(), routing: "retries = 0", ..Setup::default() }.start().await
}

fn rerank(model: &str, documents: usize) -> Value {
    let documents: Vec<String> = (0..documents).map(|at| format!("document {at}")).collect();
    json!({"model": model, "query": "q", "documents": documents, "top_n": 2, "user": "ann"})
}

async fn row_of(world: &World, answer: &gw_testkit::Response) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    logged(&admin, answer.header("x-request-id").expect("an id")).await
}

#[tokio::test]
async fn bedrock_invokes_a_reranker_with_the_version_of_its_api() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    let results = [json!({"index": 1, "relevance_score": 0.5}), json!({"index": 0, "relevance_score": 0.9})];
    upstream.always(Answer::json(200, &json!({"results": results})));
    for (name, path) in [
        ("cohere.rerank-v3-5:0", "/model/cohere.rerank-v3-5%3A0/invoke"),
        ("amazon.rerank-v1:0", "/model/amazon.rerank-v1%3A0/invoke"),
    ] {
        let body = rerank(&format!("bedrock/{name}"), 3);
        let answer = world.client.post_json(PATH, &body).await.ok();
        let expected = json!([{"index": 0, "relevance_score": 0.9}, {"index": 1, "relevance_score": 0.5}]);
        assert_eq!(answer.json()["results"], expected, "{name}");
        assert_eq!(answer.json()["meta"]["billed_units"]["search_units"], 1, "{name}");
        assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.002"), "{name}");
        let sent = upstream.last();
        assert_eq!(sent.path, path);
        assert_eq!(sent.header("authorization"), Some("Bearer sk-upstream-key-000"));
        let expected = json!({
            "query": "q", "documents": ["document 0", "document 1", "document 2"], "top_n": 2, "api_version": 2
        });
        assert_eq!(sent.json(), expected, "{name}");
    }
    let answer = world.client.post_json(PATH, &rerank("bedrock/cohere.rerank-v3-5:0", 201)).await.ok();
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.006"));
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["units"], &row["cost_usd"]), (&json!({"search_unit": 3}), &json!(0.006)), "{row}");
    let hits = upstream.hits();
    let mut body = rerank("bedrock/amazon.rerank-v1:0", 3);
    body["max_tokens_per_doc"] = json!(100);
    let refused = world.client.post_json(PATH, &body).await;
    assert_invalid("amazon", &refused, "unsupported_value");
    assert_eq!(upstream.hits(), hits);
}

#[tokio::test]
async fn vertex_ranks_records_by_their_places() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    upstream.enqueue(Answer::json(
        200,
        &json!({"records": [{"id": "2", "score": 0.98}, {"id": "0", "score": 0.64}]}),
    ));
    let model = "vertex/semantic-ranker-default@latest";
    let answer = world.client.post_json(PATH, &rerank(model, 3)).await.ok();
    let expected = json!([{"index": 2, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.64}]);
    assert_eq!(answer.json()["results"], expected);
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.002"));
    let sent = upstream.last();
    let path = "/v1/projects/my-project/locations/global/rankingConfigs/default_ranking_config:rank";
    assert_eq!(sent.path, path);
    assert_eq!(sent.header("authorization"), Some("Bearer sk-upstream-key-000"));
    let record = |at: usize| json!({"id": at.to_string(), "content": format!("document {at}")});
    let expected = json!({
        "model": "semantic-ranker-default@latest", "query": "q", "records": [record(0), record(1), record(2)],
        "topN": 2, "ignoreRecordDetailsInResponse": true
    });
    assert_eq!(sent.json(), expected);
    // Twice the same record is no ranking.
    upstream.enqueue(Answer::json(
        200,
        &json!({"records": [{"id": "1", "score": 0.9}, {"id": "1", "score": 0.6}]}),
    ));
    let answer = world.client.post_json(PATH, &rerank(model, 3)).await;
    assert_error("twice", &answer, 502, "upstream_error", "upstream_invalid_response");
    upstream.enqueue(Answer::json(200, &json!({"records": [{"id": "5", "score": 0.9}]})));
    let answer = world.client.post_json(PATH, &rerank(model, 101)).await.ok();
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["units"], &row["cost_usd"]), (&json!({"search_unit": 2}), &json!(0.004)), "{row}");
    let hits = upstream.hits();
    let refused = world.client.post_json(PATH, &rerank(model, 201)).await;
    assert_invalid("201 documents", &refused, "unsupported_value");
    assert_eq!(upstream.hits(), hits, "Vertex AI takes at most 200");
}

#[tokio::test]
async fn azure_ranks_at_the_path_of_cohere() {
    let upstream = FakeUpstream::start().await;
    let world = start(&upstream).await;
    let answer = json!({
        "results": [{"index": 1, "relevance_score": 0.9}], "meta": {"billed_units": {"search_units": 1}}
    });
    upstream.enqueue(Answer::json(200, &answer));
    let answer = world.client.post_json(PATH, &rerank("azure/cohere-rerank-v4", 2)).await.ok();
    assert_eq!(answer.json()["results"], json!([{"index": 1, "relevance_score": 0.9}]));
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.002"));
    let sent = upstream.last();
    assert_eq!(sent.path, "/providers/cohere/v2/rerank");
    assert_eq!(sent.header("api-key"), Some("sk-upstream-key-000"));
    let expected =
        json!({"model": "ranker", "query": "q", "documents": ["document 0", "document 1"], "top_n": 2});
    assert_eq!(sent.json(), expected);
}
