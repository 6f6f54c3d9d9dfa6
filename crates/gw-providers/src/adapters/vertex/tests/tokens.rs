//! Access tokens: asked for as documented, kept, renewed by one call at a time, never shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair as RsaPair, KeySize};
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gw_testkit::upstream::{Answer, FakeUpstream, Signal, Step};
use gw_wire::failure::{Failure, FailureKind};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::adapter::{HttpCall, Signer};
use crate::adapters::vertex::token_source::{GoogleTokenSource, tests as source};
use crate::adapters::vertex::tokens::VertexTokens;

fn call() -> HttpCall {
    HttpCall {
        method: Method::POST,
        path: "/x".to_owned(),
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        upload: None,
    }
}

async fn sign(tokens: &VertexTokens) -> Result<String, Failure> {
    let mut call = call();
    tokens.sign(&mut call, "https://x/").await?;
    let header = call.headers.get("authorization").unwrap();
    assert!(header.is_sensitive());
    Ok(header.to_str().unwrap().to_owned())
}

/// Numbered tokens of this lifetime.
fn numbered(upstream: &FakeUpstream, expires_in: u64) {
    let count = AtomicUsize::new(0);
    upstream.respond_with(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let token = json!({"access_token": format!("ya29.token-{number}"), "expires_in": expires_in, "token_type": "Bearer"});
        Answer::json(200, &token)
    });
}

fn refreshing(upstream: &FakeUpstream) -> VertexTokens {
    let file = json!({"type": "authorized_user", "client_id": "id", "client_secret": "s+c/r", "refresh_token": "1//r",
        "quota_project_id": "payer", "token_uri": format!("http://{}/token", upstream.addr)});
    VertexTokens::new(source::of(&file).unwrap().source)
}

#[tokio::test]
async fn a_service_account_signs_an_assertion() {
    let upstream = FakeUpstream::start().await;
    numbered(&upstream, 3600);
    let pair = RsaPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let token_uri = format!("http://{}/oauth/token", upstream.addr);
    let file = json!({"type": "service_account", "project_id": "my-project", "private_key_id": "kid-1", "private_key": pem,
        "client_email": "gw@my-project.iam.gserviceaccount.com", "token_uri": token_uri});
    let read = source::of(&file).unwrap();
    assert_eq!(read.project.as_deref(), Some("my-project"));
    let tokens = VertexTokens::new(read.source);
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-0");
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-0");
    assert_eq!(tokens.secrets(), ["ya29.token-0"]);
    assert!(!format!("{tokens:?}").contains("ya29"));

    let requests = upstream.requests();
    let [request] = requests.as_slice() else { panic!("one request") };
    assert_eq!((&*request.method, &*request.path), ("POST", "/oauth/token"));
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    let body = String::from_utf8(request.body.clone()).unwrap();
    let assertion = body
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let part = |text: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
    assert_eq!(part(header), json!({"alg": "RS256", "typ": "JWT", "kid": "kid-1"}));
    let claims = part(claims);
    assert_eq!(claims["iss"], "gw@my-project.iam.gserviceaccount.com");
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    assert_eq!(claims["aud"], token_uri);
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
    key.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
}

#[tokio::test]
async fn a_user_login_sends_its_refresh_token_and_quota_project() {
    let upstream = FakeUpstream::start().await;
    numbered(&upstream, 3600);
    let tokens = refreshing(&upstream);
    let mut call = call();
    tokens.sign(&mut call, "").await.unwrap();
    assert_eq!(call.headers.get("x-goog-user-project").unwrap(), "payer");
    let body = String::from_utf8(upstream.requests()[0].body.clone()).unwrap();
    assert_eq!(body, "grant_type=refresh_token&client_id=id&client_secret=s%2Bc/r&refresh_token=1//r");
}

