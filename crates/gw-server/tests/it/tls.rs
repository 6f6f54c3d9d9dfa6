//! The TLS listener: HTTP/2 or HTTP/1 by ALPN, and the same clocks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_server::TlsSettings;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Client, Gateway};

async fn start() -> (Gateway, RootCertStore) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (cert_path, key_path) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert_path, cert.pem()).unwrap();
    std::fs::write(&key_path, signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let gateway = Gateway::with(|settings| {
        settings.tls = Some(TlsSettings { cert: cert_path, key: key_path, ..TlsSettings::default() });
        settings.head_timeout = Duration::from_millis(500);
    })
    .await;
    (gateway, roots)
}

async fn connect(gateway: &Gateway, roots: &RootCertStore, protocol: &[u8]) -> TlsStream<TcpStream> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let tcp = TcpStream::connect(gateway.public).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
}

#[tokio::test]
async fn clients_speak_what_they_negotiated() {
    let (gateway, roots) = start().await;
    let request = || http::Request::get("https://localhost/healthz").body(Empty::<Bytes>::new()).unwrap();

    let io = TokioIo::new(connect(&gateway, &roots, b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));

    let io = TokioIo::new(connect(&gateway, &roots, b"http/1.1").await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_11));
}

#[tokio::test]
async fn a_slow_hello_and_a_silent_session_end_at_the_head_clock() {
    let (gateway, roots) = start().await;
    let mut half = Client::connect(gateway.public).await;
    half.say("\u{16}\u{3}\u{1}").await;
    assert!(half.is_closed().await);
    let mut silent = connect(&gateway, &roots, b"http/1.1").await;
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), silent.read_to_end(&mut heard)).await;
    assert!(ended.is_ok() && heard.is_empty());
}
