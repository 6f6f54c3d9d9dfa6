//! When a connection is used again, and when it must not be.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::mpsc;
use tokio::task::coop;

use crate::upstream::{Upstream, exchange, send};

const SMALL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_connection_serves_one_call_after_another() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for answer in [SMALL, chunked, empty, "HTTP/1.1 204 No Content\r\n\r\n"] {
        let upstream = Upstream::saying(answer).await;
        let client = upstream.client();
        for _ in 0..5 {
            exchange(&client).await.unwrap();
        }
        assert_eq!((upstream.connections(), upstream.requests()), (1, 5), "{answer:?}");
    }
}

#[tokio::test]
async fn an_unread_body_returns_its_connection_once_its_end_arrived() {
    let upstream =
        Upstream::saying("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n0\r\n\r\n")
            .await;
    let client = upstream.client();
    for _ in 0..3 {
        let mut response = send(&client).await.unwrap();
        assert_eq!(response.body.chunk().await.unwrap().unwrap(), "[DONE]");
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn an_answer_as_large_as_the_last_one_comes_in_one_piece() {
    let size = 40_000;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
    let upstream = Upstream::saying([head, "x".repeat(size)].concat()).await;
    let client = upstream.client();
    assert_eq!(exchange(&client).await.unwrap().1.len(), size);
    for _ in 0..2 {
        let mut response = send(&client).await.unwrap();
        assert_eq!(response.body.chunk().await.unwrap().unwrap().len(), size);
        assert!(response.body.chunk().await.is_none());
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn finish_waits_for_a_late_end() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let opener = Arc::clone(&gate);
    let (ended, mut has_ended) = mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let (gate, ended) = (Arc::clone(&gate), ended.clone());
        async move {
            peer.request().await.unwrap();
            peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n").await;
            gate.notified().await;
            peer.say("0\r\n\r\n").await;
            ended.send(()).await.unwrap();
            peer.request().await.unwrap();
            peer.say(SMALL).await;
        }
    })
    .await;
    let client = upstream.client();
    let mut response = send(&client).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "[DONE]");
    response.body.finish();
    opener.notify_one();
    has_ended.recv().await.unwrap();
    // The end is in the socket. The task that waits for it needs a few turns.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    exchange(&client).await.unwrap();
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn connections_with_connection_close_are_not_reused() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        let upstream = Upstream::saying(answer).await;
        let client = upstream.client();
        exchange(&client).await.unwrap();
        exchange(&client).await.unwrap();
        assert_eq!(upstream.connections(), 2, "{answer:?}");
    }
}

/// An upstream that closes each connection after its answer, and tells so.
async fn closing() -> (Upstream, mpsc::Receiver<()>) {
    let (closed, was_closed) = mpsc::channel(8);
    let upstream = Upstream::start(move |_, mut peer| {
        let closed = closed.clone();
        async move {
            peer.request().await.unwrap();
            peer.say(SMALL).await;
            drop(peer);
            closed.send(()).await.unwrap();
        }
    })
    .await;
    (upstream, was_closed)
}

#[tokio::test]
async fn u26_a_pooled_connection_the_upstream_closed_is_replaced_unnoticed() {
    let (upstream, mut was_closed) = closing().await;
    let client = upstream.client();
    for _ in 0..20 {
        exchange(&client).await.unwrap();
        was_closed.recv().await.unwrap();
    }
    assert_eq!(upstream.requests(), 20);
}

/// Uses up the cooperative budget of this task, as a large upload does, before it polls the call for the first time.
async fn without_budget<T>(call: impl Future<Output = T>) -> T {
    let (mut call, mut is_first) = (pin!(call), true);
    poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            while let Poll::Ready(step) = coop::poll_proceed(cx) {
                step.made_progress();
            }
        }
        call.as_mut().poll(cx)
    })
    .await
}

#[tokio::test]
async fn u26_a_closed_connection_is_replaced_by_a_task_without_a_budget() {
    let (upstream, mut was_closed) = closing().await;
    let client = upstream.client();
    for _ in 0..20 {
        without_budget(exchange(&client)).await.unwrap();
        was_closed.recv().await.unwrap();
    }
    assert_eq!(upstream.requests(), 20);
}

#[tokio::test]
async fn u26_a_request_that_was_written_is_never_sent_twice() {
    let upstream = Upstream::start(|number, mut peer| async move {
        peer.request().await.unwrap();
        if number == 0 {
            peer.say(SMALL).await;
            peer.request().await.unwrap();
        }
        // The upstream closes without an answer, so nobody knows whether it carried out the call.
    })
    .await;
    let client = upstream.client();
    exchange(&client).await.unwrap();
    let failure = exchange(&client).await.unwrap_err();
    assert_eq!(failure.kind, gw_wire::failure::FailureKind::Unreachable);
    assert_eq!((upstream.connections(), upstream.requests()), (1, 2));
}

#[tokio::test]
async fn concurrent_calls_get_separate_connections() {
    let upstream = Upstream::saying(SMALL).await;
    let client = Arc::new(upstream.client());
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { exchange(&client).await.unwrap() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().1, "{}");
    }
    assert_eq!(upstream.requests(), 50);
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_chunk_wakes_its_reader_once() {
    let (say, said) = mpsc::channel::<()>(1);
    let said = Arc::new(tokio::sync::Mutex::new(said));
    let upstream = Upstream::start(move |_, mut peer| {
        let said = Arc::clone(&said);
        async move {
            peer.request().await.unwrap();
            peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while said.lock().await.recv().await.is_some() {
                peer.say("5\r\nhello\r\n").await;
            }
        }
    })
    .await;
    let mut response = send(&upstream.client()).await.unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    for round in 1..=10 {
        assert!(response.body.poll_chunk(&mut cx).is_pending());
        say.send(()).await.unwrap();
        while count.0.load(Ordering::SeqCst) < round {
            tokio::task::yield_now().await;
        }
        let Poll::Ready(Some(Ok(chunk))) = response.body.poll_chunk(&mut cx) else { panic!("no chunk") };
        assert_eq!(chunk, "hello");
        assert_eq!(count.0.load(Ordering::SeqCst), round, "the reader woke itself");
    }
}
