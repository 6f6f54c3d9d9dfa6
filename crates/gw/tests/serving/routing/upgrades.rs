//! The refusals that an upgrade may replace: those of a feature that the catalogue entry lacks. All others stay. Every model that chats
//! may be the upgrade.

use gw_testkit::Answer;
use serde_json::{Value, json};

use crate::harness::{Setup, World, assert_invalid, chat_with, with, world};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A model whose provider gives one choice a call, takes no suffix and has none of OpenAI's own fields.
const CLAUDE: &str = "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"<acme_url>\"\napi_key = \"k\"\n\
    [[models]]\nid = \"claude/m\"\ncategory = [\"chat\"]\n";

fn permitted(body: Value) -> Value {
    with(body, json!({ "routing": { "allow_upgrade": true } }))
}

/// A user message with this part.
fn part(part: &Value) -> Value {
    json!({ "messages": [{ "role": "user", "content": [part] }] })
}

fn image() -> Value {
    part(&json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }))
}

fn text(model: &str, more: Value) -> Value {
    with(json!({ "model": model, "prompt": "Once" }), more)
}

/// Checks that a permitted upgrade changes nothing about the refusal.
async fn stays_refused(world: &World, path: &str, body: Value, code: &str) {
    let refused = world.client.post_json(path, &body).await;
    assert_invalid("no permission", &refused, code);
    let with_permission = world.client.post_json(path, &permitted(body)).await;
    assert_invalid("with permission", &with_permission, code);
    assert_eq!(with_permission.message(), refused.message());
    assert_eq!(world.upstream.hits() + world.second.hits(), 0);
}

#[tokio::test]
async fn a_model_of_another_kind_is_refused_whether_or_not_an_upgrade_is_permitted() {
    let world = world().await;
    stays_refused(&world, CHAT, chat_with("acme/embed", json!({})), "unsupported_model").await;
    stays_refused(&world, CHAT, chat_with("acme/embed", image()), "unsupported_model").await;
    stays_refused(&world, TEXT, text("acme/embed", json!({})), "unsupported_model").await;
}

#[tokio::test]
async fn a_value_that_a_provider_cannot_serve_is_refused_whether_or_not_an_upgrade_is_permitted() {
    let world = Setup { extra: CLAUDE.to_owned(), ..Setup::default() }.start().await;
    let spoken = json!({ "modalities": ["text", "audio"], "audio": { "voice": "alloy", "format": "wav" } });
    for (more, code) in [
        (json!({ "n": 9 }), "unsupported_value"),
        (spoken, "unsupported_value"),
        (part(&json!({ "type": "mystery", "mystery": 1 })), "invalid_value"),
    ] {
        stays_refused(&world, CHAT, chat_with("claude/m", more), code).await;
    }
    for (more, code) in [
        (json!({ "suffix": "the end" }), "unsupported_parameter"),
        (json!({ "prompt": [1, 2, 3] }), "unsupported_value"),
        (json!({ "n": 9 }), "unsupported_value"),
    ] {
        stays_refused(&world, TEXT, text("claude/m", more), code).await;
    }
}

#[tokio::test]
async fn a_feature_that_the_catalogue_entry_lacks_opens_an_upgrade() {
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let schema =
        json!({ "type": "json_schema", "json_schema": { "name": "s", "schema": { "type": "object" } } });
    for (more, code) in [
        (image(), "unsupported_value"),
        (json!({ "tools": tools }), "unsupported_parameter"),
        (json!({ "response_format": schema }), "unsupported_value"),
    ] {
        let world = world().await;
        let body = chat_with("acme/plain", more);
        assert_invalid("no permission", &world.chat(&body).await, code);
        let served = world.chat_ok(&permitted(body)).await;
        assert_eq!(served["gateway"]["model_used"], "acme/fast", "{served}");
        assert_eq!(served["gateway"]["warnings"], json!(["upgraded_for_feature"]), "{served}");
    }
}

#[tokio::test]
async fn one_named_model_that_lacks_a_feature_opens_an_upgrade() {
    let world = world().await;
    let routing = json!({ "fallback": ["acme/plain"], "allow_upgrade": true });
    let body = with(chat_with("acme/embed", image()), json!({ "routing": routing }));
    let served = world.chat_ok(&body).await;
    assert_eq!(served["gateway"]["model_used"], "acme/fast", "{served}");
    let warnings = json!(["fallback_left_out:acme/plain", "upgraded_for_feature"]);
    assert_eq!(served["gateway"]["warnings"], warnings, "{served}");
}

#[tokio::test]
async fn a_fallback_that_cannot_serve_the_request_is_named_in_a_warning() {
    let world = world().await;
    let named = json!({ "routing": { "fallback": ["acme/embed", "acme/plain", "acme/fast"] } });
    for (more, warnings) in [
        (json!({}), json!(["fallback_left_out:acme/embed"])),
        (image(), json!(["fallback_left_out:acme/embed", "fallback_left_out:acme/plain"])),
    ] {
        let served = world.chat_ok(&with(chat_with("acme/fast", more), named.clone())).await;
        assert_eq!(served["gateway"]["warnings"], warnings, "{served}");
    }
}

#[tokio::test]
async fn a_model_that_chats_is_an_upgrade_whatever_else_it_may_do() {
    for (category, status) in
        [("", 200), ("category = [\"chat\", \"embedding\"]\n", 200), ("category = [\"embedding\"]\n", 502)]
    {
        // No other model of the configuration is as good.
        let model = |id: &str, more: &str, quality: u8| {
            format!("[[models]]\nid = \"{id}\"\n{more}quality_scores = {{ overall = {quality}.0 }}\n")
        };
        let extra = model("acme/weak", "category = [\"chat\"]\n", 90) + &model("beta/better", category, 95);
        let world = Setup { routing: "retries = 0", extra, ..Setup::default() }.start().await;
        world.upstream.always(Answer::error(500, "x", "down"));
        let answer = world.chat(&permitted(chat_with("acme/weak", json!({})))).await;
        assert_eq!(answer.status, status, "{category}: {}", answer.json());
        assert_eq!(world.second.hits(), usize::from(status == 200), "{category}");
    }
}
