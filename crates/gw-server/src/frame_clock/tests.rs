//! Every HTTP/2 frame and header block has a time limit, however its bytes are split.

use super::*;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload).unwrap().to_be_bytes();
    let mut frame = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
    frame.resize(FRAME_HEAD_BYTES + payload, 0xff);
    frame
}

#[test]
fn only_an_incomplete_frame_or_block_is_timed() {
    let headers = frame(HEADERS, END_HEADERS, 20);
    let open = frame(HEADERS, 0, 20);
    let more = frame(CONTINUATION, 0, 20);
    let last = frame(CONTINUATION, END_HEADERS, 20);
    let data = frame(DATA, 0, 20);
    for (label, bytes, between) in [
        ("nothing", Vec::new(), true),
        ("a whole head", headers.clone(), true),
        ("a part of a frame's head", headers[..3].to_vec(), false),
        ("a part of a header block", headers[..15].to_vec(), false),
        ("a block without its end", open.clone(), false),
        ("a block that goes on", [open.clone(), more.clone()].concat(), false),
        ("a block that ended", [open, more, last].concat(), true),
        ("a part of a body", [headers.clone(), data[..15].to_vec()].concat(), true),
        ("a body", [headers.clone(), data].concat(), true),
        ("an empty frame", frame(DATA, 1, 0), true),
        ("a part of SETTINGS", frame(4, 0, 6)[..12].to_vec(), false),
    ] {
        let mut frames = FrameTracker::new();
        frames.feed(&bytes);
        assert_eq!(frames.is_between(), between, "{label}");
    }
}

proptest! {
    #[test]
    fn the_split_of_the_bytes_makes_no_difference(
        kinds in proptest::collection::vec((0u8..10, any::<u8>(), 0usize..40), 1..20),
        cuts in proptest::collection::vec(1usize..30, 1..20),
        end in 0usize..900,
    ) {
        let all: Vec<u8> = kinds.iter().flat_map(|(kind, flags, size)| frame(*kind, *flags, *size)).collect();
        let all = &all[..end.min(all.len())];
        let mut whole = FrameTracker::new();
        let ended = whole.feed(all);
        let mut cut = FrameTracker::new();
        let (mut rest, mut cuts, mut any_ended) = (all, cuts.iter().cycle(), false);
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            any_ended |= cut.feed(now);
            rest = later;
        }
        prop_assert_eq!((whole.is_between(), ended), (cut.is_between(), any_ended));
        prop_assert_eq!((whole.payload_left, whole.head_len, whole.is_in_block), (cut.payload_left, cut.head_len, cut.is_in_block));
    }
}

/// Seconds until the reader gets a timeout; None = never.
async fn ends_after(writes: impl AsyncFnOnce(&mut DuplexStream)) -> Option<u64> {
    let (mut client, socket) = tokio::io::duplex(1 << 16);
    let start = Instant::now();
    let limit = Duration::from_secs(10);
    let mut io = FrameClock::new(socket, limit, start + limit);
    let reading = tokio::spawn(async move { tokio::io::copy(&mut io, &mut tokio::io::sink()).await });
    writes(&mut client).await;
    let ended = tokio::time::timeout(Duration::from_secs(600), reading).await.ok()?;
    assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    Some(start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn the_clock_runs_for_a_header_block_and_not_between() {
    let settings = frame(4, 0, 0);
    assert_eq!(ends_after(async |_| {}).await, Some(10), "no SETTINGS");
    assert_eq!(ends_after(async |io| io.write_all(&settings).await.unwrap()).await, None, "idle");
    let open = [settings.clone(), frame(HEADERS, 0, 20)].concat();
    let later = async |io: &mut DuplexStream| {
        io.write_all(&settings).await.unwrap();
        tokio::time::sleep(Duration::from_secs(100)).await;
        io.write_all(&frame(HEADERS, 0, 20)).await.unwrap();
    };
    assert_eq!(ends_after(later).await, Some(110));
    let dripping = async |io: &mut DuplexStream| {
        io.write_all(&open).await.unwrap();
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let _ = io.write_all(&frame(CONTINUATION, 0, 1)).await;
        }
        let _ = io.shutdown().await;
    };
    let (mut client, socket) = tokio::io::duplex(1 << 16);
    let limit = Duration::from_secs(10);
    let start = Instant::now();
    let mut io = FrameClock::new(socket, limit, start + limit);
    let reading = tokio::spawn(async move {
        let mut seen = Vec::new();
        let ended = io.read_to_end(&mut seen).await;
        (ended.is_err(), start.elapsed().as_secs())
    });
    dripping(&mut client).await;
    assert_eq!(reading.await.unwrap(), (true, 10), "CONTINUATION frames buy no time");
}
