//! Whose credential an upstream gets, which headers and which path; what comes back.

use base64::Engine as _;
use gw_testkit::Answer;
use serde_json::json;

use super::{row, world_with};
use crate::harness::{KEY, Setup, UPSTREAM_KEY, assert_error, chat};

#[tokio::test]
async fn the_rest_of_the_path_and_the_query_follow_the_address_of_the_upstream() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &json!({"ok": true})));
    for (asked, sent) in [
        ("/acme", "/v1"),
        ("/acme/", "/v1/"),
        ("/acme/models?a=b&c=%20d", "/v1/models?a=b&c=%20d"),
        ("/acme?x", "/v1?x"),
        ("/acme/files/a%2Fb/content", "/v1/files/a%2Fb/content"),
        ("/fee/reader", "/v1/reader"),
        ("/v1/videos/vid_1/content", "/v1/videos/vid_1/content"),
    ] {
        world.client.get(asked).await.ok();
        assert_eq!(world.upstream.last().path, sent, "{asked}");
    }
    for unknown in ["/acmex", "/Acme", "/%61cme", "/v1/videosx", "/v2"] {
        let answer = world.client.get(unknown).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_url"), "{unknown}");
    }
    let hits = world.upstream.hits();
    for path in [
        "/acme/../x",
        "/acme/%2e%2e/x",
        "/acme/a/..%2f..%2fx",
        "/acme/%252e%252e/x",
        "/acme//x",
        "/acme/a//b",
        "/acme/a%5c..%5cb",
        "/acme/%0d%0aevil:1",
        "/acme/a%00",
        "/acme/..;/x",
        "/acme/.",
    ] {
        let answer = world.client.get(path).await;
        assert_error(path, &answer, 400, "invalid_request_error", "invalid_request");
    }
    assert_eq!(world.upstream.hits(), hits, "none of them went upstream");
}

#[tokio::test]
async fn the_operators_credential_replaces_the_gateways_key_wherever_it_stood() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &json!({})));
    let bare = world.client.without_key();
    let bearer = format!("Bearer {KEY}");
    for (header, value) in [
        ("authorization", &*bearer),
        ("x-api-key", KEY),
        ("api-key", KEY),
        ("x-goog-api-key", KEY),
        ("x-gateway-key", KEY),
    ] {
        let client = bare.with_header(header, value).with_header("cookie", "a=b").with_header("x-other", "1");
        let client = client.with_header("anthropic-version", "2023-06-01").with_header("accept", "text/x");
        let client =
            client.with_header("connection", "x-vendor-version").with_header("x-vendor-version", "1");
        let client = client.with_header("x-stainless-package-version", "1");
        client.with_header("x-gateway-session", "s").get("/acme/models").await.ok();
        let sent = world.upstream.last();
        assert_eq!(sent.header("authorization"), Some(&*format!("Bearer {UPSTREAM_KEY}")), "{header}");
        let all: Vec<&str> = sent.headers.iter().map(|(_, value)| value.as_str()).collect();
        assert!(!all.iter().any(|value| value.contains(KEY)), "{header}: {all:?}");
        let kept = ["anthropic-version", "accept"].map(|name| sent.header(name));
        assert_eq!(kept, [Some("2023-06-01"), Some("text/x")], "{header}");
        for left_out in ["cookie", "x-other", "x-gateway-session", "x-gateway-key", "x-api-key"] {
            assert_eq!(sent.header(left_out), None, "{header}");
        }
        for left_out in ["x-vendor-version", "x-stainless-package-version"] {
            assert_eq!(sent.header(left_out), None, "{header}");
        }
    }
    bare.get(&format!("/acme/models?a=1&key={KEY}&b=2")).await.ok();
    assert_eq!(world.upstream.last().path, "/v1/models?a=1&b=2");
    world.client.get("/v1/videos").await.ok();
    assert_eq!(world.upstream.last().header("authorization"), Some("Bearer target-secret-123"));
    let hits = world.upstream.hits();
    for client in [
        bare.clone(),
        bare.with_header("x-api-key", KEY).with_header("api-key", "sk-other"),
        bare.with_key("sk-wrong"),
        bare.with_header("cookie", "gw_session=abc"),
    ] {
        let answer = client.get("/acme/models").await;
        assert_error("no key", &answer, 401, "authentication_error", "invalid_api_key");
    }
    assert_eq!(world.upstream.hits(), hits);
}

