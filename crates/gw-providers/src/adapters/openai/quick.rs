//! A fast reader for ordinary answers and for the chunks of streams, in one pass over the text.
//!
//! It gives the same result as the lenient reader, or nothing. Unusual values (a number in a string, text in parts, an
//! escaped name, invalid JSON) are left to the lenient reader, which also reports faults.

use gw_wire::json::Reader;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::lenient::{LenientContent, LenientNumber, LenientText, RawText, TextOrJson};
use super::wire::OpenAiEnvelope;

/// A value that the fast reader can read.
pub(super) trait Quick<'de>: Sized {
    /// Reads a value that is not null into its field; None when the value is unusual.
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()>;
}

/// Reads a complete answer or a chunk, if nothing in it is unusual.
pub(super) fn envelope(text: &str) -> Option<OpenAiEnvelope<'_>> {
    document(text)
}

/// As [`envelope`], into its place. An envelope is large. False: something is unusual.
pub(super) fn envelope_into<'de>(text: &'de str, place: &mut Option<OpenAiEnvelope<'de>>) -> bool {
    let mut reader = Reader::new(text);
    Quick::quick(place, &mut reader).is_some() && reader.is_at_end()
}

/// Reads a document that holds one value, if nothing in it is unusual.
pub(super) fn document<'de, T: Quick<'de>>(text: &'de str) -> Option<T> {
    let mut reader = Reader::new(text);
    let mut found = None;
    T::quick(&mut found, &mut reader)?;
    found.filter(|_| reader.is_at_end())
}

/// Reads a member. A null leaves its field unchanged.
pub(super) fn place<'de, T: Quick<'de>>(place: &mut Option<T>, reader: &mut Reader<'de>) -> Option<()> {
    if reader.null() { Some(()) } else { T::quick(place, reader) }
}

/// Implements [`Quick`] for a struct of `members!`.
macro_rules! quick_members {
    (@other $reader:ident $name:ident $found:ident) => {
        $reader.value().map(drop)
    };
    (@other $reader:ident $name:ident $found:ident $extras:ident) => {{
        let mut extra: Option<&serde_json::value::RawValue> = None;
        let read = $crate::adapters::openai::quick::place(&mut extra, $reader);
        $found.$extras.extend(extra.map(|value| (std::borrow::Cow::Borrowed($name), value)));
        read
    }};
    ($object:ident<$de:lifetime> $(+ $extras:ident)? { $($field:ident = $member:literal,)+ }) => {
        impl<$de> $crate::adapters::openai::quick::Quick<$de> for $object<$de> {
            fn quick(place: &mut Option<Self>, reader: &mut gw_wire::json::Reader<$de>) -> Option<()> {
                let found = place.insert(Self::default());
                reader.object(|reader, name| {
                    $(if name == $member {
                        return $crate::adapters::openai::quick::place(&mut found.$field, reader);
                    })+
                    $crate::adapters::openai::quick::quick_members!(@other reader name found $($extras)?)
                })
            }
        }
    };
}
pub(super) use quick_members;

impl<'de> Quick<'de> for LenientText<'de> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        *place = Some(Self(reader.string()?));
        Some(())
    }
}

impl<'de> Quick<'de> for LenientContent<'de> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        *place = Some(Self(reader.string()?, None, None));
        Some(())
    }
}

impl<'de> Quick<'de> for TextOrJson<'de> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        let text = if reader.is_at_string() { reader.string()? } else { reader.value()?.text().into() };
        *place = Some(Self(text));
        Some(())
    }
}

impl<'de> Quick<'de> for LenientNumber {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        *place = Some(Self(Some(reader.value()?.text().parse().ok()?)));
        Some(())
    }
}

impl<'de> Quick<'de> for IgnoredAny {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        *place = reader.value().map(|_| Self);
        place.map(drop)
    }
}

impl<'de> Quick<'de> for RawText<'de> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        *place = Some(Self(reader.value()?.text()));
        Some(())
    }
}

impl<'de> Quick<'de> for &'de RawValue {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        *place = Some(serde_json::from_str(reader.value()?.text()).ok()?);
        Some(())
    }
}

