//! Every rule of a key on every surface that calls an upstream, for requests with the key and with a session of it.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, Client, FakeUpstream, Response, Signal};
use serde_json::{Value, json};

use super::{message, response};
use crate::harness::browser::{page_with, sign_in};
use crate::harness::management::{ask as ask_admin, create};
use crate::harness::{ADMIN, Differences, LIMITED, Setup, World, chat, with};

/// A surface: its path and a request of `model`, or of the model of another category beside it.
struct Surface {
    path: &'static str,
    request: fn(&str) -> Value,
}

fn embeddings(_: &str) -> Value {
    json!({"model": "acme/embed", "input": "Hello"})
}

fn rerank(_: &str) -> Value {
    json!({"model": "acme/rerank", "query": "q", "documents": ["a", "b"]})
}

fn score(_: &str) -> Value {
    json!({"model": "acme/rerank", "text_1": "q", "text_2": ["a", "b"]})
}

fn moderation(_: &str) -> Value {
    json!({"model": "acme/moderation", "input": "Hello"})
}

fn images(_: &str) -> Value {
    json!({"model": "acme/paint", "prompt": "Hello"})
}

fn speech(_: &str) -> Value {
    json!({"model": "acme/speak", "input": "Hello", "voice": "v"})
}

fn contents(_: &str) -> Value {
    json!({"contents": [{"parts": [{"text": "Hello"}]}]})
}

fn content(_: &str) -> Value {
    json!({"content": {"parts": [{"text": "Hello"}]}})
}

fn embed_batch(_: &str) -> Value {
    json!({"requests": [{"content": {"parts": [{"text": "Hello"}]}}]})
}

const SURFACES: [Surface; 18] = [
    Surface { path: "/v1/chat/completions", request: chat },
    Surface {
        path: "/v1/completions",
        request: |model| json!({"model": model, "prompt": "Hello", "max_tokens": 5}),
    },
    Surface { path: "/v1/embeddings", request: embeddings },
    Surface { path: "/v1/rerank", request: rerank },
    Surface { path: "/v1/score", request: score },
    Surface { path: "/v1/moderations", request: moderation },
    Surface { path: "/v1/images/generations", request: images },
    Surface { path: "/v1/audio/speech", request: speech },
    Surface { path: "/v1beta/models/acme/fast:generateContent", request: contents },
    Surface { path: "/v1beta/models/acme/fast:streamGenerateContent?alt=sse", request: contents },
    Surface { path: "/v1beta/models/acme/fast:countTokens", request: contents },
    Surface { path: "/v1beta/models/acme/embed:embedContent", request: content },
    Surface { path: "/v1beta/models/acme/embed:batchEmbedContents", request: embed_batch },
    Surface { path: "/v1/responses", request: response },
    Surface { path: "/v1/messages", request: message },
    Surface { path: "/v1/messages/count_tokens", request: count },
    Surface { path: "/v1/responses/input_tokens", request: response },
    Surface { path: "/v1/responses/compact", request: response },
];

fn count(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
}

/// The status and the code of an answer. The Messages API has a type instead of a code.
fn outcome(answer: &Response) -> (u16, String) {
    let kind = answer.json()["error"]["type"].as_str().unwrap_or_default().to_owned();
    (answer.status, Some(answer.code()).filter(|code| !code.is_empty()).unwrap_or(kind))
}

/// What a refusal looks like on a surface: `code` of OpenAI's APIs, `kind` of Anthropic's.
fn refusal(surface: &Surface, status: u16, code: &str, kind: &str) -> (u16, String) {
    let word = if surface.path.starts_with("/v1/messages") { kind } else { code };
    (status, word.to_owned())
}

/// A gateway with the keys of every rule. `acme/fast` and `acme/embed` are the models.
async fn rules() -> World {
    let mut extra = String::new();
    for (at, _) in SURFACES.iter().enumerate() {
        extra.push_str(&format!("[[keys]]\nname = \"rpm{at}\"\nkey = \"sk-rpm-{at}\"\nrpm = 1\n"));
    }
    extra.push_str("[[keys]]\nname = \"flight\"\nkey = \"sk-flight\"\nmax_in_flight = 1\n");
    // The cost of one answer of `acme/plain`, to the last digit.
    extra.push_str("[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.00002\n");
    Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() }.start().await
}

/// How a request shows whose it is.
#[derive(Clone, Copy, Debug)]
enum Proof {
    Key,
    /// The session of a browser that signed in with the key.
    Session,
}

impl Proof {
    async fn client(self, world: &World, key: &str) -> Client {
        match self {
            Self::Key => world.gateway.client().with_key(key),
            Self::Session => page_with(&world.gateway, &sign_in(&world.gateway, key).await),
        }
    }
}

async fn ask(client: &Client, surface: &Surface) -> Response {
    client.post_json(surface.path, &(surface.request)("acme/fast")).await
}

#[tokio::test]
async fn every_rule_of_a_key_holds_on_every_surface() {
    check_rules(Proof::Key).await;
}

#[tokio::test]
async fn every_rule_of_a_key_holds_on_every_surface_for_its_sessions() {
    check_rules(Proof::Session).await;
}

