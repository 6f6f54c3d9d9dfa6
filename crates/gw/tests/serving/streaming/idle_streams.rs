//! A stream that waits for its upstream costs little memory (C32).

use gw_testkit::measured::at_most;
use gw_testkit::sse::Stream;
use gw_testkit::upstream::sse_data;
use gw_testkit::{Answer, Signal};
use serde_json::json;

use crate::harness::{World, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

/// The number of streams; `IDLE_STREAMS` sets another one.
fn streams() -> u64 {
    std::env::var("IDLE_STREAMS").map_or(50, |count| count.parse().expect("IDLE_STREAMS is a number"))
}

async fn begun(world: &World) -> Stream {
    let question = json!([{ "role": "user", "content": "x".repeat(600) }]);
    let body = chat_with("acme/fast", json!({ "stream": true, "messages": question }));
    let mut stream = world.client.stream(CHAT, &body).await;
    while !stream.data().await.expect("more").contains("Hello") {}
    stream
}

#[tokio::test]
async fn c32_an_idle_stream_costs_little_memory() {
    gw_testkit::open_files(16_384);
    let (world, go_on) = (world().await, Signal::new());
    let first = json!({ "role": "assistant", "content": "Hello" });
    let last = sse_data(&json!({}), Some("stop"));
    world.upstream.always(Answer::sse().data(&sse_data(&first, None)).wait(&go_on).data(&last).done());
    // The first one loads the code and the buffers that all streams share.
    let mut waiting = vec![begun(&world).await];
    let (before, count) = (world.gateway.rss_kib(), streams());
    for _ in 0..count {
        waiting.push(begun(&world).await);
    }
    let each = world.gateway.rss_kib().saturating_sub(before) / count;
    at_most("KiB of an idle stream, with both of its connections", each, 40);
    go_on.fire();
    for mut stream in waiting {
        assert!(stream.rest().await.last().is_some_and(|end| end.contains("[DONE]")));
    }
}
