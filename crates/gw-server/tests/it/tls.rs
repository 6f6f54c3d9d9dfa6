//! The TLS listener: HTTP/2 or HTTP/1 by ALPN, and the same clocks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    generate_simple_self_signed,
};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use gw_server::PreparedCertificate;
use gw_server::tls::TlsSettings;

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

/// An authority of client certificates.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn client(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// The files of a server certificate, and the roots that trust it.
struct Files {
    folder: tempfile::TempDir,
    roots: RootCertStore,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap(), roots: RootCertStore::empty() };
        files.renewed()
    }

    /// Writes another certificate.
    fn renewed(mut self) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.folder.path().join("cert.pem"), cert.pem()).unwrap();
        std::fs::write(self.folder.path().join("key.pem"), signing_key.serialize_pem()).unwrap();
        self.roots = RootCertStore::empty();
        self.roots.add(cert.der().clone()).unwrap();
        self
    }

    fn settings(&self) -> TlsSettings {
        let (cert, key) = (self.folder.path().join("cert.pem"), self.folder.path().join("key.pem"));
        TlsSettings { cert, key, ..TlsSettings::default() }
    }
}

type ClientPair = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// The status of a request, or None when the connection failed.
async fn status(
    gateway: &Gateway,
    roots: &RootCertStore,
    pair: Option<ClientPair>,
    versions: &[&'static SupportedProtocolVersion],
) -> Option<u16> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots.clone());
    let config = match pair {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let tcp = TcpStream::connect(gateway.public).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let request = http::Request::get("/healthz").header("host", "x").body(Empty::<Bytes>::new()).unwrap();
    Some(sender.send_request(request).await.ok()?.status().as_u16())
}

const ALL: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

#[tokio::test]
async fn k12_a_client_shows_a_certificate_of_the_authority() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for is_optional in [false, true] {
        let files = Files::new();
        let ca = files.folder.path().join("clients.pem");
        std::fs::write(&ca, authority.certificate.pem()).unwrap();
        let tls = TlsSettings {
            client_ca: Some(ca),
            is_client_certificate_optional: is_optional,
            ..files.settings()
        };
        let gateway = Gateway::with(|settings| settings.tls = Some(tls)).await;
        for versions in [&[&TLS12][..], &[&TLS13]] {
            let of = async |pair| status(&gateway, &files.roots, pair, versions).await;
            assert_eq!(of(Some(authority.client())).await, Some(200));
            assert_eq!(of(Some(stranger.client())).await, None);
            assert_eq!(of(None).await, is_optional.then_some(200));
        }
    }
}

#[tokio::test]
async fn k12_tls_1_1_is_refused() {
    let files = Files::new();
    let gateway = Gateway::with(|settings| settings.tls = Some(files.settings())).await;
    // The extensions are signature algorithms, groups and point formats.
    let extensions = [0, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0];
    // The first bytes of the answer to a client that knows TLS 1.1 or 1.2 at most: a fatal alert `protocol_version`, or a
    // handshake.
    for (version, expected) in [(2, &[21, 3, 3, 0, 2, 2, 70][..]), (3, &[22, 3, 3])] {
        let hello = [&[3, version][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 22], &extensions].concat();
        let length = u8::try_from(hello.len()).unwrap();
        let bytes = [&[22, 3, 1, 0, length + 4, 1, 0, 0, length][..], &hello].concat();
        let mut socket = TcpStream::connect(gateway.public).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, &bytes).await.unwrap();
        let mut heard = vec![0; expected.len()];
        let reading = tokio::time::timeout(Duration::from_secs(10), socket.read_exact(&mut heard)).await;
        reading.expect("the gateway answers").unwrap();
        assert_eq!(heard, expected, "version 3.{version}");
    }
}

#[tokio::test]
async fn k12_a_certificate_is_replaced_under_load_and_no_connection_fails() {
    let mut files = Files::new();
    let gateway = Gateway::with(|settings| settings.tls = Some(files.settings())).await;
    let before = files.roots.clone();
    let mut both = before.clone();
    for _ in 0..20 {
        files = files.renewed();
        both.roots.extend(files.roots.roots.clone());
        let (one, two) = tokio::join!(status(&gateway, &both, None, ALL), async {
            let next = PreparedCertificate::read(&files.settings()).unwrap();
            gateway.certificates.as_ref().unwrap().replace(next);
            status(&gateway, &both, None, ALL).await
        });
        assert_eq!((one, two), (Some(200), Some(200)));
    }
    assert_eq!(status(&gateway, &files.roots, None, ALL).await, Some(200));
    assert_eq!(status(&gateway, &before, None, ALL).await, None, "the old certificate is gone");
}
