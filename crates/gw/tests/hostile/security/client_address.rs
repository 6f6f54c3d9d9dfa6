//! The client's address: who may tell it, and the limits for each address.

use gw_testkit::wire::RawClient;
use gw_testkit::{Client, Launch, eventually};
use serde_json::{Value, json};

use crate::harness::{ADMIN, KEY, Setup, World, binary, chat};

const CHAT: &str = "/v1/chat/completions";
const MODELS: &str = "/v1/models";

/// The address in the access line of a request by this client.
async fn logged(world: &World, client: &Client) -> Value {
    let answer = client.get(MODELS).await.ok();
    let id = answer.header("x-request-id").expect("an id").to_owned();
    world.gateway.log_of(&id).await["client"].clone()
}

#[tokio::test]
async fn k13_the_access_log_has_the_address_that_a_trusted_proxy_tells() {
    let world = Setup { server: "trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]", ..Setup::default() }
        .start()
        .await;
    let forwarded = |value: &str| world.client.with_header("x-forwarded-for", value);
    assert_eq!(logged(&world, &forwarded("203.0.113.7")).await, "203.0.113.7");
    assert_eq!(logged(&world, &forwarded("9.9.9.9, 203.0.113.7, 10.1.2.3")).await, "203.0.113.7");
    let twice = forwarded("9.9.9.9").with_header("x-forwarded-for", "203.0.113.7");
    assert_eq!(logged(&world, &twice).await, "203.0.113.7");
    let other = forwarded("203.0.113.7")
        .with_header("forwarded", "for=9.9.9.9")
        .with_header("x_forwarded_for", "9.9.9.9");
    assert_eq!(logged(&world, &other).await, "203.0.113.7");
    let peer = logged(&world, &world.client.with_header("x_forwarded_for", "9.9.9.9")).await;
    assert!(peer.as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{peer}");
}

#[tokio::test]
async fn k13_the_audit_log_has_the_address_that_a_trusted_proxy_tells() {
    let world = Setup { server: "trusted_proxies = [\"127.0.0.1\"]", ..Setup::default() }.start().await;
    let admin = world.client.with_key(ADMIN);
    let changing = admin.with_header("x-forwarded-for", "9.9.9.9, 203.0.113.7");
    assert_eq!(changing.post_json("/admin/v1/keys", &json!({ "name": "k" })).await.status, 201);
    let rows = admin.get("/admin/v1/audit").await.ok().json();
    assert_eq!(rows["data"][0]["actor"]["address"], "203.0.113.7");
}

#[tokio::test]
async fn k13_without_trusted_proxies_no_header_changes_the_address() {
    let world = Setup::default().start().await;
    let client =
        world.client.with_header("x-forwarded-for", "9.9.9.9").with_header("forwarded", "for=9.9.9.9");
    let peer = logged(&world, &client).await;
    assert!(peer.as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{peer}");
}

#[tokio::test]
async fn c24_an_address_with_too_many_wrong_keys_gets_429_and_its_correct_key_works() {
    let server = "bad_keys_per_minute = 3\ntrusted_proxies = [\"127.0.0.1\"]";
    let world = Setup { server, ..Setup::default() }.start().await;
    let at = |address: &str, key: &str| world.client.with_key(key).with_header("x-forwarded-for", address);
    for number in 0..3 {
        assert_eq!(at("203.0.113.7", &format!("sk-wrong-{number}")).get(MODELS).await.status, 401);
    }
    // A spoofed address to the left of the real one does not help.
    for client in [at("203.0.113.7", "sk-wrong"), at("9.9.9.9, 203.0.113.7", "sk-wrong")] {
        let refused = client.get(MODELS).await;
        assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limit_exceeded"));
        let wait: u64 = refused.header("retry-after").expect("a hint").parse().expect("seconds");
        assert!((1..=60).contains(&wait), "{wait}");
    }
    assert_eq!(at("203.0.113.8", "sk-wrong").get(MODELS).await.status, 401, "another address");
    at("203.0.113.7", KEY).post_json(CHAT, &chat("acme/fast")).await.ok();
}

#[tokio::test]
async fn k13_the_proxy_protocol_tells_the_address_of_a_connection() {
    let server = "proxy_protocol = true\ntrusted_proxies = [\"127.0.0.1\"]\nhead_timeout_ms = 500";
    let config =
        Setup { server, ..Setup::default() }.config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let gateway = Launch::new(binary()).file("gateway.toml", config).start().await;
    let client = gateway.client().with_key(KEY);
    let mut wire = RawClient::connect(gateway.addr).await;
    wire.send("PROXY TCP4 203.0.113.9 127.0.0.1 5555 4000\r\n").await;
    wire.send(client.head("GET", MODELS, None, None)).await;
    let answer = wire.response().await.expect("an answer").ok();
    let id = answer.header("x-request-id").expect("an id").to_owned();
    assert_eq!(gateway.log_of(&id).await["client"], "203.0.113.9:5555");
    for start in ["GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "PROXY TCP4 203.0.113.9", ""] {
        let mut wire = RawClient::connect(gateway.addr).await;
        wire.send(start).await;
        assert_eq!(wire.until_closed().await, b"", "{start:?}");
    }
}

#[tokio::test]
async fn c22_an_address_has_so_many_connections() {
    let world = Setup { server: "max_connections_per_address = 2", ..Setup::default() }.start().await;
    let ask = world.client.head("GET", MODELS, None, None);
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send(&ask).await;
        wire.response().await.expect("an answer").ok();
        held.push(wire);
    }
    let mut third = RawClient::connect(world.gateway.addr).await;
    assert_eq!(third.until_closed().await, b"");
    drop(held);
    // The gateway notices the closed connections a moment later.
    let addr = world.gateway.addr;
    gw_testkit::within("a place is free again", async {
        loop {
            let mut wire = RawClient::connect(addr).await;
            if wire.try_send(ask.as_bytes()).await.is_ok() && wire.response().await.is_some() {
                return;
            }
        }
    })
    .await;
}

/// Asks over HTTPS and trusts only this certificate. Returns whether the answer is 200.
fn curl(addr: std::net::SocketAddr, authority: &std::path::Path) -> bool {
    let status = std::process::Command::new("curl")
        .args([
            "--silent",
            "--fail",
            "--output",
            "/dev/null",
            "--noproxy",
            "*",
            "--max-time",
            "10",
            "--cacert",
        ])
        .arg(authority)
        .arg(format!("https://{addr}/healthz"))
        .status();
    status.expect("curl is installed").success()
}

#[tokio::test]
async fn k12_a_renewed_certificate_is_served_after_a_reload() {
    let (first, second) = (
        gw_testkit::certificate::Certificate::of(&["127.0.0.1"]),
        gw_testkit::certificate::Certificate::of(&["127.0.0.1"]),
    );
    let server = "tls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let config =
        Setup { server, ..Setup::default() }.config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let gateway = Launch::new(binary())
        .file("gateway.toml", config)
        .file("cert.pem", &first.pem)
        .file("key.pem", &first.key_pem)
        .file("first.pem", &first.pem)
        .file("second.pem", &second.pem)
        .start()
        .await;
    let (old, new) = (gateway.dir().join("first.pem"), gateway.dir().join("second.pem"));
    assert!(curl(gateway.addr, &old) && !curl(gateway.addr, &new));
    // The folder of the configuration is watched. A pair that does not fit together is not used.
    std::fs::write(gateway.dir().join("cert.pem"), &second.pem).expect("a file");
    eventually("the wrong pair is refused", || {
        gateway.stderr().iter().any(|line| line.contains("server.tls")).then_some(())
    })
    .await;
    assert!(curl(gateway.addr, &old));
    std::fs::write(gateway.dir().join("key.pem"), &second.key_pem).expect("a file");
    eventually("the new certificate is served", || curl(gateway.addr, &new).then_some(())).await;
    assert!(!curl(gateway.addr, &old));
}