async fn check_rules(proof: Proof) {
    let world = rules().await;
    let (upstream, nobody) = (&world.upstream, world.gateway.client());
    let mut differences = Differences::default();

    for (at, surface) in SURFACES.iter().enumerate() {
        let client = proof.client(&world, &format!("sk-rpm-{at}")).await;
        differences.check(format!("{}: within rpm", surface.path), ask(&client, surface).await.status, 200);
        let calls = upstream.hits();
        let refused = ask(&client, surface).await;
        let expected = refusal(surface, 429, "rate_limit_exceeded", "rate_limit_error");
        differences.check(format!("{}: rpm", surface.path), outcome(&refused), expected);
        let told = (refused.header("retry-after").is_some(), refused.header("x-should-retry"));
        differences.check(format!("{}: rpm, headers", surface.path), told, (true, Some("true")));
        differences.check(format!("{}: rpm, calls", surface.path), upstream.hits(), calls);
    }

    let limited = proof.client(&world, LIMITED).await;
    for surface in &SURFACES {
        let calls = upstream.hits();
        let refused = ask(&limited, surface).await;
        let expected = refusal(surface, 403, "model_not_allowed", "permission_error");
        differences.check(format!("{}: model list", surface.path), outcome(&refused), expected);
        differences.check(format!("{}: model list, calls", surface.path), upstream.hits(), calls);
    }

    let poor = proof.client(&world, "sk-poor").await;
    let question = with(
        chat("acme/plain"),
        json!({"max_tokens": 5, "messages": [{"role": "user", "content": "Hello!"}]}),
    );
    poor.post_json("/v1/chat/completions", &question).await.ok();
    for surface in &SURFACES {
        let calls = upstream.hits();
        let refused = ask(&poor, surface).await;
        let expected = refusal(surface, 429, "insufficient_quota", "billing_error");
        differences.check(format!("{}: budget", surface.path), outcome(&refused), expected);
        let told = (refused.header("retry-after"), refused.header("x-should-retry"));
        differences.check(format!("{}: budget, headers", surface.path), told, (None, Some("false")));
        differences.check(format!("{}: budget, calls", surface.path), upstream.hits(), calls);
    }

    let admin = nobody.with_key(ADMIN);
    let (secret, key) = create(&admin, json!({"name": "gone"})).await;
    let id = key["id"].as_str().expect("an id").to_owned();
    let gone = proof.client(&world, &secret).await;
    ask_admin(&admin, "DELETE", &format!("/admin/v1/keys/{id}"), &json!({})).await.ok();
    for surface in &SURFACES {
        let calls = upstream.hits();
        let refused = ask(&gone, surface).await;
        let expected = refusal(surface, 401, "invalid_api_key", "authentication_error");
        differences.check(format!("{}: revoked", surface.path), outcome(&refused), expected);
        differences.check(
            format!("{}: revoked, retry", surface.path),
            refused.header("x-should-retry"),
            Some("false"),
        );
        differences.check(format!("{}: revoked, calls", surface.path), upstream.hits(), calls);
    }

    let calls = upstream.hits();
    upstream.enqueue(Answer::default().hang());
    let busy = proof.client(&world, "sk-flight").await;
    let holding = tokio::spawn({
        let busy = busy.clone();
        async move { busy.post_json("/v1/chat/completions", &chat("acme/fast")).await }
    });
    upstream.request(calls).await;
    for surface in &SURFACES {
        let refused = ask(&busy, surface).await;
        let expected = refusal(surface, 429, "rate_limit_exceeded", "rate_limit_error");
        differences.check(format!("{}: in flight", surface.path), outcome(&refused), expected);
        differences.check(format!("{}: in flight, calls", surface.path), upstream.hits(), calls + 1);
    }
    holding.abort();
    differences.finish();
}

#[tokio::test]
async fn a_count_that_a_provider_makes_holds_its_keys_place_and_costs_nothing() {
    let counter = FakeUpstream::start().await;
    let mut extra = format!(
        "[[providers]]\nname = \"vllm\"\napi = \"openai\"\nbase_url = \"http://{}/v1\"\napi_key = \"sk-upstream-key-000\"\n\
         responses = false\n[[models]]\nid = \"vllm/qwen\"\npricing = {{ official_input_per_m = 9.0, official_output_per_m = 9.0 }}\n",
        counter.addr
    );
    let counts = [
        ("/v1/messages/count_tokens", count("vllm/qwen")),
        ("/v1/responses/input_tokens", response("vllm/qwen")),
    ];
    for (at, _) in counts.iter().enumerate() {
        extra.push_str(&format!(
            "[[keys]]\nname = \"one{at}\"\nkey = \"sk-one-{at}\"\nmax_in_flight = 1\nbudget_usd = 1.0\n"
        ));
    }
    let world = Setup { extra, ..Setup::default() }.start().await;
    for (at, (path, body)) in counts.into_iter().enumerate() {
        let client = world.gateway.client().with_key(&format!("sk-one-{at}"));
        let go = Signal::new();
        counter
            .enqueue(Answer::json(200, &json!({"count": 4711, "tokens": []})).after(Step::Wait(go.clone())));
        let counting = tokio::spawn({
            let client = client.clone();
            async move { client.post_json(path, &body).await }
        });
        assert_eq!(counter.request(at).await.path, "/tokenize");
        let refused = client.post_json("/v1/chat/completions", &chat("acme/fast")).await;
        assert_eq!((refused.status, &*refused.code()), (429, "rate_limit_exceeded"), "{path}");
        go.fire();
        assert_eq!(counting.await.expect("it ends").ok().json()["input_tokens"], 4711, "{path}");
        let own = client.get("/v1/me").await.ok().json()["limits"][0].clone();
        assert_eq!(
            (&own["budget"]["spent_usd"], &own["budget"]["reserved_usd"]),
            (&json!(0), &json!(0)),
            "{path}"
        );
    }
    assert_eq!(world.upstream.hits(), 0);
}
