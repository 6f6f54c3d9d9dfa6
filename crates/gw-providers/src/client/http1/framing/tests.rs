//! Bodies of every framing, valid and broken, in one piece and cut anywhere.

use proptest::prelude::*;

use super::*;

/// The data of a body, and then whether it is over, with the unused bytes, or its fault.
type BodyRead = (Vec<u8>, Result<(bool, Vec<u8>), BrokenFraming>);

/// Reads a body that comes in these pieces: its data and the unused bytes, or the fault after the data.
fn read(mut framing: BodyFraming, pieces: &[&[u8]], by_chunk: bool) -> BodyRead {
    let (mut data, mut kept) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        while !kept.is_empty() && !framing.is_over() {
            match framing.decode(&mut kept, by_chunk) {
                Ok(decoded) => {
                    data.extend_from_slice(&kept[..decoded.data]);
                    kept.drain(..decoded.used);
                    assert_eq!(decoded.is_over, framing.is_over());
                }
                Err(fault) => return (data, Err(fault)),
            }
        }
    }
    (data, Ok((framing.is_over(), kept)))
}

fn chunked(body: &[u8]) -> BodyRead {
    read(BodyFraming::Chunked(Chunks::default()), &[body], false)
}

#[test]
fn every_valid_chunked_body_is_read() {
    let cases: &[(&[u8], &[u8], &[u8])] = &[
        (b"0\r\n\r\n", b"", b""),
        (b"000\r\n\r\n", b"", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello", b""),
        (b"5\r\nhello\r\n1\r\n \r\n05\r\nworld\r\n0\r\n\r\nnext", b"hello world", b"next"),
        (b"A\r\n0123456789\r\na;x=y\r\n0123456789\r\n0;z\r\n\r\n", b"01234567890123456789", b""),
        (b"1 \t\r\nx\r\n1 ;q=\"\xff\"\r\ny\r\n0\t\r\n\r\n", b"xy", b""),
        (b"2\r\n\r\n\r\n0\r\na: b\r\nc: d\r\n\r\n", b"\r\n", b""),
    ];
    for (body, data, rest) in cases {
        assert_eq!(chunked(body), (data.to_vec(), Ok((true, rest.to_vec()))), "{body:?}");
    }
}

#[test]
fn a_body_that_breaks_its_framing_fails_after_its_data() {
    let cases: &[(&[u8], &[u8])] = &[
        (b"\r\n", b""),
        (b";x\r\n", b""),
        (b" 5\r\nhello\r\n", b""),
        (b"-1\r\n", b""),
        (b"+5\r\nhello\r\n", b""),
        (b"0x5\r\nhello\r\n", b""),
        (b"5\nhello\r\n", b""),
        (b"5\r5\r\nhello", b""),
        (b"5 5\r\nhello", b""),
        (b"5;a\nb\r\nhello", b""),
        (b"10000000000000000\r\n", b""),
        (b"5\r\nhello0\r\n\r\n", b"hello"),
        (b"5\r\nhello!\r\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\nzz\r\n", b"hello"),
        (b"5\r\nhello\r\n0\r\nx\n\r\n", b"hello"),
        (b"5\r\nhello\r\n0\r\nx\ry\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n0\r\n\n", b"hello"),
        (b"5\r\nhello\r\n0\r\n\rx", b"hello"),
    ];
    for (body, data) in cases {
        let (read, ended) = chunked(body);
        assert_eq!(read, *data, "{body:?}");
        assert!(ended.is_err(), "{body:?} gives {ended:?}");
    }
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let long = [b"1;".as_slice(), &[b'x'; 16 << 10], b"\r\nx\r\n0\r\n\r\n"].concat();
    assert_eq!(chunked(&long).1, Ok((true, Vec::new())));
    let many = [b"1;".as_slice(), &[b'x'; 10 << 10], b"\r\nx\r\n"].concat().repeat(2);
    assert_eq!(chunked(&many), (b"x".to_vec(), Err("chunk extensions over their limit")));
    let trailers = [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(5000)].concat();
    assert_eq!(chunked(&trailers).1, Err("trailers over their limit"));
}

#[test]
fn a_chunk_is_read_by_itself_if_that_is_asked() {
    let mut body = b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n".to_vec();
    let mut framing = BodyFraming::Chunked(Chunks::default());
    for (data, used, is_over) in [(2, 7, false), (3, 8, false), (0, 5, true)] {
        assert_eq!(framing.decode(&mut body, true), Ok(Decoded { data, used, is_over }));
        body.drain(..used);
    }
}

#[test]
fn a_length_leaves_the_bytes_after_it() {
    let body = b"12345rest";
    assert_eq!(
        read(BodyFraming::Length(5), &[body], false),
        (b"12345".to_vec(), Ok((true, b"rest".to_vec())))
    );
    assert_eq!(read(BodyFraming::Length(50), &[body], false), (body.to_vec(), Ok((false, Vec::new()))));
    assert_eq!(read(BodyFraming::UntilClose, &[body], false), (body.to_vec(), Ok((false, Vec::new()))));
}

proptest! {
    /// The result does not depend on how the network cuts a body, whether it is valid or not. A line of a chunk that is cut is read byte by
    /// byte, and a whole one at once.
    #[test]
    fn cuts_change_nothing(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..6),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        by_chunk in any::<bool>(),
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\nrest");
        if let Some((at, byte)) = &damage {
            let at = at.index(body.len());
            body[at] = *byte;
        } else {
            prop_assert_eq!(chunked(&body), (chunks.concat(), Ok((true, b"rest".to_vec()))));
        }
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        at.extend([0, body.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(BodyFraming::Chunked(Chunks::default()), &pieces, by_chunk), chunked(&body));
        let single: Vec<&[u8]> = body.chunks(1).collect();
        prop_assert_eq!(read(BodyFraming::Chunked(Chunks::default()), &single, by_chunk), chunked(&body));
    }
}
