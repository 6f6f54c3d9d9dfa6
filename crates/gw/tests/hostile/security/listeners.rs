//! Two listeners: what operators use answers at `server.admin_listen` alone, and what clients use answers at `server.listen`.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use gw_testkit::certificate::Certificate;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, FakeUpstream, Launch, Response};
use serde_json::json;

use super::authz::URLS;
use crate::harness::curl::curl;
use crate::harness::signs::admin_address;
use crate::harness::{ADMIN, Differences, KEY, Setup, binary, chat};

const BOTH: &str = "admin_listen = \"127.0.0.1:0\"";
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW"];
const HIDDEN: (u16, &str) = (404, "unknown_url");

/// Whether the listener of clients serves this route.
fn is_for_clients(pattern: &str) -> bool {
    ["/v1/", "/v1beta/"].iter().any(|start| pattern.starts_with(start))
        || ["/healthz", "/readyz", "/", "passthrough"].contains(&pattern)
}

/// Whether the admin listener serves this route.
fn is_for_operators(pattern: &str) -> bool {
    pattern != "passthrough" && !["/v1/", "/v1beta/"].iter().any(|start| pattern.starts_with(start))
}

async fn ask(client: &Client, method: &str, url: &str) -> Response {
    let body = (!matches!(method, "GET" | "HEAD")).then_some(&b"{}"[..]);
    client.send(method, url, Some("application/json"), body).await
}

#[tokio::test]
async fn i39_each_url_answers_at_its_own_listener_alone() {
    let extra = "[[passthrough]]\npath = \"/passed\"\nprovider = \"beta\"\n".to_owned();
    let world = Setup { server: BOTH, extra, ..Setup::default() }.start().await;
    world.second.always(Answer::json(200, &json!({})));
    let (public, inside) = (world.gateway.client(), Client::new(admin_address(&world.gateway).await));
    let team = inside.with_key(ADMIN).send("PUT", "/admin/v1/teams/blue", None, Some(b"{}")).await;
    assert_eq!(team.status, 201);
    let mut rows = Differences::default();
    for (pattern, url, statuses) in URLS {
        // Errors of Anthropic's API have no code.
        let has_code = !url.starts_with("/v1/messages");
        let url = &*url.replace("<id>", "sk-gw-000000");
        for (listener, client, is_served) in
            [("public", &public, is_for_clients(pattern)), ("admin", &inside, is_for_operators(pattern))]
        {
            // A key changes nothing: what is not there is not there for anybody.
            for (caller, client) in [("nobody", client.clone()), ("an admin", client.with_key(ADMIN))] {
                for method in METHODS.iter().filter(|_| !is_served) {
                    let answer = ask(&client, method, url).await;
                    let label = format!("{method} {url} by {caller} at the {listener} listener");
                    let code = if *method == "HEAD" || !has_code { "" } else { HIDDEN.1 };
                    rows.answer(label, &answer, (HIDDEN.0, code));
                }
            }
            if is_served && statuses.first() == Some(&200) && !pattern.starts_with("/admin/v1/keys/") {
                let method = if url.ends_with("/reload") { "POST" } else { "GET" };
                let answer = ask(&client.with_key(ADMIN), method, url).await;
                rows.check(format!("{method} {url} at the {listener} listener"), answer.status, 200);
            }
        }
    }
    rows.finish();
    assert_eq!(inside.get("/metrics").await.status, 401, "the listener is not the only guard");
    assert_eq!(inside.with_key(KEY).get("/metrics").await.code(), "admin_required");
    assert_eq!(inside.with_key(KEY).post_json("/v1/chat/completions", &chat("acme/fast")).await.status, 404);
    assert_eq!(world.upstream.hits(), 0, "the admin listener serves no client");
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn i39_no_spelling_of_a_url_and_no_header_leads_to_the_other_listener() {
    let world = Setup { server: BOTH, ..Setup::default() }.start().await;
    let admin = admin_address(&world.gateway).await;
    let client = world.gateway.client().with_key(ADMIN);
    let mut paths: Vec<String> = ["/metrics", "/admin/v1/keys", "/docs", "/auth/login"]
        .iter()
        .flat_map(|path| {
            let inner = &path[1..];
            [
                format!("{path}/"),
                format!("{path}?a=/v1/"),
                format!("/{path}"),
                format!("/v1/..{path}"),
                format!("/v1/%2e%2e{path}"),
                format!("/v1/%2E%2E%2F{inner}"),
                format!("/healthz/..{path}"),
                format!("/%{:02x}{}", inner.as_bytes()[0], &inner[1..]),
                format!("{path};/v1"),
                format!("http://{admin}{path}"),
                format!("http://{}{path}", world.gateway.addr),
            ]
        })
        .collect();
    paths.push("/METRICS".to_owned());
    let mut rows = Differences::default();
    for path in paths {
        rows.answer(&path, &client.get(&path).await, HIDDEN);
    }
    for (name, value) in [
        ("x-forwarded-host", admin.to_string()),
        ("x-forwarded-port", admin.port().to_string()),
        ("x-forwarded-prefix", "/admin".to_owned()),
        ("x-original-url", "/metrics".to_owned()),
        ("x-rewrite-url", "/metrics".to_owned()),
        ("forwarded", format!("host=\"{admin}\"")),
    ] {
        rows.answer(name, &client.with_header(name, &value).get("/metrics").await, HIDDEN);
    }
    // The host of the other listener, on a connection that was used before.
    let mut wire = RawClient::connect(world.gateway.addr).await;
    for path in ["/v1/models", "/metrics"] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {admin}\r\nauthorization: Bearer {ADMIN}\r\n\r\n");
        wire.send(head).await;
        let expected = if path == "/metrics" { HIDDEN } else { (200, "") };
        rows.answer(path, &wire.response().await.expect("an answer"), expected);
    }
    rows.finish();
    // curl sends the key of a client, which has no rights here.
    for (address, expected) in [(world.gateway.addr, "404"), (admin, "403")] {
        let (url, host) = (format!("http://{address}/metrics"), format!("Host: {admin}"));
        let (version, status, _) = curl(&url, &["--http2-prior-knowledge", "-H", &host], &json!({})).await;
        assert_eq!((version.as_str(), status.as_str()), ("2", expected));
    }
}