impl<'de, T: Quick<'de>> Quick<'de> for Box<T> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        let mut inner = None;
        T::quick(&mut inner, reader)?;
        *place = inner.map(Self::new);
        Some(())
    }
}

impl<'de, T: Quick<'de>> Quick<'de> for Vec<T> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        let elements = place.insert(Self::new());
        reader.array(|reader| {
            let mut element = None;
            T::quick(&mut element, reader)?;
            elements.extend(element);
            Some(())
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::envelope;
    use crate::adapters::openai::wire::OpenAiEnvelope;

    /// Compares both readers on one text. Returns whether the fast reader gave a result.
    fn agree(text: &str) -> bool {
        let quick = envelope(text).map(|envelope| format!("{envelope:?}"));
        let lenient =
            serde_json::from_str::<OpenAiEnvelope<'_>>(text).ok().map(|envelope| format!("{envelope:?}"));
        assert!(quick.is_none() || quick == lenient, "{text}\n{quick:?}\n{lenient:?}");
        quick.is_some()
    }

    const USUAL: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":
        {"role":"assistant","content":"a\n\"b\"","refusal":null,"annotations":[1],"tool_calls":[{"id":7,"index":0,"type":
        "function","function":{"name":"f","arguments":"{}"}}],"reasoning":"r"},"logprobs":{"content":[]},"finish_reason":
        "stop"},{"index":1,"text":"t","logprobs":null}],"usage":{"prompt_tokens":1},"system_fingerprint":"fp"}"#;

    #[test]
    fn the_usual_answer_is_read_by_the_quick_reader() {
        assert!(agree(USUAL));
    }

    #[test]
    fn unusual_answers_are_read_alike_by_both_readers() {
        for text in [
            include_str!("../../../fixtures/openai/replies/full.json"),
            r#"{"choices":[null]}"#,
            r#"{"choices":[{"index":"1"}]}"#,
            r#"{"choices":[{"index":1e999}]}"#,
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}]}"#,
            r#"{"choices":[{"message":{"content":"\ud800"}}]}"#,
            r#"{"choices":[{"message":{"content":"a"},"message":null}],"choices":[]}"#,
            r#"{"choices":[{"message":{"a":1,"a":null,"\u0061":2,"content":"x","content":null}}]}"#,
            r#"{"mod\u0065l":"m","model":5}"#,
            "{\"model\":\"a\nb\"}",
            r#"{"model":"m"}}"#,
        ] {
            agree(text);
        }
    }

    const CHUNKS: [&str; 4] = [
        r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":
            {"role":"assistant","content":"","tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a"}}]},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":" é\u00e9","reasoning_content":"r","extra":[{}]},"logprobs":{"content":[]}}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1}}],"service_tier":"default"}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens_details":{"reasoning_tokens":0}},"x_groq":{"usage":{}}}"#,
    ];

    #[test]
    fn usual_chunks_are_read_by_the_quick_reader() {
        assert!(CHUNKS.into_iter().all(agree));
    }

    proptest! {
        #[test]
        fn both_readers_agree_on_damaged_chunks(
            chunk in prop::sample::select(CHUNKS.to_vec()), at in any::<prop::sample::Index>(), cut in 0..12usize,
            put in "([\\[\\]{}\",:0-9\\\\ nul]{0,4}|\"(choices|delta|content|usage|index)\":)",
        ) {
            let at = chunk.floor_char_boundary(at.index(chunk.len()));
            let end = chunk.floor_char_boundary(at + cut);
            agree(&format!("{}{put}{}", &chunk[..at], &chunk[end.max(at)..]));
        }

        #[test]
        fn both_readers_agree_on_damaged_answers(at in 0..USUAL.len(), cut in 0..12usize, put in "[\\[\\]{}\",:0-9\\\\ nul]{0,4}") {
            let end = (at + cut).min(USUAL.len());
            agree(&format!("{}{put}{}", &USUAL[..at], &USUAL[end..]));
        }
    }
}
