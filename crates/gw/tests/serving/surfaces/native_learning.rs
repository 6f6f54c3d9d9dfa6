//! `responses = "auto"`: what the gateway learns from a provider's 404, and when it forgets it.

use gw_testkit::upstream::default_answer;
use gw_testkit::{Answer, FakeUpstream};
use serde_json::json;

use super::{ask_responses, response};
use crate::harness::management::ask;
use crate::harness::{ADMIN, Setup, World, with};

/// A gateway whose provider `native` has the Responses API in some of its models.
async fn native() -> (World, FakeUpstream) {
    let native = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"native\"\napi = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"native/here\"\n[[models]]\nid = \"native/gone\"\n",
        native.base_url()
    );
    (Setup { extra, ..Setup::default() }.start().await, native)
}

fn answered() -> Answer {
    Answer::json(
        200,
        &json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "here",
        "error": null, "incomplete_details": null, "output": [],
        "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}}),
    )
}

fn paths(upstream: &FakeUpstream) -> Vec<String> {
    upstream.requests().iter().map(|request| request.path.clone()).collect()
}

#[tokio::test]
async fn a_404_for_a_missing_model_leaves_the_responses_api_of_its_provider_on() {
    let (world, native) = native().await;
    let missing = "The model `gone` does not exist or you do not have access to it.";
    native.enqueue(Answer::error(404, "model_not_found", missing));
    let refused = ask_responses(&world.client, &response("native/gone")).await;
    assert_eq!((refused.status, &*refused.code()), (502, "upstream_model_missing"), "{}", refused.text());
    native.enqueue(answered());
    ask_responses(&world.client, &response("native/here")).await.ok();
    assert_eq!(paths(&native), ["/v1/responses", "/v1/responses"]);
}

#[tokio::test]
async fn a_hosted_tool_without_a_price_has_one_fate_whatever_was_learned() {
    let (world, native) = native().await;
    let search = with(response("native/here"), json!({"tools": [{"type": "web_search"}]}));
    let is_dropped = async |learned: &str| {
        let answer = ask_responses(&world.client, &search).await.ok().json();
        let warnings = answer["gateway"]["warnings"].to_string();
        assert!(warnings.contains("tool_dropped:web_search"), "{learned}: {warnings}");
        let sent = native.last();
        assert_eq!((&*sent.path, sent.json().get("tools")), ("/v1/chat/completions", None), "{learned}");
    };
    native.respond_with(|request| match &*request.path {
        "/v1/responses" => answered(),
        _ => default_answer(request),
    });
    is_dropped("not asked").await;
    ask_responses(&world.client, &response("native/here")).await.ok();
    assert_eq!(native.last().path, "/v1/responses");
    is_dropped("has the API").await;
    let admin = world.gateway.client().with_key(ADMIN);
    ask(&admin, "POST", "/admin/v1/reload", &json!({})).await.ok();
    native.respond_with(|request| match &*request.path {
        "/v1/responses" => Answer::full(404, &[("content-type", "text/html")], "<html>Not Found</html>"),
        _ => default_answer(request),
    });
    ask_responses(&world.client, &response("native/here")).await.ok();
    assert_eq!(native.last().path, "/v1/chat/completions");
    is_dropped("lacks the API").await;
}

#[tokio::test]
async fn a_provider_that_is_said_to_have_the_api_refuses_a_hosted_tool_without_a_price() {
    let world = Setup { acme: "responses = true".to_owned(), ..Setup::default() }.start().await;
    let search = with(response("acme/fast"), json!({"tools": [{"type": "web_search"}]}));
    let refused = ask_responses(&world.client, &search).await;
    assert_eq!((refused.status, &*refused.code()), (400, "unsupported_value"), "{}", refused.text());
    assert!(refused.message().contains("'web_search'"), "{}", refused.message());
    // With its type allowed, the tool is sent to a provider that was never asked.
    let setup = Setup {
        acme: "responses = \"auto\"\nallow_members = [\"web_search\"]".to_owned(),
        ..Setup::default()
    };
    let world = setup.start().await;
    world.upstream.always(answered());
    ask_responses(&world.client, &search).await.ok();
    let sent = world.upstream.last();
    assert_eq!((&*sent.path, &sent.json()["tools"]), ("/v1/responses", &json!([{"type": "web_search"}])));
}

#[tokio::test]
async fn a_404_for_the_url_means_chats_until_the_configuration_is_read_again() {
    let (world, native) = native().await;
    native.respond_with(|request| match &*request.path {
        "/v1/responses" => Answer::full(404, &[("content-type", "text/html")], "<html>Not Found</html>"),
        _ => default_answer(request),
    });
    for _ in 0..2 {
        ask_responses(&world.client, &response("native/here")).await.ok();
    }
    assert_eq!(paths(&native), ["/v1/responses", "/v1/chat/completions", "/v1/chat/completions"]);
    let admin = world.gateway.client().with_key(ADMIN);
    ask(&admin, "POST", "/admin/v1/reload", &json!({})).await.ok();
    native.respond_with(|_| answered());
    ask_responses(&world.client, &response("native/here")).await.ok();
    assert_eq!(paths(&native).last().map(String::as_str), Some("/v1/responses"));
}
