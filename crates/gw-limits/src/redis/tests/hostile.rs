//! A server that is not Redis: requests fail in bounded time and bounded memory.

use std::time::Instant;

use gw_testkit::certificate::Certificate;
use gw_testkit::measured::at_most;
use gw_testkit::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Refusal;

/// The behaviour of the server on a connection.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// Sends nothing.
    Silent,
    /// Closes the connection at once.
    Closes,
    /// Sends another protocol.
    Garbage,
    /// Sends a string without an end.
    EndlessText,
    /// Answers OK for a while, then sends a string without an end.
    FriendlyThenEndless,
    /// Sends nested lists.
    Nested,
    /// Announces an impossibly long list.
    Huge,
}

async fn serve(listener: TcpListener, server: Server) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        tokio::spawn(misbehave(stream, server));
    }
}

async fn misbehave(mut stream: TcpStream, server: Server) {
    let mut asked = vec![0; 64 * 1024];
    if stream.read(&mut asked).await.is_err() || matches!(server, Server::Closes) {
        return;
    }
    let endless: Vec<u8> = match server {
        Server::Silent | Server::Closes => {
            let _hangs_up = stream.read_to_end(&mut Vec::new()).await;
            return;
        }
        Server::Garbage => b"HTTP/1.1 400 Bad Request\r\n\r\n\0\xff\xfe".to_vec(),
        Server::EndlessText => {
            let _gone = stream.write_all(b"$500000000\r\n").await;
            vec![b'x'; 64 * 1024]
        }
        Server::FriendlyThenEndless => {
            for _ in 0..8 {
                let _gone = stream.write_all(&b"+OK\r\n".repeat(10)).await;
                let _more = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut asked)).await;
            }
            let _gone = stream.write_all(b"*5\r\n$500000000\r\n").await;
            vec![b'x'; 64 * 1024]
        }
        Server::Nested => b"*1\r\n".repeat(16 * 1024),
        Server::Huge => b"*9223372036854775807\r\n".to_vec(),
    };
    while stream.write_all(&endless).await.is_ok() {}
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_a_hostile_redis_costs_neither_time_nor_memory() {
    let all = [
        Server::Silent,
        Server::Closes,
        Server::Garbage,
        Server::EndlessText,
        Server::FriendlyThenEndless,
        Server::Nested,
        Server::Huge,
    ];
    for server in all {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/0", listener.local_addr().unwrap());
        let task = tokio::spawn(serve(listener, server));
        let before = resident();
        let settings = without_initial_wait(url);
        let limiter = within("a start", replica(settings, &ledger())).await;
        let subjects = key(&limiter, budget(100, Period::Day));
        let free =
            [limiter.subject(SubjectKind::Key, "free", Limits { rpm: Some(1_000_000), ..Limits::default() })];
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            let asked = Instant::now();
            let why = limiter.admit("a", &subjects).await.unwrap_err().refusal;
            assert_eq!(why, Refusal::StoreUnavailable, "{server:?}");
            limiter.admit("b", &free).await.unwrap();
            // The bound is generous for a busy machine. A request that waited for an answer would wait forever.
            at_most(
                "s11_a_hostile_redis_costs_neither_time_nor_memory",
                asked.elapsed(),
                Duration::from_secs(10),
            );
            tokio::task::yield_now().await;
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 48 << 20, "{server:?}: {grown} bytes more");
        task.abort();
    }
}

#[tokio::test]
async fn a_malformed_address_is_a_redis_that_never_answers() {
    for url in
        ["", "redis://", "redis://h:notaport", "http://h", "redis://127.0.0.1:1/0", "unix:///nowhere/at/all"]
    {
        let limiter = within("a start", replica(settings_of(url.to_owned()), &ledger())).await;
        assert!(limiter.is_away(), "{url}");
        let why = limiter.admit("a", &key(&limiter, budget(1, Period::Day))).await.unwrap_err().refusal;
        assert_eq!(why, Refusal::StoreUnavailable);
    }
}

#[tokio::test]
async fn i12_the_password_is_shown_nowhere() {
    let redis = Redis::start_with(&["--requirepass", "c4nary"]).await;
    let right = format!("redis://:c4nary@127.0.0.1:{}/0", redis.port());
    let limiter = replica(settings_of(right), &ledger()).await;
    assert!(!limiter.is_away());
    let shown = format!("{limiter:?} {:?}", key(&limiter, budget(1, Period::Day)));
    assert!(!shown.contains("c4nary"), "{shown}");
    let wrong = format!("redis://:wr0ng@127.0.0.1:{}/0", redis.port());
    assert!(replica(settings_of(wrong), &ledger()).await.is_away());
}

#[tokio::test]
async fn k12_tls_is_verified() {
    let certificate = Certificate::of(&["127.0.0.1"]);
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let (cert, key_file) = (file("cert.pem", &certificate.pem), file("key.pem", &certificate.key_pem));
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port().to_string();
    let options = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key_file];
    let more = ["--tls-ca-cert-file", &cert, "--tls-auth-clients", "no"];
    let _redis = Redis::start_with(&[&options[..], &more[..]].concat()).await;
    let trusting = |ca_file: Option<&str>, host: &str| RedisSettings {
        ca_file: ca_file.map(Into::into),
        ..settings_of(format!("rediss://{host}:{port}/1"))
    };
    let limiter = replica(trusting(Some(&cert), "127.0.0.1"), &ledger()).await;
    limiter.admit("a", &key(&limiter, budget(1, Period::Day))).await.unwrap();
    for wrong in
        [trusting(None, "127.0.0.1"), trusting(Some(&cert), "localhost"), trusting(Some("none"), "127.0.0.1")]
    {
        assert!(replica(wrong, &ledger()).await.is_away());
    }
}
