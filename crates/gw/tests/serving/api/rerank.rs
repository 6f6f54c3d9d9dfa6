//! Rerank and score: one request for all vendors' shapes, servers with other URLs, prices by search unit, and wrong answers.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, chat, logged, with};

const PATH: &str = "/v1/rerank";
/// A key whose budget refuses what it cannot count.
const STRICT: &str = "sk-test-strict-budget";

/// A gateway whose provider `acme` also has a model with a price of tokens, and one without a price.
async fn start() -> World {
    start_with("").await
}

async fn start_with(more: &str) -> World {
    let model = |id: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"rerank\"]\npricing = {{ {pricing} }}\n")
    };
    let extra = [
        model("acme/by-token", "official_input_per_m = 1.0"),
        model("acme/unpriced-rerank", ""),
        model("beta/rerank", "official_per_search_unit = 0.001"),
        format!("[[keys]]\nname = \"strict\"\nkey = \"{STRICT}\"\nbudget_usd = 5.0\nunpriced = \"refuse\"\n"),
        more.to_owned(),
    ];
    Setup { extra: extra.concat(), routing: "retries = 0", ..Setup::default() }.start().await
}

fn rerank(model: &str, more: Value) -> Value {
    let body = json!({"model": model, "query": "q", "documents": ["a", "b", {"text": "c"}]});
    with(body, more)
}

async fn ok(world: &World, body: &Value) -> Value {
    world.client.post_json(PATH, body).await.ok().json()
}

fn scores(answer: &Value) -> Vec<(Option<u64>, Option<f64>)> {
    let results = answer["results"].as_array().expect("results").iter();
    results.map(|result| (result["index"].as_u64(), result["relevance_score"].as_f64())).collect()
}

#[tokio::test]
async fn every_name_of_the_url_answers_in_the_shape_of_every_vendor() {
    let world = start().await;
    for path in [PATH, "/rerank", "/v2/rerank"] {
        let answer = world.client.post_json(path, &rerank("acme/rerank", json!({"top_n": 2}))).await.ok();
        let list = json!([{"index": 2, "relevance_score": 0.75}, {"index": 1, "relevance_score": 0.5}]);
        let mut body = answer.json();
        assert!(body["id"].as_str().is_some_and(|id| id.starts_with("rerank-")), "{body}");
        body["id"].take();
        let expected = json!({
            "id": null, "object": "list", "model": "rerank", "results": list, "data": list,
            "meta": {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 8}},
            "usage": {"prompt_tokens": 8, "total_tokens": 8}
        });
        assert_eq!(body, expected, "{path}");
        assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.002"), "{path}");
        assert_eq!(answer.header("x-gateway-model"), Some("acme/rerank"), "{path}");
        let sent = world.upstream.last();
        assert_eq!(sent.path, "/v1/rerank");
        let expected = json!({
            "model": "rerank", "query": "q", "documents": ["a", "b", "c"], "top_n": 2, "return_documents": false
        });
        assert_eq!(sent.json(), expected);
    }
    let with_texts = ok(&world, &rerank("acme/rerank", json!({"return_documents": true, "top_k": 1}))).await;
    assert_eq!(with_texts["results"][0]["document"], json!({"text": "c"}));
}

#[tokio::test]
async fn the_row_has_the_surface_the_units_and_the_cost() {
    let world = start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    for (model, documents, units, cost) in
        [("acme/rerank", 250, 3, 0.006), ("acme/by-token", 250, 3, 0.000_008)]
    {
        let body = rerank(model, json!({"documents": vec!["a"; documents], "user": "ann"}));
        let answer = world.client.post_json(PATH, &body).await.ok();
        let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
        assert_eq!(
            (&row["surface"], &row["operation"], &row["user"]),
            (&json!("rerank"), &json!("rerank"), &json!("ann"))
        );
        assert_eq!(row["units"], json!({"search_unit": units}), "{model}");
        assert_eq!(row["cost_usd"].as_f64(), Some(cost), "{model}: {row}");
        assert_eq!(row["cost"]["matches_log"], json!(true), "{model}: {row}");
    }
    let report = admin.get("/admin/v1/usage?by=surface").await.ok().json();
    assert_eq!(
        (&report["data"][0]["surface"], &report["data"][0]["requests"]),
        (&json!("rerank"), &json!(2))
    );
}

