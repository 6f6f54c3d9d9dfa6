//! The Host header, the absolute form of a request and the headers of proxies never decide which URL is checked.

use std::fmt::Write;

use gw_testkit::Response;
use gw_testkit::wire::RawClient;

use super::authz::URLS;
use crate::harness::{Differences, KEY, Setup, World};

/// Hosts that would lead to an open URL if the gateway built the URL out of the Host header.
const HOSTS: [&str; 16] = [
    "",
    "x",
    "a/?",
    "a/#",
    "a/healthz?",
    "a/healthz#",
    "a@b",
    "a@b/?#",
    "x/healthz/../",
    "x\\healthz",
    "x%2fhealthz%3f",
    "x, y",
    "x y",
    "[::1]",
    "x:99999",
    "localhost:4000/healthz;",
];

/// Headers with which some proxies replace the URL, the host or the method.
const REPLACING: [&str; 8] = [
    "x-original-url: /healthz",
    "x-rewrite-url: /healthz",
    "x-forwarded-uri: /healthz",
    "x-forwarded-prefix: /healthz",
    "x-forwarded-host: x/healthz?",
    "x-host: x/healthz?",
    "forwarded: host=\"x/healthz?\"",
    "x-http-method-override: OPTIONS",
];

/// The authorities of the absolute form of a request.
const AUTHORITIES: [&str; 4] = ["evil.example", "a@b", "127.0.0.1:1", "[::1]:80"];

/// A way to write a request for a URL: the target of its first line, and its header lines.
struct Form {
    target: String,
    lines: String,
}

fn forms(url: &str) -> Vec<Form> {
    let with = |lines: String| Form { target: url.to_owned(), lines };
    let mut forms: Vec<_> = HOSTS.iter().map(|host| with(format!("host: {host}\r\n"))).collect();
    forms.push(with(String::new()));
    forms.push(with("host: x\r\nhost: x/healthz?\r\n".to_owned()));
    forms.extend(REPLACING.iter().map(|line| with(format!("host: x\r\n{line}\r\n"))));
    forms.extend(AUTHORITIES.iter().map(|authority| Form {
        target: format!("http://{authority}{url}"),
        lines: "host: x/healthz?\r\n".to_owned(),
    }));
    forms
}

async fn ask(world: &World, method: &str, form: &Form, key: Option<&str>) -> Response {
    let mut request = format!("{method} {} HTTP/1.1\r\n{}", form.target, form.lines);
    if let Some(key) = key {
        let _ = write!(request, "authorization: Bearer {key}\r\n");
    }
    request.push_str("connection: close\r\n");
    if method == "POST" {
        request.push_str("content-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
    } else {
        request.push_str("\r\n");
    }
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(request).await;
    wire.response().await.unwrap_or_else(|| panic!("no answer to {method} {}", form.target))
}

#[tokio::test]
async fn i08_no_host_and_no_header_of_a_proxy_changes_the_url_that_is_checked() {
    // Every row without a key counts as a bad key of this address.
    let world = Setup { server: "bad_keys_per_minute = 0", ..Setup::default() }.start().await;
    let mut rows = Differences::default();
    for (_, url, _) in URLS {
        for key in [None, Some(KEY)] {
            for method in ["GET", "POST"] {
                let plain =
                    Form { target: url.to_owned(), lines: format!("host: {}\r\n", world.gateway.addr) };
                let expected = ask(&world, method, &plain, key).await;
                for form in forms(url) {
                    let answer = ask(&world, method, &form, key).await;
                    let label = format!("{method} {} {:?} {key:?}", form.target, form.lines);
                    rows.check(label, (answer.status, answer.code()), (expected.status, expected.code()));
                }
            }
        }
    }
    rows.finish();
}
