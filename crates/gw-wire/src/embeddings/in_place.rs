//! An answer with one vector, written around the numbers in the upstream's own document: they are neither read again nor copied.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use super::write_end;
use crate::reply::Vector;
use crate::request::EncodingFormat;
use crate::usage::Usage;

/// The text around the numbers of a single vector, up to the members behind the vectors.
#[derive(Debug)]
struct Around {
    before: &'static [u8],
    after: &'static [u8],
}

/// The members in OpenAI's order.
const USUAL: Around = Around {
    before: br#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":"#,
    after: b"}]",
};

/// The same members with the numbers first. It fits into every answer of OpenAI's dialect, because none can have less before its
/// numbers. Some servers write the numbers first, too.
const NUMBERS_FIRST: Around = Around {
    before: br#"{"data":[{"embedding":"#,
    after: br#","object":"embedding","index":0}],"object":"list""#,
};

/// The most bytes of a document beside its numbers and as many bytes again. The answer keeps the memory of the whole document until
/// its client has it.
const MOST_BESIDE_BYTES: usize = 4 << 10;

/// The place of the numbers in a document, with enough room before them.
#[derive(Debug)]
pub struct NumbersInPlace {
    place: Range<usize>,
    around: &'static Around,
}

impl NumbersInPlace {
    /// The place of the only vector; None if the answer has to be written anew.
    #[must_use]
    pub fn of(document: &Bytes, vectors: &[Vector<'_>], encoding: EncodingFormat) -> Option<Self> {
        let ([Vector::Json { text, .. }], EncodingFormat::Float) = (vectors, encoding) else { return None };
        let start = (text.as_ptr() as usize).checked_sub(document.as_ptr() as usize)?;
        let place = start..start.checked_add(text.len())?;
        let is_inside = place.end <= document.len();
        let is_small = document.len() <= text.len().saturating_mul(2).saturating_add(MOST_BESIDE_BYTES);
        let around = [&USUAL, &NUMBERS_FIRST].into_iter().find(|around| around.before.len() <= start)?;
        (is_inside && is_small && document.is_unique()).then_some(Self { place, around })
    }

    /// The answer, with the members of [`super::write_embeddings`].
    #[must_use]
    pub fn write(self, document: Bytes, model: &str, usage: &Usage) -> Bytes {
        let Self { place: Range { start, end }, around: Around { before, after } } = self;
        // A document with other readers is copied.
        let mut document = document.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
        document.truncate(end);
        let from = start.saturating_sub(before.len());
        if let Some(room) = document.get_mut(from..start) {
            room.iter_mut().zip(*before).for_each(|(place, byte)| *place = *byte);
        }
        document.advance(from.min(document.len()));
        let mut tail = Vec::with_capacity(model.len() + 160);
        tail.extend_from_slice(after);
        write_end(&mut tail, model, usage);
        document.extend_from_slice(&tail);
        document.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::embeddings::write_embeddings;
    use crate::reply::EmbeddingsReply;

    proptest! {
        #[test]
        fn an_answer_in_place_is_the_answer_that_is_written_anew(
            before in ".{0,120}", numbers in prop::collection::vec(any::<f32>(), 1..40), after in ".{0,40}",
            model in ".{0,20}", prompt in any::<u32>(), room in 0..400_usize, is_base64 in any::<bool>(),
        ) {
            let text = serde_json::to_string(&numbers).unwrap();
            let mut buffer = BytesMut::with_capacity(room);
            for part in [&before, &text, &after] {
                buffer.extend_from_slice(part.as_bytes());
            }
            let document = buffer.freeze();
            let usage = Usage { prompt: prompt.into(), ..Usage::default() };
            let encoding = if is_base64 { EncodingFormat::Base64 } else { EncodingFormat::Float };
            let inside = std::str::from_utf8(&document).unwrap().get(before.len()..before.len() + text.len()).unwrap();
            let vectors = vec![Vector::Json { text: inside, len: numbers.len() }];
            let reply = EmbeddingsReply { vectors, ..EmbeddingsReply::default() };
            let anew = write_embeddings(&reply, encoding, &model, &usage);
            let place = NumbersInPlace::of(&document, &reply.vectors, encoding);
            prop_assert_eq!(place.is_some(), !is_base64 && before.len() >= NUMBERS_FIRST.before.len());
            let Some(place) = place else { return Ok(()) };
            drop(reply);
            let written = place.write(document, &model, &usage);
            let members = |answer: &[u8]| serde_json::from_slice::<serde_json::Value>(answer).unwrap();
            prop_assert_eq!(members(&written), members(&anew));
            if before.len() >= USUAL.before.len() {
                prop_assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&anew));
            }
        }
    }

    #[test]
    fn a_document_with_other_readers_and_two_vectors_are_written_anew() {
        let document = Bytes::from(format!("{}[1][1]", " ".repeat(100)));
        let text = std::str::from_utf8(&document).unwrap();
        let one = || Vector::Json { text: &text[100..103], len: 1 };
        let place = |vectors: &[Vector<'_>]| NumbersInPlace::of(&document, vectors, EncodingFormat::Float);
        assert!(place(&[one()]).is_some());
        assert!(place(&[one(), one()]).is_none() && place(&[]).is_none());
        assert!(place(&[Vector::Json { text: "[1]", len: 1 }]).is_none(), "numbers of another document");
        let _other = document.clone();
        assert!(place(&[one()]).is_none());
    }

    #[test]
    fn an_answer_does_not_keep_a_document_that_is_much_larger() {
        for (beside, is_in_place) in [(MOST_BESIDE_BYTES, true), (MOST_BESIDE_BYTES + 100, false)] {
            let document = Bytes::from(format!("{}[1]{}", " ".repeat(100), " ".repeat(beside - 100)));
            let text = std::str::from_utf8(&document).unwrap();
            let vectors = [Vector::Json { text: &text[100..103], len: 1 }];
            let place = NumbersInPlace::of(&document, &vectors, EncodingFormat::Float);
            assert_eq!(place.is_some(), is_in_place, "{beside}");
        }
    }
}
