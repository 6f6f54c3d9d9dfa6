//! The order of the checks, and the headers of every answer.

use crate::harness::{ADMIN, Client, Gateway, KEY, RATED};

const CHAT: &str = "POST /v1/chat/completions";
const JSON: &str = "content-type: application/json";

#[tokio::test]
async fn the_first_failure_wins() {
    let gateway = Gateway::start().await;
    let large = "x".repeat(300 << 10);
    for (request, headers, body, status, code) in [
        // 1: the key, even where there is nothing.
        (CHAT, &["content-type: text/plain"][..], "{}", 401, "invalid_api_key"),
        ("GET /v1/nothing", &[], "", 401, "invalid_api_key"),
        ("DELETE /v1/models", &[], "", 401, "invalid_api_key"),
        (CHAT, &["authorization: Bearer nope", JSON], "{}", 401, "invalid_api_key"),
        (CHAT, &[KEY, KEY, JSON], "{}", 401, "invalid_api_key"),
        // 2: the path and the method.
        ("GET /v1/nothing", &[KEY], "", 404, "unknown_url"),
        ("GET /v1", &[KEY], "", 404, "unknown_url"),
        ("DELETE /v1/models/a/b", &[KEY], "", 405, "method_not_allowed"),
        ("GET /v1/chat/completions", &[KEY], "", 405, "method_not_allowed"),
        ("GET /nothing", &[], "", 404, "unknown_url"),
        ("POST /healthz", &[], "", 405, "method_not_allowed"),
        // 4 and 5: the type, the size.
        (CHAT, &[KEY, "content-type: text/plain"], &large, 415, "unsupported_media_type"),
        (CHAT, &[KEY, JSON, "content-encoding: br"], "{}", 415, "unsupported_media_type"),
        (CHAT, &[KEY, JSON], &large, 413, "request_too_large"),
        // 6: JSON.
        (CHAT, &[KEY, JSON], "{", 400, "invalid_json"),
        (CHAT, &[KEY], "", 400, "invalid_json"),
        (CHAT, &[KEY, JSON], "[]", 400, "invalid_json"),
        (CHAT, &[KEY, JSON, "content-encoding: gzip"], "{}", 400, "invalid_json"),
        // 8: the model.
        ("GET /v1/models/no%2Fmodel", &[KEY], "", 404, "model_not_found"),
        ("GET /v1/models/%ff", &[KEY], "", 404, "model_not_found"),
        // Outside /v1.
        ("GET /metrics", &[], "", 401, "invalid_api_key"),
        ("GET /metrics", &[KEY], "", 403, "admin_required"),
        ("GET /admin/v1/keys", &[], "", 401, "invalid_api_key"),
        ("POST /admin/v1/keys", &[KEY, JSON], "{}", 403, "admin_required"),
        ("GET /admin/v1/nothing", &[ADMIN], "", 404, "unknown_url"),
    ] {
        let answer = gateway.ask(request, headers, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{request} {headers:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{request}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{request}");
    }
}

#[tokio::test]
async fn every_answer_has_its_id_and_can_be_read_by_browsers() {
    let gateway = Gateway::start().await;
    let mut ids = Vec::new();
    for (request, headers, status) in [
        ("GET /v1/models", &[KEY, "x-request-id: req_mine"][..], 200),
        ("HEAD /v1/models", &[KEY], 200),
        ("GET /v1/models/", &[KEY], 200),
        ("GET /v1/models", &[], 401),
        (
            "OPTIONS /v1/chat/completions",
            &["access-control-request-headers: authorization,x-stainless-os"],
            204,
        ),
        ("OPTIONS /anything/at/all", &[], 204),
        ("OPTIONS *", &[], 204),
        ("GET /healthz", &[], 200),
        ("HEAD /readyz", &[], 200),
        ("GET /openapi.json", &[], 200),
        ("GET /docs", &[], 200),
        ("GET /metrics", &[ADMIN], 200),
        ("GET /nothing", &[], 404),
    ] {
        let answer = gateway.ask(request, headers, "").await;
        assert_eq!(answer.status, status, "{request}");
        let id = answer.header("x-request-id").expect("an id").to_owned();
        assert!(id.starts_with("req_") && id.len() == 30 && id != "req_mine", "{id}");
        assert!(!ids.contains(&id), "twice");
        ids.push(id);
        // Pages of other origins read what is for users, and nothing of the operators'.
        let operators = ["OPTIONS /anything/at/all", "OPTIONS *", "GET /metrics", "GET /nothing"];
        let origin = (!operators.contains(&request)).then_some("*");
        assert_eq!(answer.header("access-control-allow-origin"), origin, "{request}");
        let exposed = answer.header("access-control-expose-headers");
        assert_eq!(
            exposed.is_some_and(|names| names.contains("x-request-id")),
            origin.is_some(),
            "{request}"
        );
        assert!(answer.header("access-control-allow-credentials").is_none());
        assert!(answer.header("openai-processing-ms").is_some_and(|millis| millis.parse::<u64>().is_ok()));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("server"), None);
        assert!(answer.header("content-security-policy").is_some(), "{request}");
        if request.starts_with("OPTIONS") && operators.contains(&request) {
            assert_eq!(answer.header("access-control-allow-methods"), None, "{request}");
        } else if request.starts_with("OPTIONS") {
            assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, DELETE, OPTIONS"));
            assert_eq!(answer.header("access-control-max-age"), Some("86400"));
            assert!(
                answer
                    .header("access-control-allow-headers")
                    .is_some_and(|names| names.contains("authorization"))
            );
        }
    }
}

#[tokio::test]
async fn head_says_what_get_says_without_its_body() {
    let gateway = Gateway::start().await;
    let mut client = Client::connect(gateway.public).await;
    let get = client.ask("GET /v1/models", &[KEY], "").await;
    let head = client.ask("HEAD /v1/models", &[KEY], "").await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-length"), get.header("content-length"));
    assert!(head.header("content-length").is_some_and(|length| length != "0"));
    assert_eq!(client.ask("GET /healthz", &[], "").await.status, 200, "nothing was left in between");
}

#[tokio::test]
async fn a_keys_rate_is_told_and_kept() {
    let gateway = Gateway::start().await;
    let first = gateway.ask(CHAT, &[RATED, JSON], "{").await;
    assert_eq!(first.code(), "invalid_json");
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("1"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("0"));
    let second = gateway.ask(CHAT, &[RATED, "content-type: text/plain"], "{").await;
    assert_eq!(
        (second.status, second.code().as_str()),
        (429, "rate_limit_exceeded"),
        "before the media type"
    );
    assert!(
        second
            .header("retry-after")
            .is_some_and(|seconds| (1..=61).contains(&seconds.parse::<u64>().unwrap()))
    );
    assert!(second.header("x-ratelimit-reset-requests").is_some_and(|reset| reset.ends_with('s')));
    assert_eq!(gateway.ask("GET /v1/models", &[RATED], "").await.status, 200, "only generation is counted");
}

#[tokio::test]
async fn hosts_decide_nothing() {
    let gateway = Gateway::start().await;
    for host in ["a/?", "a/#", "a@b", "", "localhost:1"] {
        let mut client = Client::connect(gateway.public).await;
        client.say(&format!("GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert_eq!(client.answer(false).await.status, 401, "{host}");
    }
    let absolute = gateway.ask("GET http://evil.example/v1/models", &[], "").await;
    assert_eq!(absolute.status, 401);
}

#[tokio::test]
async fn a_second_listener_takes_what_is_not_for_clients() {
    let gateway = Gateway::with(|settings| settings.admin_listen = Some("127.0.0.1:0".to_owned())).await;
    let mut admin = Client::connect(gateway.admin.unwrap()).await;
    for (path, public, inside) in
        [("/healthz", 200, 200), ("/metrics", 404, 200), ("/docs", 404, 200), ("/v1/models", 200, 404)]
    {
        let request = format!("GET {path}");
        assert_eq!(gateway.ask(&request, &[ADMIN], "").await.status, public, "{path}");
        assert_eq!(admin.ask(&request, &[ADMIN], "").await.status, inside, "{path}");
    }
}
