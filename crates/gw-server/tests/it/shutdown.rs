//! A shutdown: not ready, then refusing, then finished.

use std::time::{Duration, Instant};

use crate::harness::{Client, Gateway, KEY};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn a_gateway_that_leaves_is_not_ready_but_serves_until_load_balancers_know() {
    let gateway = Gateway::with(|settings| settings.drain_delay = Duration::from_secs(2)).await;
    let mut kept = Client::connect(gateway.public).await;
    assert_eq!(kept.ask("GET /readyz", &[], "").await.status, 200);
    gateway.shutdown.begin();
    let answer = loop {
        let answer = Client::connect(gateway.public).await.ask("GET /readyz", &[], "").await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("\"reason\":"), "{}", answer.body);
    let answer = kept.ask("GET /v1/models", &[KEY], "").await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    timeout(Duration::from_secs(10), gateway.serving).await.expect("it ends").unwrap().unwrap();
}

#[tokio::test]
async fn a_drain_closes_what_is_idle_and_finishes_what_runs() {
    let gateway = Gateway::with(|settings| settings.body_timeout = Duration::from_secs(30)).await;
    let mut idle = Client::connect(gateway.public).await;
    assert_eq!(idle.ask("GET /healthz", &[], "").await.status, 200);
    let mut fresh = Client::connect(gateway.public).await;
    let mut running = Client::connect(gateway.public).await;
    let head = "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-user\r\n";
    running.say(&format!("{head}content-length: 2\r\nexpect: 100-continue\r\n\r\n")).await;
    assert_eq!(running.answer(false).await.status, 100);
    gateway.shutdown.begin();
    assert!(idle.is_closed().await);
    assert!(fresh.is_closed().await);
    let probe = Client::connect(gateway.public).await.ask("GET /readyz", &[], "").await;
    assert_eq!(probe.status, 503, "probes get the answer while a request runs");
    running.say("{}").await;
    let answer = running.answer(false).await;
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
    timeout(Duration::from_secs(3), gateway.serving)
        .await
        .expect("nothing is left to wait for")
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(gateway.public).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn the_grace_has_an_end_and_a_second_signal_does_not_wait_for_it() {
    for (drain, second, most) in [(1, false, 3), (600, true, 3)] {
        let gateway = Gateway::with(|settings| {
            settings.body_timeout = Duration::from_secs(600);
            settings.drain = Duration::from_secs(drain);
        })
        .await;
        let mut stuck = Client::connect(gateway.public).await;
        let head = "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-user\r\n";
        stuck.say(&format!("{head}content-length: 2\r\nexpect: 100-continue\r\n\r\n")).await;
        assert_eq!(stuck.answer(false).await.status, 100);
        let start = Instant::now();
        gateway.shutdown.begin();
        if second {
            gateway.shutdown.now();
        }
        let answer = stuck.answer(false).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "no_available_provider"));
        timeout(Duration::from_secs(most), gateway.serving).await.expect("it ends").unwrap().unwrap();
        assert!(start.elapsed() >= Duration::from_secs(if second { 0 } else { drain }));
        assert!(stuck.is_closed().await);
    }
}