#[tokio::test]
async fn an_unknown_price_is_unknown_and_may_be_refused() {
    let world = start().await;
    let body = rerank("acme/unpriced-rerank", json!({}));
    let answer = world.client.post_json(PATH, &body).await.ok();
    assert_eq!(answer.header("x-gateway-cost-usd"), None);
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!((row.unpriced, row.cost), (true, 0));
    let strict = world.gateway.client().with_key(STRICT);
    let refused = strict.post_json(PATH, &body).await;
    assert_error("refused", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert!(refused.message().contains("'acme/unpriced-rerank'"), "{}", refused.message());
    assert_eq!(world.upstream.hits(), 1, "nothing is sent");
    for model in ["acme/rerank", "acme/by-token"] {
        strict.post_json(PATH, &rerank(model, json!({}))).await.ok();
    }
}

#[tokio::test]
async fn a_budget_reserves_the_search_units() {
    let extra = "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.005\n";
    let world = start_with(extra).await;
    let poor = world.gateway.client().with_key("sk-poor");
    let ask = |documents: usize| rerank("acme/rerank", json!({"documents": vec!["a"; documents]}));
    let refused = poor.post_json(PATH, &ask(201)).await;
    assert_error("three units", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), 0);
    poor.post_json(PATH, &ask(200)).await.ok();
}

#[tokio::test]
async fn a_server_without_the_url_below_v1_is_asked_beside_it_and_remembered() {
    for status in [404, 405, 501] {
        let world = start().await;
        world.upstream.enqueue(Answer::error(status, "unknown_url", "Not Found"));
        for _ in 0..2 {
            ok(&world, &rerank("acme/rerank", json!({}))).await;
        }
        let paths: Vec<String> = world.upstream.requests().iter().map(|sent| sent.path.clone()).collect();
        assert_eq!(paths, ["/v1/rerank", "/rerank", "/rerank"], "{status}");
        let found = rows(&world.gateway, 2).await;
        assert!(found.iter().all(|row| row.attempts.len() == 1 && row.status == "ok"), "{status}: {found:?}");
        let costs: Vec<i128> = found.iter().map(|row| row.cost).collect();
        assert_eq!(costs, [2_000_000_000_000; 2], "{status}: a refused call is free");
    }
}

#[tokio::test]
async fn a_server_with_neither_url_is_the_operators_fault() {
    let world = start().await;
    for _ in 0..2 {
        world.upstream.enqueue(Answer::error(404, "unknown_url", "Not Found"));
    }
    let answer = world.client.post_json(PATH, &rerank("acme/rerank", json!({}))).await;
    assert_eq!((answer.status, world.upstream.hits()), (502, 2), "{}", answer.text());
    // A missing model says nothing about the URL.
    world.upstream.enqueue(Answer::error(404, "model_not_found", "The model `rerank` does not exist."));
    let answer = world.client.post_json(PATH, &rerank("acme/rerank", json!({}))).await;
    assert_error("model", &answer, 502, "upstream_error", "upstream_model_missing");
    assert_eq!(world.upstream.hits(), 3);
}