#[tokio::test]
async fn a_forwarded_credential_is_the_clients_and_the_gateways_key_stays_here() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &json!({})));
    let client = world.client.without_key().with_header("x-gateway-key", KEY);
    let client = client.with_key("clients-own").with_header("x-kept", "1").with_header("x-other", "2");
    client.get("/own/x?key=theirs").await.ok();
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/base/x?key=theirs");
    let headers = ["authorization", "x-kept", "x-other", "x-gateway-key"].map(|name| sent.header(name));
    assert_eq!(headers, [Some("Bearer clients-own"), Some("1"), None, None]);
    // So it is with the parameters of the query.
    client.get(&format!("/own/x?key={KEY}&a=1&api_key={KEY}&b=Bearer%20{KEY}&c=2")).await.ok();
    assert_eq!(world.upstream.last().path, "/v1/base/x?a=1&c=2");
    // A client that writes the gateway's key into other headers, too, sends it nowhere.
    let twice = world.client.without_key().with_header("x-gateway-key", KEY).with_key(KEY);
    twice.with_header("x-api-key", KEY).with_header("x-kept", &format!("a {KEY} b")).get("/own/x").await.ok();
    let sent = world.upstream.last();
    let all: Vec<&str> = sent.headers.iter().map(|(_, value)| value.as_str()).collect();
    assert!(!all.iter().any(|value| value.contains(KEY)), "{all:?}");
    // The gateway's key in another header would go upstream, so it is not looked for there.
    let hits = world.upstream.hits();
    for client in [world.client.clone(), world.client.without_key().with_header("x-api-key", KEY)] {
        let answer = client.get("/own/x").await;
        assert_error("no x-gateway-key", &answer, 401, "authentication_error", "invalid_api_key");
    }
    assert_eq!(world.upstream.hits(), hits);
    world.upstream.enqueue(Answer::error(401, "invalid_api_key", "wrong"));
    let answer = client.get("/own/x").await;
    assert_eq!(
        (answer.status, answer.message()),
        (401, "wrong".to_owned()),
        "it is about the client's credential"
    );
}

#[tokio::test]
async fn the_clients_own_credential_stands_in_no_record() {
    let world = world_with("").await;
    let bare = world.client.without_key().with_header("x-gateway-key", KEY);
    for (client, path) in [
        (bare.with_key("own-secret.canarythree"), "/own/x"),
        (bare.with_header("x-api-key", "own-secret.canarythree"), "/own/x"),
        (bare.clone(), "/own/x?key=own-secret.canarythree"),
    ] {
        for status in [400, 401, 500] {
            let words = "Incorrect API key provided: own-secret.canarythree";
            world.upstream.enqueue(Answer::error(status, "invalid_api_key", words));
            let answer = client.get(path).await;
            assert_eq!(
                (answer.status, answer.message()),
                (status, words.to_owned()),
                "the client gets the words"
            );
            let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
            assert_eq!(line["upstream_error"], "Incorrect API key provided: [redacted]", "{line}");
            let row = row(&world, &answer).await.to_string();
            assert!(!row.contains("canarythree"), "{row}");
        }
    }
    let logs = [world.gateway.stdout(), world.gateway.stderr()].concat().join("\n");
    assert!(!logs.contains("canarythree"), "{logs}");
}

#[tokio::test]
async fn denied_betas_of_the_provider_do_not_go_upstream() {
    let acme = "deny_betas = [\"dear-2026\", \"dearer-2026\"]".to_owned();
    let extra = "[[passthrough]]\npath = \"/acme\"\nprovider = \"acme\"\n".to_owned();
    let world = Setup { acme, extra, ..Setup::default() }.start().await;
    world.upstream.always(Answer::json(200, &json!({})));
    for (given, sent) in [
        ("dear-2026, cheap-2026,dearer-2026", Some("cheap-2026")),
        ("dear-2026", None),
        ("cheap-2026", Some("cheap-2026")),
    ] {
        world.client.with_header("anthropic-beta", given).get("/acme/x").await.ok();
        assert_eq!(world.upstream.last().header("anthropic-beta"), sent, "{given}");
    }
}

