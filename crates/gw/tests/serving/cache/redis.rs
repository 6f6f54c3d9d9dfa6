//! Several gateways share one cache in Redis. A Redis that is away, frozen or sends invalid data costs no client its answer.

use gw_testkit::wait::eventually_true;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Redis};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{ADMIN, KEY, Setup, chat_with, serve};

const PATH: &str = "/v1/chat/completions";

/// Settings with a long timeout, because a lookup that is late is a MISS.
fn setup(redis: &str) -> Setup {
    impatient_setup(redis, 5000)
}

fn impatient_setup(redis: &str, timeout_ms: u32) -> Setup {
    let extra =
        format!("[redis]\nurl = \"{redis}\"\ntimeout_ms = {timeout_ms}\n[cache]\nbackend = \"redis\"\n");
    Setup { extra, ..Setup::default() }
}

fn config(upstream: &FakeUpstream, redis: &str) -> String {
    setup(redis).config(&upstream.base_url(), &upstream.base_url())
}

fn body(text: &str) -> Value {
    chat_with(
        "acme/fast",
        json!({ "cache": { "enabled": true }, "messages": [{ "role": "user", "content": text }] }),
    )
}

/// The cache's result for a chat, which must succeed.
async fn cache_result_of(client: &Client, text: &str) -> String {
    let answer = client.post_json(PATH, &body(text)).await.ok();
    answer.header("x-gateway-cache").unwrap_or_default().to_owned()
}

/// Repeats a chat until it is a hit.
async fn until_hit(client: &Client, text: &str) {
    eventually_true("it is in the cache", async || cache_result_of(client, text).await == "HIT").await;
}

#[tokio::test]
async fn two_gateways_on_one_redis_share_hits_and_purges() {
    let (upstream, redis) = (FakeUpstream::start().await, Redis::start().await);
    let config = config(&upstream, &redis.url());
    let (one, two) = (serve(&config).await, serve(&config).await);
    let (first, second) = (one.client().with_key(KEY), two.client().with_key(KEY));
    assert_eq!(cache_result_of(&first, "shared").await, "MISS");
    until_hit(&second, "shared").await;
    // Another key misses, and so does every key after a purge on the other gateway.
    assert_eq!(cache_result_of(&two.client().with_key(ADMIN), "shared").await, "MISS");
    let purged = one.client().with_key(ADMIN).send("DELETE", "/admin/v1/cache", None, None).await;
    assert_eq!(purged.status, 200, "{}", purged.text());
    assert_eq!(cache_result_of(&second, "shared").await, "MISS");
}

#[tokio::test]
async fn a_redis_that_stops_freezes_or_comes_back_costs_no_answer() {
    let (upstream, mut redis) = (FakeUpstream::start().await, Redis::start().await);
    let url = upstream.base_url();
    let gateway = serve(&impatient_setup(&redis.url(), 200).config(&url, &url)).await;
    let client = gateway.client().with_key(KEY);
    assert_eq!(cache_result_of(&client, "x").await, "MISS");
    until_hit(&client, "x").await;
    redis.pause();
    for _ in 0..5 {
        assert_eq!(cache_result_of(&client, "x").await, "MISS", "frozen");
    }
    redis.resume();
    until_hit(&client, "x").await;
    redis.kill();
    for _ in 0..5 {
        assert_eq!(cache_result_of(&client, "x").await, "MISS", "gone");
    }
    redis.restart().await;
    until_hit(&client, "x").await;
}

#[tokio::test]
async fn a_redis_that_talks_nonsense_costs_no_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while socket.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    if socket.write_all(b"$5\r\nhallo\r\n*3\r\n:1\r\nHTTP/1.1 200 OK\r\n\r\n").await.is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    let upstream = FakeUpstream::start().await;
    let gateway = serve(&config(&upstream, &format!("redis://{address}"))).await;
    let client = gateway.client().with_key(KEY);
    for _ in 0..10 {
        assert_eq!(cache_result_of(&client, "x").await, "MISS");
    }
    assert_eq!(upstream.hits(), 10);
}

/// The cache's result for a question to this model.
async fn asks(gateway: &Gateway, model: &str) -> String {
    let body = chat_with(model, json!({ "cache": { "enabled": true } }));
    let answer = gateway.client().with_key(KEY).post_json(PATH, &body).await.ok();
    answer.header("x-gateway-cache").unwrap_or_default().to_owned()
}

