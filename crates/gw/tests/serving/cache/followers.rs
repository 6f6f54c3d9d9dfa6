//! Followers of a shared call: own timeouts, own options, own reading speed; and the end of a call that panics, is purged or is
//! cut.

use std::time::Duration;

use gw_testkit::sse::{Stream, chunks, text_of};
use gw_testkit::upstream::{Step, chat_body, sse_data};
use gw_testkit::wait::{eventually_true, within};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::cache::shared_calls::{cached, in_flight, remaining_frames, start_stream};
use crate::harness::answers::assert_broken_off;
use crate::harness::answers::cache_result;
use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, assert_error, logged, with, world};

const PATH: &str = "/v1/chat/completions";

fn piece(text: &str) -> Value {
    sse_data(&json!({ "content": text }), None)
}

fn last_piece(text: &str) -> Value {
    sse_data(&json!({ "content": text }), Some("stop"))
}

fn streamed() -> Value {
    cached(json!({ "stream": true }))
}

/// Sends the rest of a request.
async fn send_rest(mut wire: RawClient, rest: &[u8]) -> RawClient {
    wire.send(rest).await;
    wire
}

/// The clock of a follower starts this much earlier than its leader's. A pause of the test that is shorter changes nothing.
const EARLIER: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_follower_has_its_own_clock() {
    tokio::join!(Box::pin(follow_by_the_own_clock(false)), Box::pin(follow_by_the_own_clock(true)));
}

/// The time of a follower ends while its leader goes on, and the leader then gets the whole answer.
async fn follow_by_the_own_clock(stream: bool) {
    let world = Setup { timeouts: "total_ms = 12000", ..Setup::default() }.start().await;
    let go = Signal::new();
    world.upstream.always(if stream {
        Answer::sse().data(&piece("x")).wait(&go).data(&last_piece(" all")).done()
    } else {
        Answer::json(200, &chat_body("m", "x all")).after(Step::Wait(go.clone()))
    });
    let body = cached(json!({ "stream": stream })).to_string();
    let (first, second) = body.as_bytes().split_at(body.len() / 2);
    let head = world.client.head("POST", PATH, Some("application/json"), Some(body.len()));
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send([head.as_bytes(), first].concat()).await;
    in_flight(&world, 1).await;
    // Sleeps: the follower begins this much earlier than the leader, and both have a timeout.
    tokio::time::sleep(EARLIER).await;
    let (client, asked) = (world.client.clone(), body.clone());
    let leader = tokio::spawn(async move { client.post_bytes(PATH, asked.as_bytes()).await });
    world.upstream.request(0).await;
    let mut wire = send_rest(wire, second).await;
    let followed = within("the follower's answer", wire.response()).await.expect("an answer");
    assert!(followed.text().contains("upstream_timeout"), "{stream}: {}", followed.text());
    assert_eq!(followed.status, if stream { 200 } else { 504 });
    // The leader still waits, so a follower that used its clock would have no answer yet.
    go.fire();
    let led = within("the leader's answer", leader).await.expect("an answer");
    assert_eq!(led.status, 200, "{stream}: {}", led.text());
    assert!(led.text().contains(" all") && !led.text().contains("upstream_timeout"), "{}", led.text());
    assert_eq!(world.upstream.hits(), 1);
    let id = followed.header("x-request-id").expect("an id").to_owned();
    let row = logged(&world.client.with_key(ADMIN), &id).await;
    assert_eq!((&row["status"], &row["cost_usd"]), (&json!("upstream_timeout"), &json!(0)), "{row}");
}

#[tokio::test]
async fn a_call_that_panics_is_our_fault_for_all_who_share_it() {
    let world = world().await;
    for (count, stream) in [(1, false), (2, true)] {
        let body = cached(json!({ "model": "demo/panic", "stream": stream }));
        let answer = world.client.post_json(PATH, &body).await;
        assert_error("panic", &answer, 500, "server_error", "internal_error");
        let rows = rows(&world.gateway, count).await;
        assert!(rows.iter().all(|row| row.status == "internal_error"), "{rows:?}");
    }
    world.chat_ok(&cached(json!({}))).await;
}