#[tokio::test]
async fn statuses_redirects_and_headers_of_the_upstream_pass() {
    let world = world_with("").await;
    let elsewhere = gw_testkit::FakeUpstream::start().await;
    let location = format!("{}/x", elsewhere.base_url());
    for status in [201, 204, 301, 302, 307, 308, 400, 402, 403, 404, 409, 418, 422, 429, 499, 500, 503] {
        let headers = [
            ("location", &*location),
            ("x-vendor", "v"),
            ("set-cookie", "a=b"),
            ("retry-after", "7"),
            ("proxy-authenticate", "Basic"),
            ("proxy-connection", "close"),
        ];
        let body = if status == 204 { "" } else { r#"{"vendor":"error"}"# };
        world.upstream.enqueue(Answer::full(status, &headers, body));
        let answer = world.client.post_json("/fee/x", &json!({})).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, body));
        let passed = ["location", "x-vendor", "retry-after", "set-cookie"].map(|name| answer.header(name));
        assert_eq!(passed, [Some(&*location), Some("v"), Some("7"), None], "{status}");
        let of_hop = ["proxy-authenticate", "proxy-connection"].map(|name| answer.header(name));
        assert_eq!(of_hop, [None, None], "{status}");
        assert_eq!(answer.header("content-security-policy"), Some("default-src 'none'; sandbox"));
        let row = row(&world, &answer).await;
        let cost = if status < 300 { json!(0.0125) } else { json!(0) };
        assert_eq!((&row["cost_usd"], &row["surface"]), (&cost, &json!("passthrough")), "{status}: {row}");
        assert_eq!(row["status"] == "ok", status < 400, "{status}: {row}");
        let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
        assert_eq!((&line["status"], &line["code"]), (&json!(status), &row["status"]), "{line}");
        assert_ne!(line["code"], "client_closed_request", "the client got the upstream's answer");
    }
    assert_eq!(elsewhere.hits(), 0, "no redirect is followed");
    let secret = format!("Incorrect API key provided: {UPSTREAM_KEY}");
    world.upstream.enqueue(Answer::error(401, "invalid_api_key", &secret));
    let answer = world.client.get("/fee/x").await;
    assert_error("the operator's key", &answer, 502, "upstream_error", "upstream_auth_error");
    assert!(!answer.text().contains(UPSTREAM_KEY));
    world.upstream.enqueue(Answer::error(403, "forbidden", &secret));
    let answer = world.client.get("/fee/x").await;
    assert_eq!(answer.status, 403);
    assert!(!answer.text().contains(UPSTREAM_KEY), "{}", answer.text());
}

#[tokio::test]
async fn a_route_has_its_methods_and_the_gateways_own_urls_come_first() {
    let world = world_with("\n[[passthrough]]\npath = \"/v1\"\nprovider = \"beta\"\n").await;
    world.upstream.always(Answer::json(200, &json!({})));
    world.second.always(Answer::json(200, &json!({"second": true})));
    for (method, status) in [("POST", 200), ("PUT", 200), ("GET", 405), ("DELETE", 405), ("BREW", 405)] {
        let answer = world.client.send(method, "/fee/read", None, Some(b"")).await;
        assert_eq!(answer.status, status, "{method}");
        if status == 405 {
            assert_eq!(answer.header("allow"), Some("POST, PUT, OPTIONS"));
        }
    }
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        assert_eq!(world.client.send(method, "/fee/x", None, Some(b"")).await.status, 200, "{method}");
        assert_eq!(world.upstream.last().method, method);
    }
    world.upstream.enqueue(Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 77\r\nx-vendor: v\r\n\r\n"));
    let answer = world.client.send("HEAD", "/fee/x", None, None).await.ok();
    assert_eq!((answer.header("content-length"), answer.body.len()), (Some("77"), 0));
    let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    assert_eq!((&line["status"], &line["code"]), (&json!(200), &json!("ok")), "{line}");
    // `/v1` is a route, too.
    assert_eq!(world.client.get("/v1/files").await.ok().json(), json!({"second": true}));
    assert_eq!(world.client.get("/v1/models").await.ok().json()["object"], "list");
    let preflight = world.client.without_key().with_header("origin", "https://a.example");
    assert_eq!(preflight.send("OPTIONS", "/fee/read", None, None).await.status, 204);
}

