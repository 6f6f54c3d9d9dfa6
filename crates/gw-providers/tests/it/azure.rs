//! Azure with tokens of Entra ID: how often they are fetched, and that no output shows them.

use gw_providers::provider::Provider;
use gw_providers::settings::{Api, ProviderSettings, Timeouts};
use gw_wire::failure::{Failure, FailureKind};

use crate::upstream::{Upstream, call, clocks, collect};

fn json(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn provider(resource: &Upstream, authority: &Upstream) -> Provider {
    let options = format!(
        "tenant_id = 'contoso.example'\nclient_id = 'app'\nclient_secret = 'se kret&1'\nauthority = 'http://{}'",
        authority.address
    );
    let settings = ProviderSettings {
        base_url: Some(format!("http://{}", resource.address)),
        options: options.parse().unwrap(),
        ..ProviderSettings::plain("azure", Api::AZURE)
    };
    Provider::build(&settings, Timeouts::default()).unwrap()
}

/// An upstream that gives every request the same answer, and the requests that it got.
async fn listening(answer: String) -> (Upstream, tokio::sync::mpsc::Receiver<String>) {
    let (seen, requests) = tokio::sync::mpsc::channel(16);
    let upstream = Upstream::start(move |_, mut peer| {
        let (seen, answer) = (seen.clone(), answer.clone());
        async move {
            while let Some(request) = peer.request().await {
                seen.send(request).await.unwrap();
                peer.say(answer.as_bytes()).await;
            }
        }
    })
    .await;
    (upstream, requests)
}

#[tokio::test]
async fn one_token_is_fetched_for_all_calls_and_never_shown() {
    let token = json("200 OK", r#"{"token_type":"Bearer","expires_in":3599,"access_token":"tok-123456789"}"#);
    let (authority, mut asked) = listening(token).await;
    let (resource, mut requests) = listening(json("200 OK", "{}")).await;
    let provider = provider(&resource, &authority);
    let clocks = clocks();
    let calls = (0..5).map(|_| provider.send(call(), &clocks));
    for response in futures_util::future::join_all(calls).await {
        assert_eq!(collect(response.unwrap()).await.unwrap(), "{}");
        let request = requests.recv().await.unwrap();
        assert!(request.contains("authorization: Bearer tok-123456789\r\n") && !request.contains("api-key"));
    }
    assert_eq!((authority.requests(), resource.requests()), (1, 5));
    let form = asked.recv().await.unwrap();
    assert!(form.starts_with("POST /contoso.example/oauth2/v2.0/token HTTP/1.1\r\n"), "{form}");
    assert!(form.contains("content-type: application/x-www-form-urlencoded\r\n"), "{form}");
    let body = "grant_type=client_credentials&client_id=app&client_secret=se%20kret%261&scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default";
    assert!(form.ends_with(body), "{form}");
    let said = Failure::new(FailureKind::BadRequest, "bad token tok-123456789 of se kret&1");
    assert_eq!(provider.censor(said).message, "bad token [redacted] of [redacted]");
    let shown = format!("{provider:?}");
    assert!(!shown.contains("kret") && !shown.contains("tok-"), "{shown}");
}

#[tokio::test]
async fn a_refused_application_is_an_auth_failure_and_not_retried_at_once() {
    let refusal = r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret for app se kret&1"}"#;
    for (status, body, kind, detail) in [
        ("401 Unauthorized", refusal, FailureKind::Auth, Some("token service: 401 invalid_client")),
        ("503 Service Unavailable", "", FailureKind::Overloaded, Some("token service: 503")),
        ("500 Oops", "<html>", FailureKind::Server, Some("token service: 500")),
        ("200 OK", "{}", FailureKind::InvalidResponse, None),
        ("200 OK", r#"{"access_token":""}"#, FailureKind::InvalidResponse, None),
        ("200 OK", r#"{"access_token":"a\nb"}"#, FailureKind::InvalidResponse, None),
    ] {
        let (authority, _asked) = listening(json(status, body)).await;
        let (resource, _requests) = listening(json("200 OK", "{}")).await;
        let provider = provider(&resource, &authority);
        for _ in 0..3 {
            let failure = provider.send(call(), &clocks()).await.unwrap_err();
            assert_eq!((failure.kind, failure.detail.as_deref()), (kind, detail), "{body}");
            assert!(!format!("{failure:?}").contains("kret"), "{failure:?}");
        }
        assert_eq!((authority.requests(), resource.requests()), (1, 0), "{body}");
    }
}

#[tokio::test]
async fn an_expired_token_is_fetched_again() {
    let token = json("200 OK", r#"{"expires_in":"1","access_token":"tok-123456789"}"#);
    let (authority, _asked) = listening(token).await;
    let (resource, _requests) = listening(json("200 OK", "{}")).await;
    let provider = provider(&resource, &authority);
    provider.send(call(), &clocks()).await.unwrap();
    // Sleeps: the token is valid for a second.
    tokio::time::sleep(std::time::Duration::from_millis(1_000)).await;
    provider.send(call(), &clocks()).await.unwrap();
    assert_eq!((authority.requests(), resource.requests()), (2, 2));
}