async fn until_kept(gateway: &Gateway, model: &str) {
    eventually_true("it is in the cache", async || asks(gateway, model).await == "HIT").await;
}

#[tokio::test]
async fn i21_another_provider_behind_the_same_name_is_a_miss_for_gateways_on_one_redis() {
    let (redis, elsewhere) = (Redis::start().await, FakeUpstream::start().await);
    let [acme, beta] = [FakeUpstream::start().await, FakeUpstream::start().await];
    let (elsewhere, acme, beta) = (elsewhere.base_url(), acme.base_url(), beta.base_url());
    let config = setup(&redis.url()).config(&acme, &beta);
    let first = serve(&config).await;
    const NAMES: [&str; 3] = ["acme/fast", "fast", "smart"];
    for name in NAMES {
        until_kept(&first, name).await;
    }
    let changed = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        config.replacen(from, to, 1)
    };
    let header = Setup { acme: "headers = { \"x-tenant\" = \"two\" }".to_owned(), ..setup(&redis.url()) };
    for (what, config, hits) in [
        ("the same", config.clone(), &NAMES[..]),
        (
            "a price, a clock, a description",
            changed("description = \"Quick and cheap\"", "timeouts = { idle_ms = 7000 }"),
            &NAMES,
        ),
        ("another address", changed(&acme, &elsewhere), &[]),
        ("another of the bare name's", changed(&beta, &elsewhere), &["acme/fast", "smart"]),
        (
            "one less of the bare name's",
            changed("id = \"beta/fast\"", "id = \"beta/quick\""),
            &["acme/fast", "smart"],
        ),
        ("another upstream model", changed("fast-2026-01", "fast-2026-02"), &[]),
        ("another API", changed("api = \"openai\"", "api = \"mistral\""), &[]),
        (
            "another alias",
            changed("\"smart\" = \"acme/fast\"", "\"smart\" = \"acme/plain\""),
            &["acme/fast", "fast"],
        ),
        ("another header", header.config(&acme, &beta), &[]),
    ] {
        let gateway = serve(&config).await;
        for name in NAMES {
            let expected = if hits.contains(&name) { "HIT" } else { "MISS" };
            assert_eq!(asks(&gateway, name).await, expected, "{what}: {name}");
        }
        // The stored answer is unchanged.
        for name in NAMES {
            assert_eq!(asks(&first, name).await, "HIT", "after {what}: {name}");
        }
    }
}

/// Settings of a provider that change the answers of a model.
#[tokio::test]
async fn i21_another_deployment_or_another_limit_behind_the_same_model_is_a_miss() {
    let redis = Redis::start().await;
    let [acme, beta] = [FakeUpstream::start().await, FakeUpstream::start().await];
    let (acme_url, beta_url) = (acme.base_url(), beta.base_url());
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{ "type": "text", "text": "Hi" }], "stop_reason": "end_turn",
        "usage": { "input_tokens": 1, "output_tokens": 1 } });
    beta.respond_with(move |_| Answer::json(200, &message));
    let azure = |deployment: &str| {
        let deployments = format!("deployments = {{ \"fast-2026-01\" = \"{deployment}\" }}");
        let setup = Setup { acme: deployments, ..setup(&redis.url()) };
        let config = setup.config(acme_url.trim_end_matches("/v1"), &beta_url);
        config.replacen("api = \"openai\"", "api = \"azure\"", 1)
    };
    let anthropic = |most: &str| {
        let config = setup(&redis.url()).config(&acme_url, &beta_url);
        let (head, beta) = config.split_once("name = \"beta\"").expect("beta");
        let beta = beta.replacen("api = \"openai\"", "api = \"anthropic\"", 1);
        format!("{head}name = \"beta\"{}", beta.replacen("max_output_tokens = 100", most, 1))
    };
    for (model, one, two) in [
        ("acme/fast", azure("north"), azure("south")),
        ("beta/spare", anthropic("max_output_tokens = 100"), anthropic("max_output_tokens = 200")),
    ] {
        let (one, two) = (serve(&one).await, serve(&two).await);
        until_kept(&one, model).await;
        let asked = |upstream: &FakeUpstream| {
            let last = upstream.last();
            (last.path.clone(), last.json())
        };
        let upstream = if model == "acme/fast" { &acme } else { &beta };
        let first = asked(upstream);
        assert_eq!(asks(&two, model).await, "MISS", "{model}");
        assert_ne!(asked(upstream), first, "{model}: the upstream is asked for something else");
    }
}