#[tokio::test]
async fn a_parameter_key_beside_a_key_in_a_header_is_one_of_the_upstream_unless_it_is_a_credential() {
    let google = "[[providers]]\nname = \"goog\"\napi = \"gemini\"\nbase_url = \"<acme_url>\"\napi_key = \"g-secret\"\n\
                  [[passthrough]]\npath = \"/goog\"\nprovider = \"goog\"\n";
    let world = world_with(google).await;
    world.upstream.always(Answer::json(200, &json!({})));
    let bare = world.client.without_key();
    for client in
        [world.client.clone(), bare.with_header("x-api-key", KEY), bare.with_header("x-gateway-key", KEY)]
    {
        client.get("/acme/objects?key=a%2Fb&x=1").await.ok();
        assert_eq!(world.upstream.last().path, "/v1/objects?key=a%2Fb&x=1");
        // The gateway's key goes nowhere.
        client.get(&format!("/acme/objects?key={KEY}&x=1&api_key={KEY}")).await.ok();
        assert_eq!(world.upstream.last().path, "/v1/objects?x=1");
        // Google reads a credential there, and the operator's has to count.
        client.get("/goog/models?key=theirs&x=1").await.ok();
        let sent = world.upstream.last();
        assert_eq!((&*sent.path, sent.header("x-goog-api-key")), ("/v1/models?x=1", Some("g-secret")));
    }
    bare.get(&format!("/acme/objects?key={KEY}&x=1&api_key={KEY}")).await.ok();
    assert_eq!(world.upstream.last().path, "/v1/objects?x=1", "the key of the query stands in it twice");
    let hits = world.upstream.hits();
    let answer = bare.get("/acme/objects?key=a").await;
    assert_error("no key", &answer, 401, "authentication_error", "invalid_api_key");
    assert_eq!(world.upstream.hits(), hits);
}

#[tokio::test]
async fn a_header_of_the_upstream_tells_no_secret_of_the_operator() {
    let world = world_with("").await;
    let location = format!("https://a.example/x?key={UPSTREAM_KEY}&y=1");
    let echo = format!("Bearer {UPSTREAM_KEY}");
    for status in [200, 307, 400, 403, 500] {
        let headers = [("location", &*location), ("x-echo", &*echo), ("x-vendor", "v")];
        world.upstream.enqueue(Answer::full(status, &headers, "{}"));
        let answer = world.client.get("/fee/x").await;
        assert_eq!((answer.status, answer.text().as_str()), (status, "{}"));
        let passed = ["location", "x-vendor"].map(|name| answer.header(name));
        assert_eq!(passed, [Some("https://a.example/x?key=[redacted]&y=1"), Some("v")], "{status}");
        assert!(answer.headers.iter().all(|(_, value)| !value.contains(UPSTREAM_KEY)), "{status}");
    }
}

#[tokio::test]
async fn a_body_that_repeats_the_operators_credential_comes_with_a_mask_of_its_length() {
    let world = world_with("").await;
    let mask = "*".repeat(UPSTREAM_KEY.len());
    let text = format!("{{\"auth\":\"Bearer {UPSTREAM_KEY}\",\"note\":\"sk-upstream\"}}");
    let masked = text.replace(UPSTREAM_KEY, &mask);
    for status in [200, 302] {
        world.upstream.enqueue(Answer::full(status, &[("content-type", "application/json")], &text));
        let answer = world.client.get("/fee/x").await;
        assert_eq!((answer.status, answer.text()), (status, masked.clone()));
        assert_eq!(answer.header("content-length"), Some(&*text.len().to_string()));
    }
    // The end of a body may begin like the credential.
    for end in ["s", "sk-upstream-canary-739"] {
        world.upstream.enqueue(Answer::full(200, &[("content-type", "text/plain")], end));
        assert_eq!(world.client.get("/fee/x").await.ok().text(), end);
        world.upstream.enqueue(Answer::sse().chunk(end).end());
        assert_eq!(world.client.get("/fee/x").await.ok().text(), end);
    }
    // The pieces of a stream share it.
    let events = format!("data: {text}\n\ndata: [DONE]\n\n");
    let stream = Answer::full(200, &[("content-type", "text/event-stream")], &events);
    for size in [1, 7] {
        world.upstream.enqueue(stream.in_pieces(std::iter::repeat(size)));
        let answer = world.client.get("/fee/x").await.ok();
        assert_eq!(answer.text(), events.replace(UPSTREAM_KEY, &mask), "{size}");
        assert!(!answer.broken);
    }
    // On a route without `inject` the credential is the client's own.
    let own = world.client.without_key().with_header("x-gateway-key", KEY);
    world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], &text));
    assert_eq!(own.get("/own/x").await.ok().text(), text);
}

