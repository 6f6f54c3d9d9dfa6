//! A stalled reader costs bounded memory in the process and in the kernel, and all of it is freed (C32).

use std::process::Command;
use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::wait::{eventually, eventually_within};
use gw_testkit::wire::RawClient;
use gw_testkit::{Client, Gateway};

use crate::harness::{ADMIN, KEY};
use crate::streaming::timeouts::{Flood, endless_content, gateway, streamed};

const CHAT: &str = "/v1/chat/completions";
/// The memory that a stalled reader may cost beside its waiting event, in bytes.
const USER_KIB: u64 = 256;
const KERNEL_KIB: u64 = 1024;

/// The number of stalled readers; `STALLED_READERS` sets another one.
fn readers() -> u64 {
    std::env::var("STALLED_READERS").map_or(48, |count| count.parse().expect("STALLED_READERS is a number"))
}

async fn stalled(client: &Client, body: &str) -> RawClient {
    let mut wire = RawClient::connect_with_receive_buffer(client.addr, 4 * 1024).await;
    wire.send(client.head("POST", CHAT, Some("application/json"), Some(body.len())) + body).await;
    wire
}

/// Resident memory in bytes, once it has stopped changing.
async fn settled_kib(gateway: &Gateway) -> u64 {
    let (mut last, mut since) = (gateway.rss_kib(), Instant::now());
    eventually("the memory settles", || {
        let now = gateway.rss_kib();
        if now.abs_diff(last) > last / 100 {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_millis(2500)).then_some(now)
    })
    .await
}

/// Kernel memory of the gateway's connections to clients and upstreams.
fn kernel_kib(gateway: &Gateway) -> u64 {
    let output =
        Command::new("ss").args(["-tnmpO", "state", "established"]).output().expect("ss of iproute2");
    let text = String::from_utf8_lossy(&output.stdout);
    let owner = format!("pid={},", gateway.pid());
    let used = |line: &str| {
        let (_, memory) = line.split_once("skmem:(")?;
        let figures = memory.split_once(')')?.0.split(',');
        // r: received and not read; w: written and not acknowledged.
        Some(figures.filter_map(|one| one.strip_prefix(['r', 'w'])?.parse::<u64>().ok()).sum::<u64>())
    };
    text.lines().filter(|line| line.contains(&owner)).filter_map(used).sum::<u64>() / 1024
}

/// The bytes of large events, from the metrics.
async fn event_bytes(gateway: &Gateway) -> u64 {
    let text = gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix("gateway_stream_event_bytes "));
    line.expect("the metrics tell it").parse().expect("a number")
}

#[tokio::test]
async fn c32_readers_that_stop_cost_one_event_each_and_give_it_back() {
    for bytes in [20_000, 200_000, 900_000_usize] {
        let shapes = [endless_content(bytes)];
        let flood = Flood::start(&shapes);
        let admin = format!("[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"");
        let gateway = gateway(&flood, &shapes, &admin).await;
        let client = gateway.client().with_key(KEY);
        let body = streamed(0).to_string();
        // The first streams load the code and buffers that all streams use.
        client.stream(CHAT, &streamed(0)).await.frame().await.expect("content");
        flood.all_closed(1).await;
        let before = settled_kib(&gateway).await;
        let count = readers();
        let mut waiting = Vec::new();
        for _ in 0..count {
            waiting.push(stalled(&client, &body).await);
        }
        eventually("every reader has its upstream call", || (flood.opened() > count as usize).then_some(()))
            .await;
        let user = settled_kib(&gateway).await.saturating_sub(before) / count;
        let kernel = kernel_kib(&gateway) / count;
        // The allocator rounds large buffers up.
        let event = if bytes > 64 << 10 { bytes as u64 / 1024 * 5 / 4 } else { 0 };
        println!("events of {bytes} bytes: {user} KiB user, {kernel} KiB kernel for each of {count} readers");
        at_most("KiB of a reader that stops", user, USER_KIB + event);
        at_most("KiB of a reader that stops, in the kernel", kernel, KERNEL_KIB);
        let counted = event_bytes(&gateway).await;
        if event == 0 {
            assert_eq!(counted, 0, "small events are not counted");
        } else {
            let expected = count * bytes as u64;
            assert!(counted >= expected && counted < expected + expected / 4, "{counted} of {expected}");
        }
        drop(waiting);
        flood.all_closed(count as usize + 1).await;
        eventually("the memory is freed", || (gateway.rss_kib() < before + 12 * 1024).then_some(())).await;
        assert_eq!(event_bytes(&gateway).await, 0);
    }
}

#[tokio::test]
async fn c32_beyond_the_bound_of_all_a_large_event_ends_its_stream_and_small_ones_go_on() {
    // 290 events of a million bytes do not fit into 256 MiB.
    let shapes = [endless_content(1_000_000), endless_content(1_000)];
    let flood = Flood::start(&shapes);
    let admin = format!("[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"");
    let gateway = gateway(&flood, &shapes, &admin).await;
    let client = gateway.client().with_key(KEY);
    let body = streamed(0).to_string();
    let mut waiting = Vec::new();
    for _ in 0..290 {
        waiting.push(stalled(&client, &body).await);
    }
    // A debug build needs time to read this much.
    eventually_within(Duration::from_secs(120), "one had no room", || {
        let lines = gateway.logs();
        lines.iter().any(|line| line["code"] == "upstream_stream_error").then_some(())
    })
    .await;
    assert!(event_bytes(&gateway).await <= 256 << 20);
    let mut small = client.stream(CHAT, &streamed(1)).await;
    let mut frame = String::new();
    for _ in 0..10 {
        frame = small.data().await.expect("content");
    }
    assert!(frame.contains("xxxx"), "{frame}");
}

/// A key that reads what it asks for.
const READER: &str = "sk-test-reader";

#[tokio::test]
async fn c36_stalled_streams_of_one_key_do_not_cut_the_large_stream_of_another() {
    let shapes = [endless_content(1_000_000)];
    let flood = Flood::start(&shapes);
    let keys = format!(
        "[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n[[keys]]\nname = \"reader\"\nkey = \"{READER}\""
    );
    let gateway = gateway(&flood, &shapes, &keys).await;
    let client = gateway.client().with_key(KEY);
    let body = streamed(0).to_string();
    let mut waiting = Vec::new();
    for _ in 0..270 {
        waiting.push(stalled(&client, &body).await);
    }
    // Each stream of the key waits with an event or is cut, because its key holds its share.
    let cut = || gateway.logs().iter().filter(|line| line["code"] == "upstream_stream_error").count();
    eventually_within(Duration::from_secs(120), "the key holds its share", || {
        (cut() > 270 - 140).then_some(())
    })
    .await;
    let held = event_bytes(&gateway).await;
    assert!(held <= 128 << 20, "{held} bytes are held by one key");
    let mut large = gateway.client().with_key(READER).stream(CHAT, &streamed(0)).await;
    for event in 0..5 {
        let frame = large.data().await.expect("content");
        assert!(!frame.contains("error"), "event {event}: {frame:.300}");
    }
    assert!(event_bytes(&gateway).await <= 256 << 20);
}
