//! A server that is not Redis: lookups miss in bounded time and bounded memory.

use std::time::Instant;

use gw_testkit::measured::at_most;
use gw_testkit::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Names of servers, and what each sends: a beginning, and a part that it repeats forever.
const SERVERS: [(&str, &[u8], &[u8]); 7] = [
    ("nothing", b"", b""),
    ("another protocol", b"", b"HTTP/1.1 400 Bad Request\r\n\r\n\0\xff\xfe"),
    ("a text without end", b"$500000000\r\n", b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    ("lists in lists", b"", b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"),
    ("more than there can be", b"", b"*9223372036854775807\r\n"),
    ("OK", b"", b"+OK\r\n"),
    (
        "a table, and values of nobody",
        b"",
        b"*4\r\n$4\r\nlast\r\n$1\r\n5\r\n$3\r\nall\r\n$1\r\n5\r\n$3\r\nabc\r\n$1\r\n5\r\n",
    ),
];

async fn serve(listener: TcpListener, first: &'static [u8], then: &'static [u8]) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(speak(stream, first, then));
    }
}

async fn speak(mut stream: TcpStream, first: &'static [u8], then: &'static [u8]) {
    let mut asked = vec![0; 64 * 1024];
    if stream.read(&mut asked).await.is_err() {
        return;
    }
    if then.is_empty() {
        let _hangs_up = stream.read_to_end(&mut Vec::new()).await;
        return;
    }
    let _gone = stream.write_all(first).await;
    let much = then.repeat(64 * 1024 / then.len());
    while stream.write_all(&much).await.is_ok() {}
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_a_server_that_is_no_redis_is_a_miss_in_bounded_time_and_memory() {
    for (what, first, then) in SERVERS {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/0", listener.local_addr().unwrap());
        let server = tokio::spawn(serve(listener, first, then));
        let before = resident();
        let cache = Cache::over_redis(RedisSettings::new(SecretString::from(url)));
        let cache = within("a start", cache).await;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(400) {
            let asked = Instant::now();
            assert_eq!(fresh_body(&cache, "a").await, None, "{what}");
            cache.store(key("a"), Arc::new(answer("A")), cache.stamp());
            // The bound is generous for a busy machine. A lookup that waited for an answer would wait forever.
            at_most(
                "s11_a_server_that_is_no_redis_is_a_miss_in_bounded_time_and_memory",
                asked.elapsed(),
                Duration::from_secs(10),
            );
            tokio::task::yield_now().await;
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 192 << 20, "{what}: {grown} bytes more");
        server.abort();
    }
}

#[tokio::test]
async fn a_malformed_address_is_a_redis_that_never_answers() {
    for url in ["", "redis://", "redis://h:notaport", "http://h", "redis://127.0.0.1:1/0", "unix:///nowhere"]
    {
        let cache = within("a start", Cache::over_redis(settings(url.to_owned()))).await;
        assert!(cache.is_away(), "{url}");
        assert_eq!(fresh_body(&cache, "a").await, None);
    }
}

#[tokio::test]
async fn i12_the_password_is_shown_nowhere() {
    let redis = Redis::start_with(&["--requirepass", "c4nary"]).await;
    let right = format!("redis://:c4nary@127.0.0.1:{}/0", redis.port());
    let cache = Cache::over_redis(settings(right)).await;
    assert!(!cache.is_away());
    assert!(!format!("{cache:?}").contains("c4nary"));
    let wrong = format!("redis://:wr0ng@127.0.0.1:{}/0", redis.port());
    assert!(Cache::over_redis(settings(wrong)).await.is_away());
}