#[tokio::test]
async fn the_metadata_server_gets_its_required_header() {
    let upstream = FakeUpstream::start().await;
    let token =
        json!({"access_token": "ya29.machine", "expires_in": 3599, "token_type": "Bearer"}).to_string();
    upstream.enqueue(Answer::full(
        200,
        &[("metadata-flavor", "Google"), ("content-type", "application/json")],
        &token,
    ));
    let tokens = VertexTokens::new(GoogleTokenSource::metadata_at(upstream.addr));
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.machine");
    let request = &upstream.requests()[0];
    assert_eq!(
        (&*request.method, &*request.path),
        ("GET", "/computeMetadata/v1/instance/service-accounts/default/token")
    );
    assert_eq!(
        (request.header("metadata-flavor"), request.header("host")),
        (Some("Google"), Some("metadata.google.internal"))
    );

    upstream.enqueue(Answer::full(200, &[], &token));
    let failure = sign(&VertexTokens::new(GoogleTokenSource::metadata_at(upstream.addr))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Auth);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failure = sign(&VertexTokens::new(GoogleTokenSource::metadata_at(nobody))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.detail.unwrap().contains("no credentials_file"));
}

#[tokio::test]
async fn many_calls_wait_for_one_token() {
    let upstream = FakeUpstream::start().await;
    let go = Signal::new();
    let token = r#"{"access_token":"ya29.only","expires_in":3600}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{token}", token.len());
    upstream.enqueue(Answer::steps(vec![Step::Wait(go.clone()), Step::Raw(head.into_bytes())]));
    let tokens = Arc::new(refreshing(&upstream));
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let tokens = Arc::clone(&tokens);
            tokio::spawn(async move { sign(&tokens).await })
        })
        .collect();
    tokio::task::yield_now().await;
    go.fire();
    for caller in callers {
        assert_eq!(caller.await.unwrap().unwrap(), "Bearer ya29.only");
    }
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn an_expiring_token_is_renewed_and_used_while_renewal_fails() {
    let upstream = FakeUpstream::start().await;
    numbered(&upstream, 100);
    let tokens = refreshing(&upstream);
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-0");
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-1");
    upstream.always(Answer::json(500, &json!({"error": "internal_failure"})));
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-1");
    let hits = upstream.hits();
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-1");
    assert_eq!(upstream.hits(), hits, "nobody asks again at once");
}

#[tokio::test]
async fn an_expired_token_is_not_sent_twice() {
    let upstream = FakeUpstream::start().await;
    numbered(&upstream, 5);
    let tokens = refreshing(&upstream);
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-0");
    assert_eq!(sign(&tokens).await.unwrap(), "Bearer ya29.token-1");
}

#[tokio::test]
async fn token_refusals_are_classified_and_not_repeated() {
    for (status, body, kind) in [
        (400, r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#, FailureKind::Auth),
        (401, r#"{"error":"invalid_client"}"#, FailureKind::Auth),
        (429, "", FailureKind::RateLimited),
        (500, "<html>", FailureKind::Server),
        (503, "{}", FailureKind::Overloaded),
        (200, "{}", FailureKind::InvalidResponse),
        (200, r#"{"access_token":"a\nb","expires_in":5}"#, FailureKind::InvalidResponse),
    ] {
        let upstream = FakeUpstream::start().await;
        upstream.always(Answer::full(status, &[], body));
        let tokens = refreshing(&upstream);
        let failure = sign(&tokens).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{status} {body}");
        assert!(!format!("{failure:?}").contains("Invalid JWT"), "{failure:?}");
        assert_eq!(sign(&tokens).await.unwrap_err().kind, kind);
        assert_eq!(upstream.hits(), 1);
    }
}

#[test]
fn a_faulty_credentials_file_is_named_without_its_content() {
    let secret = "sekret-sekret";
    for (file, words) in [
        (json!([]), "not a JSON object"),
        (json!({"type": "external_account", "private_key": secret}), "not of type"),
        (json!({"type": "service_account", "client_email": "a"}), "no private_key"),
        (json!({"type": "service_account", "private_key": secret, "client_email": "a"}), "not an RSA key"),
        (json!({"type": "authorized_user", "client_id": "a", "refresh_token": secret}), "no client_secret"),
        (json!({"type": "authorized_user", "token_uri": "http://example.org/token"}), "not https"),
        (json!({"type": "authorized_user", "token_uri": secret}), "not a URL"),
    ] {
        let fault = source::of(&file).map(|_| ()).unwrap_err().to_string();
        assert!(fault.contains(words) && !fault.contains(secret), "{fault}");
    }
}
