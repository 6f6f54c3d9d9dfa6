//! One cache for several gateways, over Redis: what one was answered the other has, and a Redis that is gone, frozen or talks
//! nonsense costs nobody an answer.

use std::time::Duration;

use gw_testkit::wait::within;
use gw_testkit::{Client, FakeUpstream, Gateway, Launch, Redis};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{ADMIN, BINARY, KEY, Setup, chat_with};

const PATH: &str = "/v1/chat/completions";

fn config(upstream: &FakeUpstream, redis: &str) -> String {
    let extra = format!("[redis]\nurl = \"{redis}\"\ntimeout_ms = 200\n[cache]\nbackend = \"redis\"\n");
    Setup { extra, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url())
}

async fn start(config: &str) -> Gateway {
    Launch::new(BINARY).file("gateway.toml", config).start().await
}

fn body(text: &str) -> Value {
    chat_with(
        "acme/fast",
        json!({ "cache": { "enabled": true }, "messages": [{ "role": "user", "content": text }] }),
    )
}

/// What the cache did for a chat, which must be answered.
async fn what(client: &Client, text: &str) -> String {
    let answer = client.post_json(PATH, &body(text)).await.ok();
    answer.header("x-gateway-cache").unwrap_or_default().to_owned()
}

/// Asks until it comes out of the cache.
async fn until_hit(client: &Client, text: &str) {
    within("it is in the cache", async {
        while what(client, text).await != "HIT" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn two_gateways_on_one_redis_share_hits_and_purges() {
    let (upstream, redis) = (FakeUpstream::start().await, Redis::start().await);
    let config = config(&upstream, &redis.url());
    let (one, two) = (start(&config).await, start(&config).await);
    let (first, second) = (one.client().with_key(KEY), two.client().with_key(KEY));
    assert_eq!(what(&first, "shared").await, "MISS");
    until_hit(&second, "shared").await;
    // Of another key, and after a purge on the other gateway, it is not there.
    assert_eq!(what(&two.client().with_key(ADMIN), "shared").await, "MISS");
    let purged = one.client().with_key(ADMIN).send("DELETE", "/admin/v1/cache", None, None).await;
    assert_eq!(purged.status, 200, "{}", purged.text());
    assert_eq!(what(&second, "shared").await, "MISS");
}

#[tokio::test]
async fn a_redis_that_stops_freezes_or_comes_back_costs_no_answer() {
    let (upstream, mut redis) = (FakeUpstream::start().await, Redis::start().await);
    let gateway = start(&config(&upstream, &redis.url())).await;
    let client = gateway.client().with_key(KEY);
    assert_eq!(what(&client, "x").await, "MISS");
    until_hit(&client, "x").await;
    redis.pause();
    for _ in 0..5 {
        assert_eq!(what(&client, "x").await, "MISS", "frozen");
    }
    redis.resume();
    until_hit(&client, "x").await;
    redis.kill();
    for _ in 0..5 {
        assert_eq!(what(&client, "x").await, "MISS", "gone");
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
    let gateway = start(&config(&upstream, &format!("redis://{address}"))).await;
    let client = gateway.client().with_key(KEY);
    for _ in 0..10 {
        assert_eq!(what(&client, "x").await, "MISS");
    }
    assert_eq!(upstream.hits(), 10);
}
