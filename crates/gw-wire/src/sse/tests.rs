//! The decoder returns the same events however the bytes are split, follows the standard, and uses bounded memory.

use proptest::prelude::*;

use super::{MAX_EVENT_BYTES, SseDecoder, TooLarge};

type Events = Vec<(Vec<u8>, Vec<u8>)>;

/// All events of a stream that arrives as these chunks.
fn decode<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> Events {
    let mut decoder = SseDecoder::default();
    let mut events = Vec::new();
    for chunk in chunks {
        decoder
            .feed(chunk, &mut |event| events.push((event.name.to_vec(), event.data.to_vec())))
            .expect("no event is large");
    }
    decoder.eof(&mut |event| events.push((event.name.to_vec(), event.data.to_vec())));
    events
}

fn data(stream: &str) -> Vec<String> {
    decode([stream.as_bytes()]).into_iter().map(|(_, data)| String::from_utf8(data).expect("UTF-8")).collect()
}

/// The standard's algorithm, line by line over the whole text. It only differs at the end, where an open event counts as
/// complete (the upstream's last `[DONE]` may lack its blank line).
fn reference(stream: &[u8]) -> Events {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                if bytes.peek() == Some(&b'\n') {
                    bytes.next();
                }
                lines.push(Vec::new());
            }
            b'\n' => lines.push(Vec::new()),
            other => lines.last_mut().expect("there is a line").push(other),
        }
    }
    lines.push(Vec::new());
    let (mut events, mut name, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                events.push((name, data));
            }
            name = Vec::new();
            data = Vec::new();
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, mut value) = match colon {
            Some(0) => continue,
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (&line[..], &line[line.len()..]),
        };
        if value.first() == Some(&b' ') {
            value = &value[1..];
        }
        if field == b"event" {
            name = value.to_vec();
        } else if field == b"data" {
            data.extend_from_slice(value);
            data.push(b'\n');
        }
    }
    events
}

/// A chat stream as upstreams send it, with the scripts and line ends that have caused faults.
fn transcript(size: usize) -> Vec<u8> {
    let pieces = [
        "data: {\"choices\":[{\"delta\":{\"content\":\"漢字かな\"}}]}\r\n\r\n",
        ": keep-alive\n\n",
        "data:{\"choices\":[{\"delta\":{\"content\":\"👩\u{200d}👩\u{200d}👧 🇩🇪\"}}]}\n\n",
        "event: chunk\r\nid: 7\r\nretry: 10\r\ndata: first\r\ndata: second é\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\n\\ndata: [DONE]\\n\\n\"}}]}\r\r",
        "data\n\ndata: x\rdata:  y\u{85}z\u{2028}\n\n",
    ];
    let mut out = "\u{feff}".as_bytes().to_vec();
    for piece in pieces.iter().cycle() {
        if out.len() + piece.len() > size {
            break;
        }
        out.extend_from_slice(piece.as_bytes());
    }
    out.extend_from_slice(b"data: [DONE]");
    out
}

#[test]
fn u11_every_single_cut_gives_the_uncut_events() {
    let stream = transcript(4096);
    let whole = decode([&stream[..]]);
    assert!(whole.len() > 50, "{}", whole.len());
    assert_eq!(whole.last().map(|(_, data)| &data[..]), Some(&b"[DONE]"[..]));
    for cut in 0..=stream.len() {
        assert_eq!(decode([&stream[..cut], &stream[cut..]]), whole, "cut at {cut}");
    }
}

#[test]
fn u11_every_pair_of_cuts_gives_the_uncut_events() {
    let stream = transcript(400);
    let whole = decode([&stream[..]]);
    for first in 0..stream.len() {
        for second in first..=stream.len() {
            let chunks = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(decode(chunks), whole, "cuts at {first} and {second}");
        }
    }
}

#[test]
fn u11_one_byte_at_a_time_gives_the_uncut_events() {
    let stream = transcript(4096);
    assert_eq!(decode(stream.chunks(1)), decode([&stream[..]]));
}

#[test]
fn u12_line_ends_fields_and_comments_follow_the_standard() {
    assert_eq!(data("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\r\n\n"), ["a", "b", "c", "d"]);
    assert_eq!(data("data:a\ndata: b\ndata:  c\ndata\n\n"), ["a\nb\n c\n"]);
    assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: no field of ours\n\n"), ["a"]);
    assert_eq!(data(": ping\n\n:\n\nevent: ping\n\nid: 1\nretry: 3\n\ndata: a\n\n"), ["a"]);
    assert_eq!(data("data: {\"a\":1}{\"b\":2}\n\n"), ["{\"a\":1}{\"b\":2}"]);
    assert_eq!(data("data:\n\n"), [""]);
    assert_eq!(data("datax: a\nDATA: b\n data: c\n\n"), Vec::<String>::new());
}

