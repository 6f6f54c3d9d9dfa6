//! `GET /v1/models` as the coding agents read it: Anthropic's shape, the names for Claude Code, and the list of Codex.

use gw_testkit::{Client, Gateway, Launch, Response};
use serde_json::{Value, json};

use crate::harness::{KEY, LIMITED, binary, chat, serve, world};

/// Three aliases, two of them for agents, and a key that may use one model.
const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
<agents>
[[providers]]
name = "demo"
[[aliases]]
name = "local/qwen"
targets = ["demo/chat", "demo/stall"]
agent = true
[[aliases]]
name = "team-claude"
targets = ["demo/chat"]
agent = true
[[aliases]]
name = "vectors"
targets = ["demo/embed"]
[[keys]]
name = "user"
key = "sk-test-inference"
[[keys]]
name = "limited"
key = "sk-test-limited"
models = ["demo/embed"]
"#;

async fn gateway(agents: &str) -> Gateway {
    serve(&CONFIG.replace("<agents>", agents)).await
}

fn anthropic(gateway: &Gateway) -> Client {
    gateway.client().with_header("x-api-key", KEY).with_header("anthropic-version", "2023-06-01")
}

fn ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().expect("data").iter().filter_map(|entry| entry["id"].as_str()).collect()
}

#[tokio::test]
async fn claude_code_finds_names_that_its_discovery_keeps_and_requests_may_use_them() {
    let gateway = gateway("").await;
    let client = anthropic(&gateway);
    let list = client.get("/v1/models?limit=1000").await.ok().json();
    assert_eq!(ids(&list)[..3], ["claude-local-qwen", "local/qwen", "team-claude"], "{list}");
    assert!(ids(&list).contains(&"demo/chat") && !ids(&list).contains(&"demo/embed"), "{list}");
    let first = &list["data"][0];
    assert_eq!((&first["type"], &first["display_name"]), (&json!("model"), &json!("local/qwen")));
    let created = first["created_at"].as_str().expect("a time");
    assert!(created.len() == 20 && created.ends_with("T00:00:00Z"), "{created}");
    assert_eq!((&list["has_more"], &list["first_id"]), (&json!(false), &json!("claude-local-qwen")));
    assert_eq!(list["last_id"].as_str(), ids(&list).last().copied());
    for name in ["claude-local-qwen", "team-claude"] {
        let answer = client.post_json("/v1/chat/completions", &chat(name)).await.ok().json();
        assert_eq!(answer["gateway"]["model_used"], "demo/chat", "{name}");
        assert_eq!(client.get(&format!("/v1/models/{name}")).await.ok().json()["id"], name);
    }
    let plain = gateway.client().with_key(KEY).get("/v1/models").await.ok().json();
    let names = ids(&plain);
    assert_eq!(names[names.len() - 3..], ["local/qwen", "team-claude", "vectors"], "{plain}");
    assert!(!names.contains(&"claude-local-qwen"));
    assert_eq!(plain["data"][names.len() - 3]["targets"], json!(["demo/chat", "demo/stall"]));
}

#[tokio::test]
async fn the_names_for_claude_code_can_be_switched_off() {
    let gateway = gateway("[agents]\nclaude_aliases = false").await;
    let client = anthropic(&gateway);
    let list = client.get("/v1/models?limit=1000").await.ok().json();
    assert_eq!(ids(&list)[..2], ["local/qwen", "team-claude"], "{list}");
    let refused = client.post_json("/v1/chat/completions", &chat("claude-local-qwen")).await;
    assert_eq!((refused.status, refused.code().as_str()), (404, "model_not_found"));
}

#[tokio::test]
async fn a_page_of_anthropics_list_has_20_models_unless_the_request_says_otherwise() {
    let models: String = (0..30).map(|at| format!("[[models]]\nid = \"demo/m{at:02}\"\n")).collect();
    let gateway = serve(&(CONFIG.replace("<agents>", "") + &models)).await;
    let client = anthropic(&gateway);
    let mut all = Vec::new();
    let mut query = String::new();
    loop {
        let page = client.get(&format!("/v1/models{query}")).await.ok().json();
        assert!(ids(&page).len() <= 20, "{page}");
        all.extend(ids(&page).into_iter().map(str::to_owned));
        query = format!("?after_id={}", page["last_id"].as_str().expect("an id"));
        if page["has_more"] == json!(false) {
            break;
        }
    }
    let whole = client.get("/v1/models?limit=1000").await.ok().json();
    assert!(all.len() > 30 && all == ids(&whole), "{all:?}");
    let back = client.get(&format!("/v1/models?limit=2&before_id={}", all[5])).await.ok().json();
    assert_eq!(ids(&back), all[3..5]);
}