#[tokio::test]
async fn i39_both_listeners_speak_tls() {
    let made = Certificate::of(&["127.0.0.1"]);
    let upstream = FakeUpstream::start().await;
    let server = "admin_listen = \"127.0.0.1:0\"\ntls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let config = Setup { server, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config).file("cert.pem", &made.pem);
    let gateway = launch.file("key.pem", &made.key_pem).start().await;
    let admin = admin_address(&gateway).await;
    let authority = gateway.dir().join("cert.pem");
    let authority = authority.to_str().expect("UTF-8");
    for (address, path, expected) in [
        (gateway.addr, "/v1/chat/completions", "200"),
        (gateway.addr, "/admin/v1/routing/explain", "404"),
        (admin, "/v1/chat/completions", "404"),
        // The key of the clients is understood here, and has no rights.
        (admin, "/admin/v1/routing/explain", "403"),
    ] {
        let url = format!("https://{address}{path}");
        let (_, status, body) = curl(&url, &["--cacert", authority], &chat("acme/fast")).await;
        assert_eq!(status, expected, "{url}: {body}");
    }
    for address in [gateway.addr, admin] {
        let mut wire = RawClient::connect(address).await;
        wire.send(Client::new(address).with_key(ADMIN).head("GET", "/healthz", None, None)).await;
        let said = wire.until_closed().await;
        assert!(!said.starts_with(b"HTTP/"), "nothing is served without TLS: {said:?}");
    }
}

/// Which of two URLs each listener serves.
async fn assert_apart(public: SocketAddr, admin: SocketAddr) {
    let (public, admin) = (Client::new(public).with_key(ADMIN), Client::new(admin).with_key(ADMIN));
    let mut rows = Differences::default();
    rows.answer("public metrics", &public.get("/metrics").await, HIDDEN);
    rows.answer("admin models", &admin.get("/v1/models").await, HIDDEN);
    rows.answer("public models", &public.get("/v1/models").await, (200, ""));
    rows.answer("admin metrics", &admin.get("/metrics").await, (200, ""));
    rows.finish();
}

#[tokio::test]
async fn i39_a_take_over_keeps_the_listeners_apart() {
    let config =
        Setup { server: BOTH, ..Setup::default() }.config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let mut first = Launch::new(binary()).file("gateway.toml", &config).start().await;
    let admin = admin_address(&first).await;
    let second = Launch::new(binary())
        .file("gateway.toml", &config)
        .env("MODEL_GATEWAY_DATA_DIR", first.dir().join("data").to_str().expect("UTF-8"))
        .arg("serve")
        .arg("--take-over")
        .start()
        .await;
    assert_eq!(first.ended().await.code(), Some(0));
    assert_eq!((second.addr, admin_address(&second).await), (first.addr, admin));
    assert_apart(second.addr, admin).await;
}

/// Kills the program at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program as systemd does, with two sockets as the descriptors 3 and 4.
fn activated(launch: &Launch, sockets: [&TcpListener; 2]) -> Running {
    let script = "exec 3<&0 4<&1 0</dev/null 1>/dev/null; LISTEN_FDS=2 LISTEN_PID=$$ exec \"$0\" serve";
    let home = launch.dir();
    let [public, admin] =
        sockets.map(|socket| OwnedFd::from(socket.try_clone().expect("a copy of the socket")));
    let child = Command::new("sh")
        .args(["-c", script, binary()])
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .env("MODEL_GATEWAY_DATA_DIR", home.join("data"))
        .stdin(public)
        .stdout(admin)
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("sh can be executed"))
}

#[tokio::test]
async fn i39_the_second_socket_of_the_service_manager_is_the_admin_listener() {
    // The configuration names no second listener; the service manager passes one.
    let config = Setup::default().config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let [public, admin] = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
    let _running = activated(&launch, [&public, &admin]);
    assert_apart(public.local_addr().expect("an address"), admin.local_addr().expect("an address")).await;
}
