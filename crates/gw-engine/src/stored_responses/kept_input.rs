//! The input of a response until the response is stored. Its long strings are those of the chat, so they are held once.

use bytes::Bytes;
use memchr::{memchr, memchr2, memmem};

/// Strings from this length on are shared.
const LONG_BYTES: usize = 64 << 10;
/// The bytes at the beginning of a string by which it is searched.
const SEARCHED_BYTES: usize = 256;
/// The most long strings of a chat that may be missing from the input before the search ends.
const MAX_MISSES: usize = 4;

/// The JSON text of an input, in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptInput {
    pieces: Vec<Bytes>,
}

impl KeptInput {
    /// Keeps an input. The chat was made from the same request, so most of the long strings are in both, in one order.
    pub(crate) fn new(input: Vec<u8>, chat: &Bytes) -> Self {
        if input.len() < LONG_BYTES {
            return Self { pieces: vec![input.into()] };
        }
        let (mut pieces, mut at, mut misses) = (Vec::new(), 0, 0);
        let mut text = 0;
        while let Some((start, end)) = next_string(chat, text)
            && misses < MAX_MISSES
        {
            text = end + 1;
            if end - start < LONG_BYTES {
                continue;
            }
            let (Some(long), Some(rest)) = (chat.get(start..end), input.get(at..)) else { break };
            let Some(place) = memmem::find(rest, long.get(..SEARCHED_BYTES).unwrap_or(long))
                .filter(|place| rest.get(*place..).is_some_and(|found| found.starts_with(long)))
            else {
                misses += 1;
                continue;
            };
            pieces.push(Bytes::copy_from_slice(rest.get(..place).unwrap_or_default()));
            pieces.push(chat.slice(start..end));
            at += place + long.len();
        }
        if pieces.is_empty() {
            return Self { pieces: vec![input.into()] };
        }
        pieces.push(Bytes::copy_from_slice(input.get(at..).unwrap_or_default()));
        Self { pieces }
    }

    /// The whole input.
    pub(crate) fn joined(&self) -> Bytes {
        match self.pieces.as_slice() {
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }

    /// The whole input. The chat is not held any more.
    pub(crate) fn into_joined(self) -> Bytes {
        self.joined()
    }
}

/// The start and the end of the next string of a JSON text, without its quotes.
fn next_string(json: &[u8], from: usize) -> Option<(usize, usize)> {
    let start = from + memchr(b'"', json.get(from..)?)? + 1;
    let mut at = start;
    loop {
        at += memchr2(b'"', b'\\', json.get(at..)?)?;
        if json.get(at) == Some(&b'"') {
            return Some((start, at));
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_bytes(kept: &KeptInput, chat: &Bytes) -> usize {
        let shared = chat.as_ptr_range();
        let own = kept.pieces.iter().filter(|piece| !shared.contains(&piece.as_ptr()));
        own.map(Bytes::len).sum()
    }

    #[test]
    fn long_strings_are_held_once_and_the_input_is_the_same() {
        let (long, other) = ("word \\\" \\\\".repeat(20_000), "x".repeat(LONG_BYTES));
        let input =
            format!(r#"[{{"id":"m","text":"{long}"}},{{"data":"{other}","short":"a"}},{{"text":"{long}"}}]"#);
        let chat = format!(r#"{{"messages":["a\\","{long}",{{"url":"{other}"}},"{long}"]}}"#);
        let chat = Bytes::from(chat);
        let kept = KeptInput::new(input.clone().into_bytes(), &chat);
        assert_eq!(kept.joined(), input);
        assert!(own_bytes(&kept, &chat) < 100, "{}", own_bytes(&kept, &chat));
    }

    #[test]
    fn an_input_with_other_strings_is_kept_as_it_is() {
        for (input, chat) in [
            ("y".repeat(LONG_BYTES), "x".repeat(LONG_BYTES)),
            // The strings differ at their ends.
            (["x".repeat(LONG_BYTES), "y".to_owned()].concat(), "x".repeat(LONG_BYTES + 1)),
            ("short".to_owned(), "short".to_owned()),
            ("y".repeat(LONG_BYTES), "no end".to_owned()),
        ] {
            let (input, chat) = (format!("[\"{input}\"]"), Bytes::from(format!("[\"{chat}\"]")));
            let kept = KeptInput::new(input.clone().into_bytes(), &chat);
            assert_eq!((kept.joined(), own_bytes(&kept, &chat)), (input.clone().into(), input.len()));
        }
        let unclosed = Bytes::from_static(b"\"abc\\");
        let input = "z".repeat(LONG_BYTES);
        assert_eq!(KeptInput::new(input.clone().into_bytes(), &unclosed).joined(), input);
    }
}
