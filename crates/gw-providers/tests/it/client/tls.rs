//! TLS: trusted certificates, and HTTP/2 where both sides agree to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_testkit::measured::at_most;
use gw_testkit::within;
use gw_wire::failure::FailureKind;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls_pki_types::PrivatePkcs8KeyDer;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::upstream::{call, clocks, exchange, send};

/// A certificate authority, and the file with its certificate.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ca-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    fn server(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
        alpn: &[&[u8]],
    ) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        acceptor(certificate.der().clone(), &key, alpn, rustls::DEFAULT_VERSIONS)
    }

    fn client(&self, address: SocketAddr) -> Client {
        Client::new(&format!("https://localhost:{}/v1", address.port()), true, Some(&self.file)).unwrap()
    }
}

fn acceptor(
    certificate: rustls_pki_types::CertificateDer<'static>,
    key: &KeyPair,
    alpn: &[&[u8]],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Accepts TLS and counts the application bytes.
async fn counting(acceptor: TlsAcceptor) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let Ok(mut tls) = acceptor.accept(socket).await else { return };
                let mut bytes = Vec::new();
                while let Ok(read) = tls.read_buf(&mut bytes).await {
                    if read == 0 {
                        return;
                    }
                    seen.fetch_add(read, Ordering::SeqCst);
                }
            });
        }
    });
    (address, count)
}

#[tokio::test]
async fn u04_no_byte_of_a_request_reaches_a_server_that_is_not_trusted() {
    let trusted = Authority::new("u04-trusted");
    let stranger = Authority::new("u04-stranger");
    let self_signed = {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        acceptor(certificate.der().clone(), &key, &[], rustls::DEFAULT_VERSIONS)
    };
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    };
    let early = |params: &mut CertificateParams| params.not_before = date_time_ymd(2999, 1, 1);
    let cases = [
        ("expired", trusted.server(&["localhost"], expired, &[])),
        ("not valid yet", trusted.server(&["localhost"], early, &[])),
        ("wrong host", trusted.server(&["example.com"], |_| {}, &[])),
        ("unknown authority", stranger.server(&["localhost"], |_| {}, &[])),
        ("self-signed", self_signed),
    ];
    for (what, server) in cases {
        let (address, bytes) = counting(server).await;
        let failure = send(&trusted.client(address)).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unreachable, "{what}");
        assert!(failure.detail.unwrap().contains("tls"), "{what}");
        assert_eq!(bytes.load(Ordering::SeqCst), 0, "{what}");
    }
}

#[tokio::test]
async fn u04_a_handshake_that_stalls_ends_at_the_connect_timeout() {
    let authority = Authority::new("u04-stall");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = authority.client(listener.local_addr().unwrap());
    // The root certificates are loaded before the time is measured.
    let _first = client.send(call(), &Timeouts { connect: Duration::from_secs(1), ..clocks() }).await;
    let limit = Duration::from_millis(200);
    let started = std::time::Instant::now();
    let failure = client.send(call(), &Timeouts { connect: limit, ..clocks() }).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(started.elapsed() >= limit);
    at_most("u04_a_handshake_that_stalls_ends_at_the_connect_timeout", started.elapsed(), limit * 2);
}

#[tokio::test]
async fn u04_cleartext_where_tls_was_expected_is_unreachable() {
    let authority = Authority::new("u04-clear");
    let upstream = crate::upstream::Upstream::start(|_, mut peer| async move {
        peer.say("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        peer.closed().await;
    })
    .await;
    let failure = send(&authority.client(upstream.address)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable);
}

#[tokio::test]
async fn https_without_alpn_speaks_http1_and_keeps_the_connection() {
    let authority = Authority::new("h1");
    let acceptor = authority.server(&["localhost"], |_| {}, &[b"http/1.1"]);
    let server = Server::start(acceptor, |_| async { full("{}") }).await;
    let client = authority.client(server.address);
    for _ in 0..3 {
        assert_eq!(exchange(&client).await.unwrap().1, "{}");
    }
    assert_eq!(server.connections(), 1);
}

type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

/// A hyper server with TLS, for HTTP/2 or HTTP/1.1 as agreed.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start<F, Fut>(acceptor: TlsAcceptor, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), connections: Arc::default() };
        let connections = Arc::clone(&server.connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let tls = acceptor.accept(socket).await.unwrap();
                    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                    let service = service_fn(move |request| {
                        let answer = answer.clone();
                        async move { Ok::<_, std::convert::Infallible>(answer(request).await) }
                    });
                    let io = TokioIo::new(tls);
                    let _ended = if is_http2 {
                        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                            .serve_connection(io, service)
                            .await
                    } else {
                        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
                    };
                });
            }
        });
        server
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn full(text: &'static str) -> Response<Body> {
    Response::new(http_body_util::Full::new(Bytes::from_static(text.as_bytes())).boxed())
}