#[tokio::test]
async fn a_follower_is_kept_awake_and_has_its_own_options() {
    let world = Setup { server: "keepalive_seconds = 1", ..Setup::default() }.start().await;
    for leader_wants_usage in [true, false] {
        let more = Signal::new();
        let answer = Answer::sse().data(&piece("Hello")).wait(&more).data(&last_piece(" all"));
        world.upstream.enqueue(answer.done());
        let usage = |wanted: bool| json!({ "stream_options": { "include_usage": wanted }, "user": wanted.to_string() });
        let ask = |wanted| with(cached(json!({ "seed": u8::from(leader_wants_usage) })), usage(wanted));
        let leader = start_stream(&world, &ask(leader_wants_usage), "MISS").await;
        let mut follower = start_stream(&world, &ask(!leader_wants_usage), "COALESCED").await;
        let (client, body) = (world.client.clone(), ask(false));
        let plain = tokio::spawn(async move { client.post_json(PATH, &body).await });
        assert_eq!(within("a comment", follower.0.frame()).await.as_deref(), Some(": keepalive\n\n"));
        in_flight(&world, 3).await;
        more.fire();
        let (led, followed) = tokio::join!(remaining_frames(leader), remaining_frames(follower));
        for (frames, has_usage) in [(&led, leader_wants_usage), (&followed, !leader_wants_usage)] {
            assert_eq!(text_of(frames, 0), "Hello all");
            let last = chunks(frames).pop().expect("chunks");
            assert_eq!(last["usage"].is_object(), has_usage, "{last}");
            assert_eq!(last["choices"] == json!([]), has_usage, "{last}");
        }
        // A follower's answer contains nothing of the leader's request.
        let of_leader = chunks(&led).pop().expect("chunks");
        let (id, request) = (&of_leader["id"], &of_leader["gateway"]["request_id"]);
        for name in [id, request] {
            let name = name.as_str().expect("a name");
            assert!(followed.iter().all(|frame| !frame.contains(name)), "{name}");
        }
        let plain = within("the plain answer", plain).await.expect("an answer").ok();
        assert_eq!(cache_result(&plain), "COALESCED");
        assert_eq!(plain.json()["choices"][0]["message"]["content"], "Hello all");
    }
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_purge_ends_no_call_and_what_it_brings_is_not_kept() {
    let world = world().await;
    let more = Signal::new();
    world.upstream.enqueue(Answer::sse().data(&piece("old")).wait(&more).data(&last_piece("")).done());
    let leader = start_stream(&world, &streamed(), "MISS").await;
    let follower = start_stream(&world, &streamed(), "COALESCED").await;
    let admin = world.client.with_key(ADMIN);
    assert_eq!(admin.send("DELETE", "/admin/v1/cache", None, None).await.status, 200);
    world.upstream.enqueue(Answer::json(200, &chat_body("m", "new")));
    let ask = async || world.client.post_json(PATH, &cached(json!({}))).await.ok();
    let anew = ask().await;
    assert_eq!((cache_result(&anew), world.upstream.hits()), ("MISS", 2), "no request joins a purged call");
    more.fire();
    for frames in [remaining_frames(leader).await, remaining_frames(follower).await] {
        assert_eq!(text_of(&frames, 0), "old");
    }
    let kept = ask().await;
    assert_eq!(cache_result(&kept), "HIT");
    assert_eq!(kept.json()["choices"][0]["message"]["content"], "new");
}

/// Reads a stream whose client has not read anything yet.
async fn wake(wire: RawClient) -> String {
    let mut wire = wire;
    let head = wire.head().await.expect("a head");
    wire.expect_body(&head, false);
    let mut text = Vec::new();
    while let Ok(Some(piece)) = within("a piece", wire.body_chunk()).await {
        text.extend(piece);
    }
    String::from_utf8(text).expect("UTF-8")
}

async fn asleep(world: &World, body: &str) -> RawClient {
    let mut wire = RawClient::connect_with_receive_buffer(world.gateway.addr, 16 << 10).await;
    wire.send(world.client.head("POST", PATH, Some("application/json"), Some(body.len()))).await;
    wire.send(body).await;
    wire
}

#[tokio::test]
async fn clients_that_do_not_read_hold_up_nobody_and_are_told_what_they_missed() {
    const SLEEPERS: usize = 100;
    // Events of a megabyte: more than the buffer for a stalled reader and more than a connection holds.
    const ROUNDS: usize = 7;
    const PIECES: usize = 10;
    let world = world().await;
    let more = Signal::new();
    let large = piece(&"x".repeat(100_000));
    let mut answer = Answer::sse().data(&piece("x"));
    for _ in 0..ROUNDS {
        answer = answer.wait(&more).all(&vec![large.clone(); PIECES]);
    }
    world.upstream.enqueue(answer.data(&last_piece("")).done());
    let mut leader = start_stream(&world, &streamed(), "MISS").await;
    let mut sleepers = Vec::new();
    for _ in 0..SLEEPERS {
        sleepers.push(asleep(&world, &streamed().to_string()).await);
    }
    in_flight(&world, SLEEPERS + 1).await;
    let mut follower = start_stream(&world, &streamed(), "COALESCED").await;
    for _ in 0..ROUNDS {
        more.fire();
        for (stream, frames) in [&mut leader, &mut follower] {
            for _ in 0..PIECES {
                frames.push(within("a fast reader is not delayed", stream.data()).await.expect("a piece"));
            }
        }
    }
    for reader in [leader, follower] {
        assert_eq!(text_of(&remaining_frames(reader).await, 0).len(), ROUNDS * PIECES * 100_000 + 1);
    }
    for sleeper in sleepers {
        let frames = wake(sleeper).await;
        assert!(
            frames.ends_with("data: [DONE]\n\n") && frames.contains("upstream_stream_error"),
            "{}",
            frames.len()
        );
        assert!(!frames.contains("\"finish_reason\":\"stop\""), "it does not look complete");
    }
    assert_eq!(world.upstream.hits(), 1);
    let rows = rows(&world.gateway, SLEEPERS + 2).await;
    let failed = rows.iter().filter(|row| row.status == "upstream_stream_error" && row.cost == 0).count();
    assert_eq!(failed, SLEEPERS);
}

#[tokio::test]
async fn a_leader_that_does_not_read_is_told_what_it_missed() {
    // As above: more than the buffer for a stalled reader and more than a connection holds.
    const PIECES: usize = 80;
    let world = world().await;
    let more = Signal::new();
    let large = piece(&"x".repeat(100_000));
    let answer = Answer::sse().data(&piece("x")).wait(&more).all(&vec![large; PIECES]);
    world.upstream.enqueue(answer.data(&last_piece("")).done());
    let leader = asleep(&world, &streamed().to_string()).await;
    world.upstream.request(0).await;
    let follower = start_stream(&world, &streamed(), "COALESCED").await;
    more.fire();
    assert_eq!(text_of(&remaining_frames(follower).await, 0).len(), PIECES * 100_000 + 1);
    let frames = wake(leader).await;
    assert!(frames.ends_with("data: [DONE]\n\n"), "{}", frames.len());
    assert!(frames.contains("upstream_stream_error"), "{}", frames.len());
    assert!(!frames.contains("\"finish_reason\":\"stop\""), "it does not look complete");
    assert_eq!(world.upstream.hits(), 1);
}

fn journals(world: &World) -> usize {
    std::fs::read_dir(world.gateway.dir().join("data/journal")).expect("the journal's directory").count()
}

#[tokio::test]
async fn a_shutdown_cuts_all_who_share_a_call_and_loses_no_row() {
    let mut world = Setup { server: "drain_seconds = 1", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::sse().data(&piece("begun")).hang());
    let leader = start_stream(&world, &streamed(), "MISS").await;
    let follower = start_stream(&world, &streamed(), "COALESCED").await;
    world.gateway.sigterm();
    for stream in [leader, follower] {
        assert_broken_off(&remaining_frames(stream).await, "upstream_stream_error");
    }
    assert_eq!(world.gateway.ended().await.code(), Some(0));
    let rows = rows(&world.gateway, 2).await;
    assert_eq!((rows.len(), journals(&world)), (2, 0));
    assert!(rows.iter().all(|row| row.status == "gateway_shutdown"), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.cost > 0).count(), 1, "one has paid: {rows:?}");
}

