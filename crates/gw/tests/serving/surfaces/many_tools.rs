//! The number of tools: the provider's limit counts, another candidate may take more, and no tool is left out.

use gw_testkit::{FakeUpstream, Response};
use serde_json::{Value, json};

use super::{message, response};
use crate::harness::{Setup, World, chat, with};

/// A surface: its path, and a request of `model` with `count` tools.
type Surface = (&'static str, fn(&str, usize) -> Value);

const SURFACES: [Surface; 3] = [
    ("/v1/chat/completions", |model, count| {
        let tool = |at| json!({"type": "function", "function": {"name": format!("t{at}"), "parameters": {"type": "object"}}});
        with(chat(model), json!({"tools": (0..count).map(tool).collect::<Vec<_>>()}))
    }),
    ("/v1/messages", |model, count| {
        let tool = |at| json!({"name": format!("t{at}"), "input_schema": {"type": "object"}, "defer_loading": at > 9});
        with(message(model), json!({"tools": (0..count).map(tool).collect::<Vec<_>>()}))
    }),
    ("/v1/responses", |model, count| {
        let tool =
            |at| json!({"type": "function", "name": format!("t{at}"), "parameters": {"type": "object"}});
        with(response(model), json!({"tools": (0..count).map(tool).collect::<Vec<_>>()}))
    }),
];

/// A gateway whose provider `openai` has the limit of OpenAI, beside `acme`, which names none.
async fn two() -> (World, FakeUpstream) {
    let openai = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\nresponses = false\n\
         [[models]]\nid = \"openai/gpt-made-up\"\n",
        openai.base_url()
    );
    (Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() }.start().await, openai)
}

fn tools_sent(upstream: &FakeUpstream) -> Option<usize> {
    upstream.last().json()["tools"].as_array().map(Vec::len)
}

#[tokio::test]
async fn an_upstream_without_a_limit_gets_every_tool() {
    let (world, _openai) = two().await;
    for (path, request) in SURFACES {
        let answer = world.client.post_json(path, &request("acme/fast", 300)).await.ok();
        assert_eq!(tools_sent(&world.upstream), Some(300), "{path}");
        let warnings = answer.json()["gateway"]["warnings"].clone();
        assert!(!warnings.to_string().contains("tool_dropped"), "{path}: {warnings}");
    }
}

#[tokio::test]
async fn beyond_a_providers_limit_another_candidate_serves_or_the_error_names_it() {
    let (world, openai) = two().await;
    for (path, request) in SURFACES {
        world.client.post_json(path, &request("openai/gpt-made-up", 128)).await.ok();
        assert_eq!(tools_sent(&openai), Some(128), "{path}");
        let calls = openai.hits();
        let refused: Response = world.client.post_json(path, &request("openai/gpt-made-up", 129)).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        let message = "Invalid 'tools': array too long. The model 'openai/gpt-made-up' takes at most 128 tools in one request, \
                       but got 129 instead.";
        assert!(refused.message().contains(message), "{path}: {}", refused.text());
        if path != "/v1/messages" {
            assert_eq!(refused.code(), "array_above_max_length", "{path}");
        }
        let routed =
            with(request("openai/gpt-made-up", 129), json!({"routing": {"fallback": ["acme/fast"]}}));
        let served = world.client.post_json(path, &routed).await.ok();
        assert_eq!(served.header("x-gateway-model"), Some("acme/fast"), "{path}");
        assert_eq!((tools_sent(&world.upstream), openai.hits()), (Some(129), calls), "{path}");
    }
}

#[tokio::test]
async fn the_limit_of_a_models_row_is_that_model_s() {
    let openai = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\nresponses = false\n\
         [[models]]\nid = \"openai/gpt-made-up\"\nmax_tools = 300\n",
        openai.base_url()
    );
    let setup =
        Setup { acme: "responses = false".to_owned(), fast: "max_tools = 5", extra, ..Setup::default() };
    let world = setup.start().await;
    for (path, request) in SURFACES {
        // A smaller limit than the provider's, and a larger one.
        world.client.post_json(path, &request("acme/fast", 5)).await.ok();
        world.client.post_json(path, &request("openai/gpt-made-up", 300)).await.ok();
        assert_eq!(tools_sent(&openai), Some(300), "{path}");
        let calls = (world.upstream.hits(), openai.hits());
        for (model, count, most) in [("acme/fast", 6, 5), ("openai/gpt-made-up", 301, 300)] {
            let refused = world.client.post_json(path, &request(model, count)).await;
            assert_eq!(refused.status, 400, "{path}: {}", refused.text());
            let message = format!(
                "Invalid 'tools': array too long. The model '{model}' takes at most {most} tools in one request, but got {count} \
                 instead."
            );
            assert!(refused.message().contains(&message), "{path}: {}", refused.text());
        }
        assert_eq!((world.upstream.hits(), openai.hits()), calls, "{path}");
    }
}

#[tokio::test]
async fn the_gateways_own_limit_of_tools_is_a_setting() {
    let setup = Setup {
        server: "request_limits = { max_tools = 5 }",
        acme: "responses = false".to_owned(),
        ..Setup::default()
    };
    let world = setup.start().await;
    for (path, request) in SURFACES {
        world.client.post_json(path, &request("acme/fast", 5)).await.ok();
        let refused = world.client.post_json(path, &request("acme/fast", 6)).await;
        assert_eq!(refused.status, 400, "{path}");
        assert!(
            refused.message().contains("'server.request_limits.max_tools'"),
            "{path}: {}",
            refused.text()
        );
    }
    assert_eq!(world.upstream.hits(), SURFACES.len());
}