/// A body that a channel feeds.
fn streamed() -> (mpsc::UnboundedSender<Bytes>, Response<Body>) {
    let (feed, mut fed) = mpsc::unbounded_channel::<Bytes>();
    let stream = futures_util::stream::poll_fn(move |cx| {
        fed.poll_recv(cx)
            .map(|chunk| chunk.map(|chunk| Ok::<_, std::convert::Infallible>(Frame::data(chunk))))
    });
    (feed, Response::new(BodyExt::boxed(StreamBody::new(stream))))
}

#[tokio::test]
async fn http2_is_used_where_agreed_and_one_connection_serves_all() {
    let authority = Authority::new("h2");
    let acceptor = authority.server(&["localhost"], |_| {}, &[b"h2", b"http/1.1"]);
    let server = Server::start(acceptor, |request| async move {
        assert_eq!(request.version(), http::Version::HTTP_2);
        assert_eq!(request.uri().path(), "/v1/chat/completions");
        assert!(request.uri().authority().unwrap().as_str().starts_with("localhost:"));
        assert!(request.headers().get("host").is_none());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, r#"{"model":"m"}"#);
        full("{}")
    })
    .await;
    let client = Arc::new(authority.client(server.address));
    assert_eq!(exchange(&client).await.unwrap().1, "{}");
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { exchange(&client).await.unwrap().1 })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "{}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_an_http2_body_resets_its_stream_and_not_the_connection() {
    let authority = Authority::new("h2-drop");
    let acceptor = authority.server(&["localhost"], |_| {}, &[b"h2"]);
    let gone = Arc::new(Notify::new());
    let told = Arc::clone(&gone);
    let server = Server::start(acceptor, move |_| {
        let told = Arc::clone(&told);
        async move {
            let (feed, response) = streamed();
            feed.send(Bytes::from_static(b"hello")).unwrap();
            tokio::spawn(async move {
                feed.closed().await;
                told.notify_one();
            });
            response
        }
    })
    .await;
    let client = authority.client(server.address);
    let mut response = send(&client).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
    drop(response);
    within("the connection closes", gone.notified()).await;
    let mut response = send(&client).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_101st_stream_opens_a_second_http2_connection() {
    let authority = Authority::new("h2-cap");
    let acceptor = authority.server(&["localhost"], |_| {}, &[b"h2"]);
    let server = Server::start(acceptor, |_| async {
        let (feed, response) = streamed();
        feed.send(Bytes::from_static(b"hello")).unwrap();
        tokio::spawn(async move { feed.closed().await });
        response
    })
    .await;
    let client = authority.client(server.address);
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(send(&client).await.unwrap());
    }
    assert_eq!(server.connections(), 1);
    open.push(send(&client).await.unwrap());
    assert_eq!(server.connections(), 2);
    drop(open);
    send(&client).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn u07_a_broken_http2_connection_is_reported_at_once_and_replaced() {
    let authority = Authority::new("h2-break");
    let acceptor = authority.server(&["localhost"], |_| {}, &[b"h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = authority.client(listener.local_addr().unwrap());
    let break_it = Arc::new(Notify::new());
    let broken = Arc::clone(&break_it);
    tokio::spawn(async move {
        for number in 0.. {
            let (socket, _) = listener.accept().await.unwrap();
            let (acceptor, broken) = (acceptor.clone(), Arc::clone(&broken));
            tokio::spawn(async move {
                let tls = acceptor.accept(socket).await.unwrap();
                let service = service_fn(|_| async {
                    let (feed, response) = streamed();
                    feed.send(Bytes::from_static(b"hello")).unwrap();
                    tokio::spawn(async move { feed.closed().await });
                    Ok::<_, std::convert::Infallible>(response)
                });
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tls), service);
                if number == 0 {
                    tokio::select! {
                        _ = serving => {}
                        () = broken.notified() => {}
                    }
                } else {
                    let _ended = serving.await;
                }
            });
        }
    });
    let mut response = send(&client).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
    break_it.notify_one();
    let started = std::time::Instant::now();
    let failure = response.body.chunk().await.unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::StreamBroken);
    at_most(
        "u07_a_broken_http2_connection_is_reported_at_once_and_replaced",
        started.elapsed(),
        Duration::from_millis(100),
    );
    let mut response = send(&client).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
}