#[tokio::test]
async fn a_shutdown_waits_for_no_call_that_goes_on_for_nobody_and_loses_no_row() {
    let server = "drain_seconds = 20";
    let mut world = Setup { server, routing: "on_disconnect = \"drain\"", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::sse().data(&piece("begun")).then(Step::Hang));
    let (stream, _): (Stream, _) = start_stream(&world, &streamed(), "MISS").await;
    stream.reset();
    world.gateway.log_with("client_closed_request").await;
    assert!(world.upstream.request(0).await.closed_at().is_none(), "it goes on");
    world.gateway.sigterm();
    assert_eq!(within("the end", world.gateway.ended()).await.code(), Some(0));
    let rows = rows(&world.gateway, 1).await;
    assert_eq!((&*rows[0].status, journals(&world)), ("client_closed_request", 0));
    assert!(rows[0].cost > 0 && rows[0].estimated, "{rows:?}");
}

/// A figure of `/metrics`.
async fn metric(world: &World, name: &str) -> u64 {
    let text = world.client.with_key(ADMIN).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metrics tell it").parse().expect("a whole number")
}

#[tokio::test]
async fn followers_read_large_pieces_on_the_cpu_pool_and_they_are_counted() {
    const FOLLOWERS: u64 = 6;
    const BYTES: usize = 2 << 20;
    let world = world().await;
    let more = Signal::new();
    let large = piece(&"x".repeat(BYTES));
    let answer = Answer::sse().data(&piece("a")).wait(&more).data(&large).wait(&more).data(&last_piece(""));
    world.upstream.enqueue(answer.done());
    let mut leader = start_stream(&world, &streamed(), "MISS").await;
    let mut follower = start_stream(&world, &streamed(), "COALESCED").await;
    let mut sleepers = Vec::new();
    for _ in 1..FOLLOWERS {
        sleepers.push(asleep(&world, &streamed().to_string()).await);
    }
    in_flight(&world, 1 + FOLLOWERS as usize).await;
    let steps = "gateway_cpu_pool_wait_seconds_count";
    let before = metric(&world, steps).await;
    more.fire();
    for (stream, frames) in [&mut leader, &mut follower] {
        while text_of(frames, 0).len() < BYTES {
            frames.push(within("the large piece", stream.data()).await.expect("a piece"));
        }
    }
    // Those who do not read hold the piece, in their own words each.
    let held = (FOLLOWERS - 1) * BYTES as u64;
    eventually_true("the pieces are counted", async || {
        metric(&world, "gateway_stream_event_bytes").await >= held
    })
    .await;
    let taken = metric(&world, steps).await - before;
    assert!(taken >= FOLLOWERS, "{taken} steps of the CPU pool for {FOLLOWERS} followers");
    more.fire();
    for reader in [leader, follower] {
        assert_eq!(text_of(&remaining_frames(reader).await, 0).len(), BYTES + 1);
    }
    for sleeper in sleepers {
        assert!(wake(sleeper).await.contains("\"finish_reason\":\"stop\""));
    }
    assert_eq!(metric(&world, "gateway_stream_event_bytes").await, 0);
    assert_eq!(world.upstream.hits(), 1);
}
