//! Shared calls of equal requests: clients that disconnect, read slowly or arrive late, and calls that fail.

use gw_store::ledger::Entry;
use gw_testkit::sse::{Stream, text_of};
use gw_testkit::upstream::{chat_body, chat_transcript, sse_data};
use gw_testkit::wait::{eventually_true, within};
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::harness::answers::assert_broken_off;
use crate::harness::answers::cache_result;
use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, chat_with, with, world};

const PATH: &str = "/v1/chat/completions";

pub(crate) fn cached(more: Value) -> Value {
    with(chat_with("acme/fast", json!({ "cache": { "enabled": true } })), more)
}

/// The moment at which a client disconnects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// Of a plain answer.
    BeforeTheAnswer,
    BeforeTheFirstToken,
    InTheStream,
}

const MOMENTS: [Moment; 3] = [Moment::BeforeTheAnswer, Moment::BeforeTheFirstToken, Moment::InTheStream];

impl Moment {
    fn answer(self, more: &Signal) -> Answer {
        let pieces = chat_transcript(&["Hello, ", "world"]);
        match self {
            Self::BeforeTheAnswer => {
                let body = chat_body("m", "Hello, world").to_string();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
                let head = format!("{head}{}\r\n\r\n", body.len());
                Answer::steps(Vec::new()).wait(more).bytes(head + &body)
            }
            Self::BeforeTheFirstToken => Answer::sse().wait(more).all(&pieces).done(),
            Self::InTheStream => Answer::sse().all(&pieces[..2]).wait(more).all(&pieces[2..]).done(),
        }
    }

    /// Sends a request and disconnects at this moment.
    async fn leave(self, world: &World, body: &Value) {
        let body = with(body.clone(), json!({ "stream": self != Self::BeforeTheAnswer }));
        if self == Self::InTheStream {
            let mut stream = world.client.stream(PATH, &body).await;
            while !stream.data().await.expect("more").contains("Hello") {}
            return stream.reset();
        }
        let client = world.client.clone();
        let asking = tokio::spawn(async move { client.post_json(PATH, &body).await });
        world.upstream.request(0).await;
        asking.abort();
    }
}

/// The fields of the row of a request whose client disconnected.
fn row_summary(row: &Entry) -> Value {
    let attempts: Vec<_> = row.attempts.iter().map(|attempt| [&*attempt.model, &*attempt.status]).collect();
    json!({ "status": row.status, "model": row.model, "provider": row.provider, "stream": row.stream,
        "prompt": row.tokens.prompt, "completion": row.tokens.completion, "estimated": row.estimated,
        "cost": row.cost.to_string(), "cache_hit": row.cache_hit, "fallback": row.fallback,
        "first_token": row.ttft_ms.is_some(), "attempts": attempts })
}

#[tokio::test]
async fn who_leaves_a_call_that_could_be_shared_is_accounted_like_who_leaves_any_other() {
    for moment in MOMENTS {
        for (routing, drains) in [("", false), ("on_disconnect = \"drain\"", true)] {
            let mut rows_of = Vec::new();
            for cache in [false, true] {
                let world = Setup { routing, ..Setup::default() }.start().await;
                let label = format!("{moment:?} {routing} {cache}");
                let more = Signal::new();
                world.upstream.enqueue(moment.answer(&more));
                let body = cached(json!({ "cache": { "enabled": cache } }));
                moment.leave(&world, &body).await;
                if drains {
                    // The upstream continues from here.
                    world.gateway.log_with("client_closed_request").await;
                    more.fire();
                } else {
                    world.upstream.request(0).await.until_closed().await;
                }
                let row = rows(&world.gateway, 1).await.remove(0);
                assert_eq!(row.status, "client_closed_request", "{label}");
                let exact = (row.tokens.prompt, row.tokens.completion, row.estimated) == (10, 5, false);
                assert_eq!(exact, drains, "{label}: {row:?}");
                rows_of.push(row_summary(&row));
                if cache {
                    let next = world.client.post_json(PATH, &body).await.ok();
                    let (answer, hits) = if drains { ("HIT", 1) } else { ("MISS", 2) };
                    assert_eq!((cache_result(&next), world.upstream.hits()), (answer, hits), "{label}");
                }
            }
            assert_eq!(rows_of[0], rows_of[1], "{moment:?} {routing}");
        }
    }
}

/// A stream that has begun, with its first frames.
pub(crate) async fn start_stream(world: &World, body: &Value, what: &str) -> (Stream, Vec<String>) {
    let mut stream = world.client.stream(PATH, &with(body.clone(), json!({ "stream": true }))).await;
    assert_eq!(stream.head.header("x-gateway-cache"), Some(what));
    let mut frames = Vec::new();
    while text_of(&frames, 0).is_empty() {
        frames.push(stream.data().await.expect("more"));
    }
    (stream, frames)
}

pub(crate) async fn remaining_frames((mut stream, mut frames): (Stream, Vec<String>)) -> Vec<String> {
    frames.extend(within("the rest of a stream", stream.rest()).await);
    frames
}

/// Waits until this many requests are in flight.
pub(crate) async fn in_flight(world: &World, count: usize) {
    let admin = world.client.with_key(ADMIN);
    eventually_true("every request is in flight", async || {
        let text = admin.get("/metrics").await.text();
        let mut lines = text.lines();
        let many = lines.find_map(|line| line.strip_prefix("gateway_http_in_flight ")?.parse::<f64>().ok());
        many.is_some_and(|many| many as usize >= count)
    })
    .await;
}

/// A character that the gateway's JSON spells with twice as many bytes.
const GROWS: &str = "\u{2028}";

