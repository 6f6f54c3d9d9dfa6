//! Requests that only an upstream of the client's own dialect can serve: each candidate is judged by itself.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, message, response};
use crate::harness::{Setup, World, with};

const CLAUDE: &str = "claude/claude-opus-5-5";
const NATIVE: &str = "native/model-1";

/// A gateway whose provider `acme` speaks chat only, `claude` the Messages API and `native` the Responses API.
struct Mixed {
    world: World,
    claude: FakeUpstream,
    native: FakeUpstream,
}

async fn mixed() -> Mixed {
    let (claude, native) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{CLAUDE}\"\n\
         [[providers]]\nname = \"native\"\napi = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n\
         responses = \"auto\"\nfile_ids = true\n[[models]]\nid = \"{NATIVE}\"\n",
        claude.addr,
        native.base_url()
    );
    let world = Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() }.start().await;
    Mixed { world, claude, native }
}

fn routed(body: Value, fallback: &str) -> Value {
    with(body, json!({"routing": {"fallback": [fallback]}}))
}

fn claude_answer() -> Value {
    json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 7, "output_tokens": 3}})
}

fn response_answer() -> Value {
    json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "model-1", "error": null,
        "incomplete_details": null, "output": [], "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}})
}

#[tokio::test]
async fn a_thread_goes_to_the_fallback_that_keeps_threads() {
    let mixed = mixed().await;
    mixed.claude.enqueue(Answer::json(200, &claude_answer()));
    let thread = json!({"type": "continue", "previous_message_id": "msg_1"});
    let body = routed(with(message("acme/fast"), json!({"thread": thread})), CLAUDE);
    let answer = ask_messages(&mixed.world.client, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], CLAUDE);
    assert_eq!(mixed.claude.last().json()["thread"], thread);
    assert_eq!(mixed.world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_thread_never_falls_back_to_a_model_without_threads() {
    let mixed = mixed().await;
    mixed.claude.always(Answer::error(500, "broken", "Broken."));
    let body = routed(with(message(CLAUDE), json!({"thread": {"type": "create"}})), "acme/fast");
    let answer = ask_messages(&mixed.world.client, &body).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert_eq!(answer.json()["error"]["type"], "api_error");
    assert_eq!(mixed.world.upstream.hits(), 0, "the thread would be lost");
}

#[tokio::test]
async fn a_prompt_cache_is_filled_at_the_fallback_that_has_one() {
    let mixed = mixed().await;
    mixed.claude.enqueue(Answer::json(200, &with(claude_answer(), json!({"content": []}))));
    let body = routed(with(message("acme/fast"), json!({"max_tokens": 0})), CLAUDE);
    let answer = ask_messages(&mixed.world.client, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], CLAUDE);
    assert_eq!(mixed.claude.last().json()["max_tokens"], 0);
    assert_eq!(mixed.world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_prompt_template_goes_to_the_candidate_with_a_responses_api() {
    let mixed = mixed().await;
    mixed.native.enqueue(Answer::json(200, &response_answer()));
    let template = json!({"id": "pmpt_1"});
    let body = routed(with(response("acme/fast"), json!({"prompt": template})), NATIVE);
    let answer = ask_responses(&mixed.world.client, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], NATIVE);
    assert_eq!(mixed.native.last().json()["prompt"], template);
    let alone =
        ask_responses(&mixed.world.client, &with(response("acme/fast"), json!({"prompt": template}))).await;
    assert_eq!((alone.status, &*alone.code()), (400, "unsupported_parameter"), "{}", alone.text());
    assert_eq!(alone.json()["error"]["param"], "prompt");
    let background = with(response(NATIVE), json!({"prompt": template, "background": true}));
    let background = ask_responses(&mixed.world.client, &background).await;
    assert_eq!(
        (background.status, &*background.code()),
        (400, "unsupported_parameter"),
        "{}",
        background.text()
    );
    assert_eq!((mixed.world.upstream.hits(), mixed.native.hits()), (0, 1));
}

#[tokio::test]
async fn a_provider_that_turns_out_to_have_no_responses_api_gets_no_chat_without_the_template() {
    let mixed = mixed().await;
    mixed.native.enqueue(Answer::error(404, "not_found", "No such URL."));
    let body = with(response(NATIVE), json!({"prompt": {"id": "pmpt_1"}}));
    let answer = ask_responses(&mixed.world.client, &body).await;
    assert_eq!((answer.status, &*answer.code()), (400, "unsupported_parameter"), "{}", answer.text());
    let paths: Vec<_> = mixed.native.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/v1/responses"]);
}
