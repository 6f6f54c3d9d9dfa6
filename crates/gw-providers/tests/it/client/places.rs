//! The addresses that the client may call.

use gw_providers::client::Client;
use gw_wire::failure::FailureKind;

use crate::upstream::{Upstream, exchange, send};

const SMALL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn x1_private_addresses_are_not_dialled_without_the_operators_permission() {
    let upstream = Upstream::saying(SMALL).await;
    let port = upstream.address.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
    ] {
        let base_url = format!("http://{host}:{port}/v1");
        let client = Client::new(&base_url, false, None).unwrap();
        let failure = send(&client).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unreachable, "{host}");
        assert_eq!(upstream.connections(), 0, "{host}");
    }
    let client = Client::new(&format!("http://localhost:{port}/v1"), true, None).unwrap();
    assert_eq!(exchange(&client).await.unwrap().1, "{}");
}

#[tokio::test]
async fn i4_link_local_addresses_are_never_dialled_even_by_name() {
    for host in ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376"] {
        let client = Client::new(&format!("http://{host}/latest/meta-data"), true, None).unwrap();
        let failure = send(&client).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unreachable, "{host}");
        assert!(failure.detail.unwrap().contains("no address that may be called"), "{host}");
    }
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "100.100.100.200"] {
        assert!(Client::new(&format!("http://{host}/"), true, None).is_err(), "{host}");
    }
}

#[tokio::test]
async fn k12_a_public_address_without_tls_is_not_dialled_by_name_either() {
    // The resolver reads these names as 8.8.8.8.
    for host in ["134744072", "0x08080808", "8.8.8.8"] {
        let client =
            Client::new(&format!("http://{host}/v1"), true, None).unwrap().without_public_plain_http();
        let failure = send(&client).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unreachable, "{host}");
        assert!(failure.detail.unwrap().contains("set allow_plain_http"), "{host}");
    }
    let upstream = Upstream::saying(SMALL).await;
    let local = format!("http://localhost:{}/v1", upstream.address.port());
    let client = Client::new(&local, true, None).unwrap().without_public_plain_http();
    assert_eq!(exchange(&client).await.unwrap().1, "{}");
}

#[tokio::test]
async fn the_request_line_and_host_come_from_the_origin() {
    let (seen, mut requests) = tokio::sync::mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            while let Some(request) = peer.request().await {
                seen.send(request).await.unwrap();
                peer.say(SMALL).await;
            }
        }
    })
    .await;
    exchange(&upstream.client()).await.unwrap();
    let expected = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-length: 13\r\n\r\n{{\"model\":\"m\"}}",
        upstream.address
    );
    assert_eq!(requests.recv().await.unwrap(), expected);
}
