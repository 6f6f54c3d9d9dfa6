//! Calls that equal requests share, when somebody leaves, is slow, is late or fails.

use gw_store::ledger::Entry;
use gw_testkit::upstream::{chat_body, chat_transcript};
use gw_testkit::{Answer, Response, Signal};
use serde_json::{Value, json};

use crate::harness::{Setup, World, chat_with, with};
use crate::ledger::rows;

const PATH: &str = "/v1/chat/completions";

fn cached(more: Value) -> Value {
    with(chat_with("acme/fast", json!({ "cache": { "enabled": true } })), more)
}

fn what(answer: &Response) -> &str {
    answer.header("x-gateway-cache").unwrap_or("none")
}

/// When a client goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// Of an answer that is not streamed.
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

    /// Asks, and goes away at this moment.
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

/// What a row says of a request whose client went away.
fn told(row: &Entry) -> Value {
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
                    // Only now does the upstream go on.
                    world.gateway.log_with("client_closed_request").await;
                    more.fire();
                } else {
                    world.upstream.request(0).await.until_closed().await;
                }
                let row = rows(&world.gateway, 1).await.remove(0);
                assert_eq!(row.status, "client_closed_request", "{label}");
                let exact = (row.tokens.prompt, row.tokens.completion, row.estimated) == (10, 5, false);
                assert_eq!(exact, drains, "{label}: {row:?}");
                rows_of.push(told(&row));
                if cache {
                    let next = world.client.post_json(PATH, &body).await.ok();
                    let (answer, hits) = if drains { ("HIT", 1) } else { ("MISS", 2) };
                    assert_eq!((what(&next), world.upstream.hits()), (answer, hits), "{label}");
                }
            }
            assert_eq!(rows_of[0], rows_of[1], "{moment:?} {routing}");
        }
    }
}
