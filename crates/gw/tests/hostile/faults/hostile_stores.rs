//! Servers that are no PostgreSQL and no Redis: a start ends with an error, a running gateway serves on, and neither hangs nor
//! grows.

use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::{Client, Launch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{Setup, World, binary, chat};

/// The answer to every connection: first these bytes, then those again and again.
type Script = (&'static str, Vec<u8>, Vec<u8>);

/// A server that reads one request of each connection and answers with the script.
async fn server(script: &Script) -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let (head, body) = (script.1.clone(), script.2.clone());
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (head, body) = (head.clone(), body.clone());
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let _ = stream.read(&mut asked).await;
                let mut is_open = stream.write_all(&head).await.is_ok();
                while is_open && !body.is_empty() {
                    is_open = stream.write_all(&body).await.is_ok();
                }
                // Silence until the gateway gives up.
                while matches!(stream.read(&mut asked).await, Ok(count) if count > 0) {}
            });
        }
    });
    (port, task)
}

fn noise() -> Vec<u8> {
    (0..65_536_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i38_a_start_on_a_hostile_postgres_ends_with_an_error() {
    // "N": no TLS. "R" and eight bytes: the password is not asked for. "Z": ready.
    let welcome = b"NR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec();
    let scripts: [Script; 6] = [
        ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), Vec::new()),
        ("noise", b"N".to_vec(), noise()),
        ("silence", welcome.clone(), Vec::new()),
        (
            "rows of a wrong type for ever",
            welcome.clone(),
            b"D\0\0\0\x0e\0\x01\0\0\0\x04\xff\xfe\xfd\xfc".repeat(4096),
        ),
        ("a message of two gigabytes", [&b"NR\x7f\xff\xff\xff"[..], &noise()].concat(), Vec::new()),
        ("a length below zero", [&b"NR\xff\xff\xff\xff"[..], &noise()].concat(), Vec::new()),
    ];
    for script in scripts {
        let (port, task) = server(&script).await;
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"postgres://u:secret-7391@127.0.0.1:{port}/d\"\n\
             start_timeout_seconds = 1\n[[keys]]\nname = \"a\"\nkey = \"sk-a\"\n"
        );
        let launch = Launch::new(binary()).file("gateway.toml", config).arg("serve");
        let start = Instant::now();
        let output = tokio::task::spawn_blocking(move || launch.run()).await.expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // After DEADLINE the process is killed, and has no code.
        assert_eq!(output.status.code(), Some(1), "{} after {:?}: {said}", script.0, start.elapsed());
        assert!(
            said.contains(&format!("127.0.0.1:{port}")) && !said.contains("secret-7391"),
            "{}: {said}",
            script.0
        );
        assert!(!said.contains("panicked"), "{}: {said}", script.0);
        task.abort();
    }
}

async fn chat_ok(client: &Client, label: &str) {
    let start = Instant::now();
    let answer = client.post_json("/v1/chat/completions", &chat("acme/fast")).await;
    assert_eq!(answer.status, 200, "{label}: {}", answer.text());
    at_most("chat_ok", start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i38_a_gateway_beside_a_hostile_redis_serves_on() {
    let scripts: [Script; 7] = [
        ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n\0\xff\xfe".to_vec(), Vec::new()),
        ("noise", Vec::new(), noise()),
        ("silence", Vec::new(), Vec::new()),
        ("a string without an end", b"$2147483647\r\n".to_vec(), vec![b'x'; 64 * 1024]),
        ("an impossible length", b"*9223372036854775807\r\n".to_vec(), b"$9223372036854775807\r\n".to_vec()),
        ("lists in lists", Vec::new(), b"*1\r\n".repeat(16 * 1024)),
        // Well-formed answers of another type than any command has.
        ("wrong types", Vec::new(), b":7\r\n+OK\r\n*0\r\n$1\r\nx\r\n-ERR no\r\n".repeat(512)),
    ];
    for script in scripts {
        let (port, task) = server(&script).await;
        let extra = format!("[redis]\nurl = \"redis://:secret-7391@127.0.0.1:{port}/0\"\n");
        let world: World = Setup { extra, ..Setup::default() }.start().await;
        chat_ok(&world.client, script.0).await;
        let before = world.gateway.anonymous_kib();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            chat_ok(&world.client, script.0).await;
        }
        let grown = world.gateway.anonymous_kib().saturating_sub(before) >> 10;
        at_most("MiB beside a hostile Redis", grown, 48);
        let said = [world.gateway.stdout(), world.gateway.stderr()].concat().join("\n");
        assert!(!said.contains("secret-7391") && !said.contains("panicked"), "{}: {said}", script.0);
        task.abort();
    }
}
