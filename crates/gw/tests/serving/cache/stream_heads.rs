//! The heads of streams that use the response cache.

use gw_testkit::upstream::sse_data;
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use super::streamed;
use crate::harness::{Setup, World, with};

/// The headers with the model and its provider, and what the cache did.
type Named = (Option<String>, Option<String>, Option<String>);

async fn head(world: &World, path: &str, body: &Value) -> Named {
    let mut stream = world.client.stream(path, body).await;
    let header = |name: &str| stream.head.header(name).map(str::to_owned);
    let named = (header("x-gateway-model"), header("x-gateway-provider"), header("x-gateway-cache"));
    stream.rest().await;
    named
}

fn named(model: &str, provider: &str, what: &str) -> Named {
    (Some(model.to_owned()), Some(provider.to_owned()), Some(what.to_owned()))
}

#[tokio::test]
async fn a_stream_that_misses_names_the_model_and_its_provider_on_every_surface() {
    let extra = "[cache]\ncompletions = true\n".to_owned();
    let world = Setup { routing: "retries = 0", extra, ..Setup::default() }.start().await;
    let hello = json!([{ "role": "user", "content": "Hello" }]);
    let asks = [
        ("/v1/chat/completions", json!({ "messages": hello })),
        ("/v1/messages", json!({ "messages": hello, "max_tokens": 50 })),
        ("/v1/responses", json!({ "input": "Hello" })),
        ("/v1/completions", json!({ "prompt": "Hello" })),
    ];
    let common = json!({ "model": "acme/fast", "stream": true, "cache": { "enabled": true } });
    for (path, body) in asks {
        let body = with(common.clone(), body);
        assert_eq!(head(&world, path, &body).await, named("acme/fast", "acme", "MISS"), "{path}");
        assert_eq!(head(&world, path, &body).await, named("acme/fast", "acme", "HIT"), "{path}");
        let other = with(body, json!({ "routing": { "fallback": ["beta/spare"] }, "temperature": 0.1 }));
        world.upstream.enqueue(Answer::error(500, "x", "down"));
        assert_eq!(head(&world, path, &other).await, named("beta/spare", "beta", "MISS"), "{path}");
    }
}

#[tokio::test]
async fn a_stream_that_shares_a_call_names_the_model_and_its_provider() {
    let world = crate::harness::world().await;
    let more = Signal::new();
    let answer = Answer::sse().data(&sse_data(&json!({ "role": "assistant", "content": "Hello" }), None));
    let last = sse_data(&json!({ "content": " all" }), Some("stop"));
    world.upstream.enqueue(answer.wait(&more).data(&last).done());
    let mut leader = world.client.stream("/v1/chat/completions", &streamed(json!({}))).await;
    leader.frame().await;
    let mut follower = world.client.stream("/v1/chat/completions", &streamed(json!({}))).await;
    more.fire();
    follower.rest().await;
    leader.rest().await;
    assert_eq!(follower.head.header("x-gateway-cache"), Some("COALESCED"));
    for head in [&leader.head, &follower.head] {
        assert_eq!(head.header("x-gateway-model"), Some("acme/fast"));
        assert_eq!(head.header("x-gateway-provider"), Some("acme"));
    }
}
