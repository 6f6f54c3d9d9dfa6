//! The rules that browsers obey: security headers on every response, and the origins whose pages may read answers.

use gw_server::{Guard, ROUTES, Route};
use gw_testkit::{Client, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{ADMIN, Setup, chat, world};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const HEADERS: [(&str, &str); 5] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// A path of the route.
fn path(route: &Route) -> String {
    match route.pattern {
        "unknown" | "passthrough" => "/nothing".to_owned(),
        // Its stream has no end, so it is asked wrongly.
        "/admin/v1/requests/live" => "/admin/v1/requests/live?no=1".to_owned(),
        pattern => pattern.replace("{id}", "x").replace("/*", "/nothing"),
    }
}

fn check(label: &str, answer: &Response) {
    for (name, value) in HEADERS {
        assert_eq!(answer.header(name), Some(value), "{label}: {name}");
    }
    assert_eq!(answer.header("strict-transport-security"), None, "{label}: it means nothing without TLS");
}

#[tokio::test]
async fn k09_every_response_has_the_security_headers_errors_included() {
    let world = world().await;
    let callers = [world.gateway.client(), world.gateway.client().with_key(ADMIN)];
    for route in ROUTES {
        for client in &callers {
            for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "BREW"] {
                let answer = client.send(method, &path(route), Some("application/json"), None).await;
                check(&format!("{method} {} is {}", route.pattern, answer.status), &answer);
            }
        }
    }
    let body = "x".repeat(100);
    let large =
        callers[1].send("POST", "/v1/chat/completions", Some("text/plain"), Some(body.as_bytes())).await;
    check("an unsupported media type", &large);
    let mut socket = tokio::net::TcpStream::connect(world.gateway.addr).await.expect("a connection");
    socket.write_all(b"GET / HTTP/1.1\r\nbad header\r\n\r\n").await.expect("sent");
    let mut head = String::new();
    socket.read_to_string(&mut head).await.expect("an answer");
    for (name, value) in HEADERS {
        assert!(head.contains(&format!("{name}: {value}\r\n")), "{name}: {head}");
    }
    // A generated answer is for programs and has no more headers than before.
    let answer = world.client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    let names = ["content-security-policy", "referrer-policy"].map(|name| answer.header(name));
    assert_eq!((names, answer.header("x-content-type-options")), ([None, None], Some("nosniff")));
}

#[tokio::test]
async fn k10_no_page_of_another_origin_reads_an_operators_answer_and_none_sends_credentials() {
    const NAMED: &str = "https://console.example";
    let open = world().await;
    let setup = Setup { server: "admin_cors_origins = [\"https://console.example\"]", ..Setup::default() };
    let named = setup.start().await;
    for route in ROUTES {
        let is_for_operators = ![Guard::Open, Guard::Key].contains(&route.guard)
            || ["unknown", "passthrough"].contains(&route.pattern)
            || route.pattern.starts_with("/auth/")
            || route.pattern.starts_with("/ui/");
        for (world, named) in [(&open, None), (&named, Some(NAMED))] {
            for origin in [
                None,
                Some(NAMED),
                Some("https://evil.example"),
                Some("null"),
                Some("https://console.example.evil"),
            ] {
                for method in ["GET", "POST", "OPTIONS"] {
                    for with_key in [true, false] {
                        let client = world.gateway.client();
                        let client: Client = if with_key { client.with_key(ADMIN) } else { client };
                        let client =
                            origin.map_or(client.clone(), |origin| client.with_header("origin", origin));
                        let answer = client.send(method, &path(route), Some("application/json"), None).await;
                        let label = format!("{method} {} from {origin:?}", route.pattern);
                        let expected = match origin {
                            _ if !is_for_operators => Some("*"),
                            Some(origin) if named == Some(origin) => Some(origin),
                            _ => None,
                        };
                        assert_eq!(answer.header("access-control-allow-origin"), expected, "{label}");
                        assert_eq!(answer.header("access-control-allow-credentials"), None, "{label}");
                    }
                }
            }
        }
    }
}
