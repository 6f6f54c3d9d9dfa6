//! Requests that only an upstream of the client's own dialect can serve: each candidate is judged by itself.

use std::collections::HashSet;
use std::sync::Mutex;

use gw_testkit::{Answer, FakeUpstream, Recorded};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, message, response};
use crate::harness::{KEY, Setup, World, serve, with};

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
    mixed.claude.always(Answer::json(200, &claude_answer()));
    let begun = with(message(CLAUDE), json!({"thread": {"type": "create"}}));
    ask_messages(&mixed.world.client, &begun).await.ok();
    let thread = json!({"type": "continue", "previous_message_id": "msg_up"});
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

/// An upstream that keeps threads as Anthropic does: a `continue` names its last answer, which then is no longer the last.
fn thread_keeper() -> impl Fn(&Recorded) -> Answer + Send + Sync + 'static {
    let kept = Mutex::new((0, HashSet::<String>::new()));
    move |request| {
        let body = request.json();
        let mut kept = kept.lock().expect("a lock");
        let refused = |code: &str| {
            let error = json!({"type": "invalid_request_error", "message": "The thread cannot go on.",
                "details": {"error_code": code}});
            Answer::json(
                if code == "thread_not_found" { 404 } else { 400 },
                &json!({"type": "error", "error": error}),
            )
        };
        let has_call = body["messages"].to_string().contains("tool_use\"");
        let has_result = body["messages"].to_string().contains("tool_result");
        match body["thread"]["type"].as_str() {
            Some("continue") => {
                if !kept.1.remove(body["thread"]["previous_message_id"].as_str().unwrap_or_default()) {
                    return refused("thread_not_found");
                }
                if body.get("tools").is_some() || body.get("system").is_some() {
                    return refused("thread_fingerprint_mismatch");
                }
            }
            _ if has_result && !has_call => return refused("no_call"),
            _ => {}
        }
        kept.0 += 1;
        let id = format!("msg_{}", kept.0);
        kept.1.insert(id.clone());
        let (content, stop) = match has_result {
            true => (json!([{"type": "text", "text": "Rain."}]), "end_turn"),
            false => {
                (json!([{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]), "tool_use")
            }
        };
        Answer::json(200, &with(claude_answer(), json!({"id": id, "content": content, "stop_reason": stop})))
    }
}

fn tool_result() -> Value {
    json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Dark."}]}])
}

#[tokio::test]
async fn a_tool_loop_on_a_thread_sends_only_the_new_messages() {
    let mixed = mixed().await;
    mixed.claude.respond_with(thread_keeper());
    let tools = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let first = with(message(CLAUDE), json!({"thread": {"type": "create"}, "tools": tools}));
    let called = ask_messages(&mixed.world.client, &first).await.ok().json();
    assert_eq!(called["stop_reason"], "tool_use");
    let next = |id: &Value| {
        with(
            message(CLAUDE),
            json!({"messages": tool_result(), "thread": {"type": "continue", "previous_message_id": id}}),
        )
    };
    let said = ask_messages(&mixed.world.client, &next(&called["id"])).await.ok().json();
    assert_eq!(said["content"][0]["text"], "Rain.");
    let sent = mixed.claude.last().json();
    assert_eq!((&sent["messages"], &sent["thread"]["previous_message_id"]), (&tool_result(), &called["id"]));
    // The turn that the upstream holds goes on without a new message.
    let bare = with(next(&said["id"]), json!({"messages": []}));
    ask_messages(&mixed.world.client, &bare).await.ok();
    assert_eq!(mixed.claude.last().json()["messages"], json!([]));
    // The upstream's code tells the SDK to send the whole conversation.
    let lost = ask_messages(&mixed.world.client, &next(&called["id"])).await;
    assert_eq!(lost.status, 400, "{}", lost.text());
    assert_eq!(lost.json()["error"]["details"], json!({"error_code": "thread_not_found"}));
    assert_eq!(lost.json()["error"]["message"], "The thread cannot go on.");
    // Without a thread a result needs its call.
    let unknown =
        ask_messages(&mixed.world.client, &with(message(CLAUDE), json!({"messages": tool_result()}))).await;
    assert_eq!(unknown.status, 400, "{}", unknown.text());
    assert_eq!(mixed.claude.hits(), 4);
}

#[tokio::test]
async fn a_host_that_knows_no_threads_makes_the_sdk_send_the_whole_conversation() {
    let mixed = mixed().await;
    let refused = json!({"type": "error", "error": {"type": "invalid_request_error",
        "message": "thread: Extra inputs are not permitted"}});
    mixed.claude.always(Answer::json(400, &refused));
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"gcp\"\napi = \"vertex\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         project = \"p\"\nregion = \"europe-west4\"\n\
         [[providers]]\nname = \"aws\"\napi = \"bedrock\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         region = \"eu-west-1\"\n\
         [[models]]\nid = \"gcp/claude-opus-4-5@20251101\"\n[[models]]\nid = \"aws/eu.anthropic.claude-sonnet-4-5-20250929-v1:0\"\n",
        upstream.addr
    );
    let hosts = serve(&config).await;
    let hosts = hosts.client().with_key(KEY);
    let rows = [
        (&mixed.world.client, CLAUDE),
        (&hosts, "gcp/claude-opus-4-5@20251101"),
        (&hosts, "aws/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ];
    for (client, model) in rows {
        let body = with(message(model), json!({"thread": {"type": "create"}}));
        let answer = ask_messages(client, &body).await;
        assert_eq!(answer.status, 400, "{model}: {}", answer.text());
        let details = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
        assert_eq!(answer.json()["error"]["details"], details, "{model}");
    }
    assert_eq!(upstream.hits(), 0);
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