/// The key of a provider with signs that writers of JSON and of URLs encode.
const CODED_KEY: &str = "sk-coded/canary+one=7QyTabcd";

#[tokio::test]
async fn a_credential_is_found_in_the_form_in_which_an_upstream_writes_it() {
    let coded = format!(
        "[[providers]]\nname = \"coded\"\napi = \"openai\"\nbase_url = \"<acme_url>\"\napi_key = \"{CODED_KEY}\"\n\
         [[passthrough]]\npath = \"/coded\"\nprovider = \"coded\"\n"
    );
    let world = world_with(&coded).await;
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("api:{CODED_KEY}"));
    for form in [
        CODED_KEY.to_owned(),
        CODED_KEY.replace('/', "\\/"),
        CODED_KEY.replace('+', "\\u002B").replace('=', "\\u003d"),
        CODED_KEY.replace('/', "%2f").replace('+', "%2b").replace('=', "%3D"),
        basic,
    ] {
        for status in [200, 400, 500] {
            // One byte is Latin-1.
            let body = [b"{\"caf\xe9\":\"", form.as_bytes(), b"\"}"].concat();
            let headers = [("content-type", "application/json"), ("x-echo", &*form), ("x-vendor", "v")];
            let sent = Answer::full(status, &headers, &body);
            world.upstream.enqueue(sent);
            let answer = world.client.get("/coded/x").await;
            let shown = [&answer.body[..], format!("{:?}", answer.headers).as_bytes()].concat();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            // The secret's middle stands in each form as it is, but in base64.
            assert!(!shown.contains(form.get(12..18).expect("a middle")), "{status}: {shown}");
            assert!(answer.body.starts_with(b"{\"caf\xe9\":\"") && answer.body.ends_with(b"\"}"), "{shown}");
        }
    }
}

#[tokio::test]
async fn the_token_of_a_configured_header_is_a_secret_without_its_scheme() {
    const TOKEN: &str = "team/search.prod.canarytwo";
    let more = format!(
        "[[providers]]\nname = \"headed\"\napi = \"openai\"\nbase_url = \"<acme_url>\"\n\
         headers = {{ authorization = \"Bearer {TOKEN}\" }}\n[[models]]\nid = \"headed/m\"\n\
         [[passthrough]]\npath = \"/headed\"\nprovider = \"headed\"\n"
    );
    let world = world_with(&more).await;
    for status in [200, 400, 403, 500] {
        world.upstream.enqueue(Answer::full(status, &[("x-echo", TOKEN)], format!("you sent {TOKEN}!")));
        let answer = world.client.get("/headed/x").await;
        assert_eq!(answer.status, status);
        let mark = if status < 400 { "*".repeat(TOKEN.len()) } else { "[redacted]".to_owned() };
        assert_eq!(
            (answer.text(), answer.header("x-echo")),
            (format!("you sent {mark}!"), Some("[redacted]"))
        );
    }
    let message = format!("Incorrect credential {TOKEN} used");
    world.upstream.enqueue(Answer::error(400, "bad", &message));
    let answer = world.chat(&chat("headed/m")).await;
    assert_eq!((answer.status, &*answer.message()), (400, "Incorrect credential [redacted] used"));
    let row = row(&world, &answer).await.to_string();
    let logs = [world.gateway.stdout(), world.gateway.stderr()].concat().join("\n");
    assert!(!row.contains("canarytwo") && !logs.contains("canarytwo"), "{row}");
}