/// The type of an error in Anthropic's envelope, which must have exactly its members.
fn anthropic_error(answer: &Response) -> String {
    let body = answer.json();
    let members: Vec<_> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    assert!(members.len() == 3 && body["type"] == "error", "{body}");
    assert_eq!(body["error"].as_object().map(serde_json::Map::len), Some(2), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert_eq!(body["request_id"].as_str(), answer.header("x-request-id"), "{body}");
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    body["error"]["type"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn errors_of_the_list_have_the_envelope_of_the_clients_api() {
    let world = world().await;
    let nobody = world.gateway.client().with_header("anthropic-version", "2023-06-01");
    let known = nobody.with_header("x-api-key", KEY);
    for (client, method, path, status, kind) in [
        (&nobody, "GET", "/v1/models", 401, "authentication_error"),
        (&known, "GET", "/v1/models?limit=0", 400, "invalid_request_error"),
        (&known, "GET", "/v1/models?limit=1001", 400, "invalid_request_error"),
        (&known, "GET", "/v1/models?after_id=gone", 400, "invalid_request_error"),
        (&known, "GET", "/v1/models/gone/x", 404, "not_found_error"),
        (&known, "DELETE", "/v1/models", 405, "invalid_request_error"),
        (&known, "POST", "/v1/messages/nothing", 404, "not_found_error"),
    ] {
        let answer = client.send(method, path, None, None).await;
        assert_eq!((answer.status, anthropic_error(&answer).as_str()), (status, kind), "{method} {path}");
    }
    let plain = world.client.get("/v1/models?limit=0").await;
    assert_eq!((plain.status, plain.code().as_str()), (400, "integer_below_min_value"));
}

#[tokio::test]
async fn a_limited_key_sees_only_the_aliases_of_its_models() {
    let gateway = gateway("").await;
    let limited = gateway.client().with_key(LIMITED);
    assert_eq!(ids(&limited.get("/v1/models").await.ok().json()), ["demo/embed", "vectors"]);
    let list = limited.with_header("anthropic-version", "2023-06-01").get("/v1/models").await.ok().json();
    assert_eq!(list, json!({ "data": [], "has_more": false, "first_id": null, "last_id": null }));
}

#[tokio::test]
async fn codex_gets_both_shapes_and_a_tag() {
    let with_prompt = CONFIG.replace("<agents>", "[agents]\ncodex_instructions = \"prompt.md\"");
    let launch =
        Launch::new(binary()).file("gateway.toml", with_prompt).file("prompt.md", "You write code.\n");
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    let answer = client.get("/v1/models?client_version=0.160.0").await.ok();
    let tag = answer.header("etag").expect("a tag").to_owned();
    let body = answer.json();
    assert!(tag.starts_with('"') && tag.len() > 10, "{tag}");
    assert_eq!((&body["object"], &body["total"]), (&json!("list"), &json!(ids(&body).len())));
    let models = body["models"].as_array().expect("models");
    let chat = models.iter().find(|model| model["slug"] == "local/qwen").expect("the alias");
    assert_eq!(
        (&chat["base_instructions"], &chat["visibility"]),
        (&json!("You write code.\n"), &json!("list"))
    );
    let again = client.get("/v1/models?client_version=0.160.0").await.ok();
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    assert_eq!(client.get("/v1/models").await.ok().header("etag"), None);
}

#[tokio::test]
async fn codex_keeps_its_own_prompt_unless_the_configuration_gives_one() {
    let world = world().await;
    let body = world.client.get("/v1/models?client_version=0.160.0").await.ok().json();
    assert_eq!(body["models"], json!([]), "Codex reads the list without an error, and changes nothing");
    assert!(ids(&body).contains(&"acme/fast"));
    let missing = "[[providers]]\nname = \"demo\"\n[agents]\ncodex_instructions = \"gone.md\"\n";
    let check = Launch::new(binary()).file("gateway.toml", missing).arg("check").run();
    let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("agents.codex_instructions: cannot be read: the file does not exist"), "{said}");
}
