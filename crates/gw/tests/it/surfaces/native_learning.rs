//! `responses = "auto"`: what the gateway learns from a provider's 404, and when it forgets it.

use gw_testkit::upstream::default_answer;
use gw_testkit::{Answer, FakeUpstream};
use serde_json::json;

use super::{ask_responses, response};
use crate::admin::keys::ask;
use crate::harness::{ADMIN, Setup, World};

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