#[test]
fn u12_the_event_name_is_the_last_one_of_its_event() {
    let events = decode([&b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\nevent: c\n\ndata: 3\n\n"[..]]);
    let expected =
        [("b", "1"), ("", "2"), ("", "3")].map(|(n, d)| (n.as_bytes().to_vec(), d.as_bytes().to_vec()));
    assert_eq!(events, expected);
}

#[test]
fn u12_a_last_event_without_its_blank_line_is_emitted_at_the_end() {
    for end in ["", "\n", "\r", "\r\n", "\n\n", "\r\r"] {
        assert_eq!(data(&format!("data: a\n\ndata: [DONE]{end}")), ["a", "[DONE]"], "{end:?}");
    }
}

#[test]
fn an_event_is_emitted_at_its_last_byte() {
    for end in ["\n\n", "\r\r", "\r\n\r"] {
        let mut decoder = SseDecoder::default();
        let mut seen = 0;
        decoder.feed(format!("data: a{end}").as_bytes(), &mut |_| seen += 1).expect("small");
        assert_eq!(seen, 1, "{end:?}");
    }
}

#[test]
fn an_event_within_one_chunk_is_not_copied() {
    let chunk = b"data: {\"a\":1}\n\nevent: x\ndata: {\"b\":2}\r\n\r\n";
    let range = chunk.as_ptr_range();
    let mut decoder = SseDecoder::default();
    let mut seen = 0;
    decoder
        .feed(chunk, &mut |event| {
            seen += 1;
            assert!(range.contains(&event.data.as_ptr()));
        })
        .expect("small");
    assert_eq!((seen, decoder.held.capacity()), (2, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn u12_equals_the_reference_decoder(
        bom in any::<bool>(),
        parts in proptest::collection::vec(prop_oneof![
            Just("\n".to_owned()), Just("\r".to_owned()), Just("\r\n".to_owned()), Just("\n\n".to_owned()),
            Just("data:".to_owned()), Just("data: ".to_owned()), Just("data".to_owned()), Just("event: ".to_owned()),
            Just(":".to_owned()), Just("id: 1".to_owned()), Just("retry: 5".to_owned()), Just(" ".to_owned()),
            Just("\u{feff}".to_owned()), Just("\0".to_owned()), "[a-z:{}]{0,6}", "\\PC{0,4}",
        ], 0..40),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut stream = if bom { "\u{feff}".to_owned() } else { String::new() };
        stream.extend(parts);
        let stream = stream.into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(decode(chunks), reference(&stream));
    }

    #[test]
    fn u12_any_bytes_equal_the_reference_decoder(stream in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..40) {
        prop_assert_eq!(decode(stream.chunks(step)), reference(&stream));
    }
}

#[test]
fn u13_a_huge_line_is_refused_at_the_cap_and_memory_stays_bounded() {
    let chunk = vec![b'x'; 64 << 10];
    let mut decoder = SseDecoder::default();
    let mut taken = decoder.feed(b"data: ", &mut |_| {}).map(|()| 6);
    let mut total = 0;
    while let Ok(bytes) = taken {
        total += bytes;
        assert!(total <= MAX_EVENT_BYTES, "{total}");
        assert!(decoder.held.capacity() <= MAX_EVENT_BYTES + chunk.len());
        taken = decoder.feed(&chunk, &mut |_| {}).map(|()| chunk.len());
    }
    assert!(total > MAX_EVENT_BYTES - chunk.len());
    assert_eq!(decoder.held.capacity(), 0);
    assert_eq!(decoder.feed(b"data: a\n\n", &mut |_| panic!("nothing follows")), Err(TooLarge));
}

#[test]
fn u13_many_lines_of_one_event_are_bounded_too() {
    let lines = "data: 0123456789abcdef\n".repeat(1024);
    let mut decoder = SseDecoder::default();
    let refused = (0..2048).find(|_| decoder.feed(lines.as_bytes(), &mut |_| {}).is_err());
    assert!(refused.is_some_and(|round| round > 800));
}

#[test]
fn u13_the_cap_does_not_depend_on_the_cuts() {
    for (over, size) in [(false, MAX_EVENT_BYTES - 6), (true, MAX_EVENT_BYTES - 5)] {
        let stream = [b"data: ", &vec![b'x'; size][..], b"\n\n"].concat();
        for step in [1 << 14, 1 << 20, 1 << 22] {
            let mut decoder = SseDecoder::default();
            let mut events = 0;
            let failed = stream.chunks(step).any(|chunk| decoder.feed(chunk, &mut |_| events += 1).is_err());
            assert_eq!((failed, events), (over, usize::from(!over)), "size {size}, step {step}");
            assert!(decoder.held.capacity() <= super::KEPT_CAPACITY_BYTES, "large capacity is given back");
        }
    }
}

#[test]
fn the_buffer_of_a_large_line_without_data_is_freed() {
    for field in [": ", "retry: "] {
        let line = format!("{field}{}", "x".repeat(1 << 20));
        let mut decoder = SseDecoder::default();
        let (first, rest) = line.as_bytes().split_at(700_000);
        decoder.feed(b"data: a\n", &mut |_| {}).unwrap();
        decoder.feed(first, &mut |_| {}).unwrap();
        decoder.feed(rest, &mut |_| {}).unwrap();
        assert!(decoder.pending_bytes() > 1 << 20, "{field}");
        let mut seen = Vec::new();
        decoder.feed(b"\ndata: b", &mut |_| {}).unwrap();
        assert!(decoder.held_bytes() <= super::KEPT_CAPACITY_BYTES, "{field}: {}", decoder.held_bytes());
        decoder.feed(b"\n\n", &mut |event| seen = event.data.to_vec()).unwrap();
        assert_eq!(seen, b"a\nb", "{field}");
    }
    // The name of an event belongs to one event.
    let mut decoder = SseDecoder::default();
    let name = format!("event: {}\n", "x".repeat(1 << 20));
    decoder.feed(name.as_bytes(), &mut |_| {}).unwrap();
    assert!(decoder.held_bytes() >= 1 << 20);
    decoder.feed(b"\n", &mut |_| {}).unwrap();
    assert!(decoder.held_bytes() <= super::KEPT_CAPACITY_BYTES);
}