#[tokio::test]
async fn an_event_larger_than_upstreams_may_send_reaches_everybody() {
    let world = world().await;
    let more = Signal::new();
    let large = GROWS.repeat(300_000);
    let answer = Answer::sse().data(&sse_data(&json!({ "role": "assistant", "content": "x" }), None));
    let answer = answer.wait(&more).data(&sse_data(&json!({ "content": large }), Some("stop"))).done();
    world.upstream.enqueue(answer);
    let leader = start_stream(&world, &cached(json!({})), "MISS").await;
    let follower = start_stream(&world, &cached(json!({})), "COALESCED").await;
    more.fire();
    let (led, followed) = tokio::join!(remaining_frames(leader), remaining_frames(follower));
    for frames in [led, followed] {
        assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
        assert!(
            frames.iter().any(|frame| frame.len() > 1 << 20),
            "larger than the read buffer for upstreams"
        );
        assert!(text_of(&frames, 0) == format!("x{large}"), "all of it");
    }
    let kept = world.client.post_json(PATH, &cached(json!({}))).await.ok();
    assert_eq!((cache_result(&kept), world.upstream.hits()), ("HIT", 1));
}

#[tokio::test]
async fn an_event_that_is_too_large_to_share_is_an_error_at_once_and_never_a_gap() {
    let extra = "[[providers]]\nname = \"llama\"\napi = \"ollama\"\nbase_url = \"<acme_url>\"\n\
        [[models]]\nid = \"llama/large\"\ncategory = [\"chat\"]\n";
    let world = Setup { extra: extra.to_owned(), ..Setup::default() }.start().await;
    let line = |text: &str, done: bool| {
        let message = json!({ "role": "assistant", "content": text });
        json!({ "model": "large", "message": message, "done": done, "done_reason": "stop" }).to_string()
            + "\n"
    };
    let (more, last) = (Signal::new(), Signal::new());
    let large = GROWS.repeat(1 << 20);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";
    let answer = Answer::raw(head).bytes(line("x", false)).wait(&more).bytes(line(&large, false));
    world.upstream.enqueue(answer.wait(&last).bytes(line("y", true)).close());
    let body = cached(json!({ "model": "llama/large" }));
    let leader = start_stream(&world, &body, "MISS").await;
    let follower = start_stream(&world, &body, "COALESCED").await;
    more.fire();
    // The leader's answer continues meanwhile.
    let frames = remaining_frames(follower).await;
    assert_broken_off(&frames, "upstream_stream_error");
    last.fire();
    assert!(text_of(&remaining_frames(leader).await, 0) == format!("x{large}y"), "all of it");
    let rows = rows(&world.gateway, 2).await;
    let mut told: Vec<_> = rows.iter().map(|row| (&*row.status, row.cost)).collect();
    told.sort_unstable();
    assert_eq!(told, [("ok", 0), ("upstream_stream_error", 0)], "the model has no price");
}

#[tokio::test]
async fn who_has_been_sent_nothing_of_what_is_too_large_to_share_gets_it_in_the_end() {
    let world = world().await;
    let more = Signal::new();
    let body = chat_body("m", &"x".repeat(5 << 20)).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    let head = format!("{head}{}\r\n\r\n", body.len());
    world.upstream.enqueue(Answer::steps(Vec::new()).wait(&more).bytes(head + &body).close());
    let ask = || {
        let client = world.client.clone();
        tokio::spawn(async move {
            let mut stream = client.stream(PATH, &cached(json!({ "stream": true }))).await;
            let cache = stream.head.header("x-gateway-cache").unwrap_or_default().to_owned();
            (cache, text_of(&stream.rest().await, 0).len())
        })
    };
    let leader = ask();
    world.upstream.request(0).await;
    let follower = ask();
    in_flight(&world, 2).await;
    more.fire();
    assert_eq!(within("the leader", leader).await.unwrap(), ("MISS".to_owned(), 5 << 20));
    assert_eq!(within("the follower", follower).await.unwrap(), ("COALESCED".to_owned(), 5 << 20));
    assert_eq!(world.upstream.hits(), 1);
}

#[tokio::test]
async fn requests_whose_fallback_gets_different_bodies_share_no_call() {
    let claude = gw_testkit::FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"claude/claude-opus-5-5\"\n",
        claude.addr
    );
    let world = Setup { extra, routing: "retries = 0", ..Setup::default() }.start().await;
    let fails = [Signal::new(), Signal::new()];
    for fails in &fails {
        let failure = "HTTP/1.1 500 Down\r\ncontent-length: 0\r\n\r\n";
        world.upstream.enqueue(Answer::steps(Vec::new()).wait(fails).bytes(failure));
    }
    claude.always(Answer::json(
        200,
        &json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 5, "output_tokens": 1}}),
    ));
    let body = json!({"model": "acme/fast", "max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}],
        "cache": {"enabled": true}, "routing": {"fallback": ["claude/claude-opus-5-5"]}});
    let betas = ["one-2026-01-01", "two-2026-01-01"];
    let asking: Vec<_> = betas
        .iter()
        .map(|beta| {
            let (client, body) = (world.client.with_header("anthropic-beta", beta), body.clone());
            tokio::spawn(async move { client.post_json("/v1/messages", &body).await })
        })
        .collect();
    // Neither of them waits for the other's answer.
    world.upstream.request(1).await;
    fails.iter().for_each(Signal::fire);
    for answer in asking {
        answer.await.expect("an answer").ok();
    }
    let mut sent: Vec<_> = claude
        .requests()
        .iter()
        .filter_map(|request| request.header("anthropic-beta").map(str::to_owned))
        .collect();
    sent.sort_unstable();
    assert_eq!(sent, betas);
}