#[tokio::test]
async fn text_embeddings_inference_gets_texts_and_answers_with_the_bare_list() {
    let world = start().await;
    let missing =
        "Failed to deserialize the JSON body into the target type: missing field `texts` at line 1 column 9";
    let ranked = json!([{"index": 0, "score": 0.1}, {"index": 1, "score": 0.9}, {"index": 2, "score": 0.5}]);
    world.upstream.respond_with(move |sent| {
        if sent.path != "/rerank" {
            return Answer::error(404, "unknown_url", "Not Found");
        }
        match sent.json()["texts"].as_array() {
            Some(_) => Answer::json(200, &ranked),
            None => Answer::full(422, &[("content-type", "text/plain")], missing),
        }
    });
    for hits in [3, 4] {
        let answer = ok(&world, &rerank("acme/rerank", json!({"top_n": 2}))).await;
        assert_eq!(scores(&answer), [(Some(1), Some(0.9)), (Some(2), Some(0.5))]);
        assert_eq!(world.upstream.hits(), hits);
    }
    let expected = json!({"model": "rerank", "query": "q", "texts": ["a", "b", "c"]});
    assert_eq!(world.upstream.last().json(), expected);
}

#[tokio::test]
async fn cohere_is_called_at_its_own_url_and_its_search_units_count() {
    let cohere = FakeUpstream::start().await;
    cohere.always(Answer::json(
        200,
        &json!({
            "id": "x", "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}],
            "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        }),
    ));
    let extra = format!(
        "[[providers]]\nname = \"cohere\"\napi = \"cohere\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"cohere/rank\"\ncategory = [\"rerank\"]\npricing = {{ official_per_search_unit = 0.002 }}\n",
        cohere.base_url().trim_end_matches("/v1")
    );
    let world = start_with(&extra).await;
    let body = rerank("cohere/rank", json!({"top_k": 2, "max_tokens_per_doc": 99, "return_documents": true}));
    let answer = world.client.post_json("/v2/rerank", &body).await.ok();
    assert_eq!(scores(&answer.json()), [(Some(1), Some(0.9)), (Some(0), Some(0.2))]);
    assert_eq!(answer.json()["meta"]["billed_units"]["search_units"], 1);
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.002"));
    let sent = cohere.last();
    assert_eq!(sent.path, "/v2/rerank");
    let expected = json!({
        "model": "rank", "query": "q", "documents": ["a", "b", "c"], "top_n": 2, "max_tokens_per_doc": 99
    });
    assert_eq!(sent.json(), expected);
}

#[tokio::test]
async fn u24_search_units_that_cannot_be_true_are_clamped() {
    let world = start().await;
    let results = json!([{"index": 0, "relevance_score": 0.5}]);
    let meta = json!({"billed_units": {"search_units": 4_000_000}});
    world.upstream.enqueue(Answer::json(200, &json!({"results": results, "meta": meta})));
    let answer = ok(&world, &rerank("acme/rerank", json!({}))).await;
    // Three short documents are one unit.
    assert_eq!(answer["meta"]["billed_units"]["search_units"], 1);
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!((row.estimated, row.cost), (true, 2_000_000_000_000));
    // The upstream divides documents by rules of its own.
    let meta = json!({"billed_units": {"search_units": 3}});
    world.upstream.enqueue(Answer::json(200, &json!({"results": results, "meta": meta})));
    let answer = world.client.post_json(PATH, &rerank("acme/rerank", json!({}))).await.ok();
    assert_eq!(answer.json()["meta"]["billed_units"]["search_units"], 3);
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.006"));
}

#[tokio::test]
async fn long_documents_may_count_several_times_and_a_budget_reserves_them() {
    let extra = "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.02\n";
    let world = start_with(extra).await;
    let results = json!([{"index": 0, "relevance_score": 0.5}]);
    let meta = json!({"billed_units": {"search_units": 4}});
    world.upstream.enqueue(Answer::json(200, &json!({"results": results, "meta": meta})));
    // A hundred documents of 6,000 bytes are at most 1,300 documents of 500 tokens: 13 units.
    let body = rerank("acme/rerank", json!({"documents": vec!["x".repeat(6_000); 100]}));
    let poor = world.gateway.client().with_key("sk-poor");
    let refused = poor.post_json(PATH, &body).await;
    assert_error("13 units", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), 0);
    let answer = world.client.post_json(PATH, &body).await.ok();
    assert_eq!(answer.json()["meta"]["billed_units"]["search_units"], 4);
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.008"));
}

#[tokio::test]
async fn tokens_that_a_text_cannot_have_are_estimated() {
    let world = start().await;
    let results = json!([{"index": 0, "relevance_score": 0.5}]);
    let usage = json!({"prompt_tokens": 1_000_000_000, "total_tokens": 1_000_000_000});
    world.upstream.enqueue(Answer::json(200, &json!({"results": results, "usage": usage})));
    let answer = ok(&world, &rerank("acme/by-token", json!({}))).await;
    // Three documents of one byte with a query of one byte each have two tokens, and eight are around each of them.
    assert_eq!(answer["usage"]["total_tokens"], 2 + 3 * 8);
    assert!(rows(&world.gateway, 1).await.remove(0).estimated);
    // The upstream bills the tokens that it counts, by rules of its own.
    let usage = json!({"prompt_tokens": 5_000, "total_tokens": 5_000});
    world.upstream.enqueue(Answer::json(200, &json!({"results": results, "usage": usage})));
    let answer = ok(&world, &rerank("acme/by-token", json!({}))).await;
    assert_eq!(answer["usage"]["total_tokens"], 5_000);
}

#[tokio::test]
async fn an_upstream_that_refuses_every_form_is_asked_a_bounded_number_of_times() {
    let world = start().await;
    let message = "missing field `texts`, missing field `documents`";
    world.upstream.always(Answer::full(422, &[("content-type", "text/plain")], message));
    let answer = world.client.post_json(PATH, &rerank("acme/rerank", json!({"query": message}))).await;
    assert_eq!((answer.status, world.upstream.hits()), (400, 2), "{}", answer.text());
}

#[tokio::test]
async fn an_url_that_answers_no_ranking_is_not_remembered() {
    let world = start().await;
    world.upstream.enqueue(Answer::error(404, "unknown_url", "Not Found"));
    world.upstream.enqueue(Answer::full(200, &[("content-type", "text/html")], "<html></html>"));
    let answer = world.client.post_json(PATH, &rerank("acme/rerank", json!({}))).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    ok(&world, &rerank("acme/rerank", json!({}))).await;
    let paths: Vec<String> = world.upstream.requests().iter().map(|sent| sent.path.clone()).collect();
    assert_eq!(paths, ["/v1/rerank", "/rerank", "/v1/rerank"]);
}

#[tokio::test]
async fn a_list_that_is_no_ranking_is_an_invalid_upstream_response() {
    let world = start().await;
    let result = |index: Value, score: Value| json!({"index": index, "relevance_score": score});
    for results in [
        json!([result(json!(3), json!(0.5))]),
        json!([result(json!(-1), json!(0.5))]),
        json!([result(json!(0), json!(0.5)), result(json!(0), json!(0.4))]),
        json!([result(json!(0), json!("0.5"))]),
        json!([result(json!(0), json!(null))]),
        json!([{"relevance_score": 0.5}]),
        json!([]),
        json!({}),
    ] {
        world.upstream.enqueue(Answer::json(200, &json!({"results": results})));
        let answer = world.client.post_json(PATH, &rerank("acme/rerank", json!({}))).await;
        assert_error(&results.to_string(), &answer, 502, "upstream_error", "upstream_invalid_response");
    }
}

#[tokio::test]
async fn models_of_other_categories_and_providers_without_rerank_are_refused() {
    let extra = "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://127.0.0.1:9\"\n\
                 api_key = \"sk-upstream-key-000\"\n[[models]]\nid = \"claude/rerank\"\ncategory = [\"rerank\"]\n";
    let world = start_with(extra).await;
    for model in ["acme/fast", "acme/embed", "claude/rerank"] {
        let answer = world.client.post_json(PATH, &rerank(model, json!({}))).await;
        assert_invalid(model, &answer, "unsupported_model");
    }
    let answer = world.client.post_json("/v1/chat/completions", &chat("acme/rerank")).await;
    assert_invalid("chat", &answer, "unsupported_model");
    assert_eq!(answer.message(), "The model 'acme/rerank' is a rerank model and cannot chat.");
    let body = json!({"model": "acme/rerank", "input": "x"});
    assert_invalid("embed", &world.client.post_json("/v1/embeddings", &body).await, "unsupported_model");
    let streamed = world.client.post_json(PATH, &rerank("acme/rerank", json!({"stream": true}))).await;
    assert_invalid("stream", &streamed, "unsupported_value");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_fallback_ranks_when_the_first_model_fails() {
    let world = start().await;
    world.upstream.always(Answer::error(500, "server_error", "Broken."));
    let body = rerank("acme/rerank", json!({"routing": {"fallback": ["beta/rerank"]}}));
    let answer = world.client.post_json(PATH, &body).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("beta/rerank"));
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.001"));
    let row = rows(&world.gateway, 1).await.remove(0);
    let statuses: Vec<&str> = row.attempts.iter().map(|attempt| &*attempt.status).collect();
    assert_eq!((statuses, row.fallback), (vec!["upstream_error", "ok"], true));
}

#[tokio::test]
async fn a_thousand_documents_pass_and_the_demo_ranks_them_by_words() {
    let world = start().await;
    let documents: Vec<String> = (0..1000).map(|place| format!("document number {place}")).collect();
    let body = json!({"model": "demo/rerank", "query": "Document, 700!", "documents": documents, "top_n": 2});
    let answer = ok(&world, &body).await;
    assert_eq!(scores(&answer), [(Some(700), Some(1.0)), (Some(0), Some(0.5))]);
    assert_eq!(answer["meta"]["billed_units"]["search_units"], 10);
}

#[tokio::test]
async fn pairs_are_scored_in_the_shapes_of_vllm_at_either_url() {
    let world = start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    world.upstream.enqueue(Answer::error(404, "unknown_url", "Not Found"));
    for (path, body) in [
        ("/v1/score", json!({"model": "acme/rerank", "text_1": "q", "text_2": ["a", "b"]})),
        ("/score", json!({"model": "acme/rerank", "queries": ["q"], "documents": ["a", "b"]})),
        ("/v1/score", json!({"model": "acme/rerank", "data_1": "q", "data_2": ["a", "b"], "extra": 1})),
    ] {
        let answer = world.client.post_json(path, &body).await.ok();
        let data = json!([{"index": 0, "object": "score", "score": 0.5}, {"index": 1, "object": "score", "score": 0.5}]);
        assert_eq!(answer.json()["data"], data, "{body}");
        assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.002"), "{body}");
        let sent = world.upstream.last();
        assert_eq!(sent.path, "/score", "{body}");
        assert_eq!(sent.json(), json!({"model": "rerank", "text_1": "q", "text_2": ["a", "b"]}), "{body}");
        let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
        assert_eq!((&row["surface"], &row["units"]), (&json!("score"), &json!({"search_unit": 1})), "{row}");
    }
    assert_eq!(world.upstream.hits(), 4, "the URL that worked is remembered");
    let short = json!({"data": [{"index": 0, "score": 0.5}]});
    world.upstream.enqueue(Answer::json(200, &short));
    let pairs = json!({"model": "acme/rerank", "text_1": ["q", "r"], "text_2": ["a", "b"]});
    let answer = world.client.post_json("/v1/score", &pairs).await;
    assert_error("a pair without a score", &answer, 502, "upstream_error", "upstream_invalid_response");
    let demo = json!({"model": "demo/rerank", "text_1": "the capital", "text_2": ["a capital", "nothing"]});
    let answer = world.client.post_json("/v1/score", &demo).await.ok().json();
    let score = |at: usize| answer["data"][at]["score"].as_f64();
    assert_eq!([score(0), score(1)], [Some(0.5), Some(0.0)]);
}
