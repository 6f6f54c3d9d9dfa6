//! Embeddings of OpenAI's dialect: every vector is checked, and numbers keep their text.

use gw_wire::embeddings::{read_numbers, read_parsed_vector};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::Reader;
use gw_wire::reply::{EmbeddingsReply, Vector};
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient::{LenientNumber, LenientText, Member, RawText, members};
use super::quick::{self, Quick};
use super::usage;
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::vectors;

members! {
    /// The complete answer.
    OpenAiEmbeddings<'de> {
        object: LenientText<'de> = "object",
        model: LenientText<'de> = "model",
        data: Vec<EmbeddingEntry<'de>> = "data",
        usage: RawText<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

members! {
    /// One vector with its index.
    EmbeddingEntry<'de> {
        index: LenientNumber = "index",
        embedding: Embedding<'de> = "embedding",
    }
}

/// A vector. The quick reader reads an array of numbers at once, because its bytes are nearly all of an answer.
#[derive(Debug)]
pub(super) enum Embedding<'de> {
    Numbers(Vector<'de>),
    Unread(&'de RawValue),
}

impl<'de> Quick<'de> for Embedding<'de> {
    fn quick(place: &mut Option<Self>, reader: &mut Reader<'de>) -> Option<()> {
        if reader.peek() == Some(b'[') {
            *place = Some(Self::Numbers(read_numbers(reader)?));
            return Some(());
        }
        let mut raw = None;
        <&RawValue>::quick(&mut raw, reader)?;
        *place = raw.map(Self::Unread);
        Some(())
    }
}

impl<'de> Member<'de> for Embedding<'de> {
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
        *place = Some(Self::Unread(<&RawValue>::deserialize(deserializer)?));
        Ok(())
    }
}

impl<'de> Embedding<'de> {
    fn vector(self) -> Result<Vector<'de>, Failure> {
        match self {
            Self::Numbers(vector) => Ok(vector),
            Self::Unread(raw) => read_parsed_vector(raw).map_err(invalid),
        }
    }
}

/// Reads exactly `expected` vectors of one length, sorted by index.
pub(super) fn decode(body: &[u8], expected: usize) -> Result<EmbeddingsReply<'_>, Failure> {
    let text = body_text(body)?;
    let answer = match quick::document::<OpenAiEmbeddings<'_>>(text) {
        Some(answer) => answer,
        None => serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?,
    };
    vectors_of(answer, text, expected)
}

fn vectors_of<'a>(
    answer: OpenAiEmbeddings<'a>,
    text: &'a str,
    expected: usize,
) -> Result<EmbeddingsReply<'a>, Failure> {
    if answer.error.is_some() || answer.object.is_some_and(|object| object.0 == "error") {
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    }
    let entries = answer.data.ok_or_else(|| invalid("the body has no data"))?;
    let count = entries.len();
    if count != expected {
        return Err(invalid(format_args!("{count} vectors for {expected} inputs")));
    }
    let mut places: Vec<Option<Vector<'_>>> = Vec::new();
    places.resize_with(expected, || None);
    for (position, entry) in entries.into_iter().enumerate() {
        let index = entry.index.and_then(|index| index.0).map_or(position, |index| index as usize);
        let place = places.get_mut(index).ok_or_else(|| invalid("a vector's index is out of range"))?;
        let embedding = entry.embedding.ok_or_else(|| invalid("an entry has no embedding"))?;
        if place.replace(embedding.vector()?).is_some() {
            return Err(invalid("two vectors have the same index"));
        }
    }
    let vectors: Vec<Vector<'_>> = places.into_iter().flatten().collect();
    vectors::check_lengths(&vectors)?;
    let model = answer.model.map(|text| text.0).filter(|text| !text.is_empty());
    Ok(EmbeddingsReply { model, vectors, usage: answer.usage.and_then(usage::read_prompt) })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gw_wire::embeddings::{NumbersInPlace, write_embeddings};
    use gw_wire::failure::{Failure, FailureKind};
    use gw_wire::reply::{EmbeddingsReply, Vector};
    use gw_wire::request::EncodingFormat;
    use proptest::prelude::*;

    use super::decode;

    fn kind(body: &str, expected: usize) -> FailureKind {
        decode(body.as_bytes(), expected).unwrap_err().kind
    }

    /// Decodes a text with the lenient reader alone.
    fn lenient(text: &str, expected: usize) -> Result<EmbeddingsReply<'_>, Failure> {
        super::vectors_of(
            serde_json::from_str(text).map_err(|fault| super::invalid_json(&fault))?,
            text,
            expected,
        )
    }

    const USUAL: &str = r#"{"object":"list","model":"m","data":[{"object":"embedding","index":1,"embedding":[0.25,-0.0123456789012345678,1e-05]},
        {"index":0,"embedding":[ 0, 1.5 ,-3E2]}],"usage":{"prompt_tokens":4,"total_tokens":4}}"#;

    proptest! {
        #[test]
        fn both_readers_agree_on_damaged_answers(
            at in 0..USUAL.len(), cut in 0..12usize, put in "[\\[\\]{}\",:.0-9eE\\\\ nul-]{0,4}", expected in 1..3usize,
        ) {
            let end = (at + cut).min(USUAL.len());
            let text = format!("{}{put}{}", &USUAL[..at], &USUAL[end..]);
            let told = |reply: Result<EmbeddingsReply<'_>, Failure>| format!("{reply:?}");
            prop_assert_eq!(told(decode(text.as_bytes(), expected)), told(lenient(&text, expected)), "{}", text);
        }
    }

    #[test]
    fn the_usual_answer_is_read_by_the_quick_reader() {
        assert!(crate::adapters::openai::quick::document::<super::OpenAiEmbeddings<'_>>(USUAL).is_some());
    }

    #[test]
    fn answers_in_every_order_of_members_are_read_in_one_pass_and_written_in_place() {
        let numbers = "[0.25,-0.0123456789012345678,1e-05]";
        let usage = r#"{"prompt_tokens":4,"total_tokens":4}"#;
        let [open, close] = ["{", "}"];
        for body in [
            // OpenAI and LM Studio; vLLM; llama.cpp; text-embeddings-inference; Ollama; sorted members.
            format!(
                r#"{open}"object":"list","data":[{open}"object":"embedding","index":0,"embedding":{numbers}{close}],"model":"m","usage":{usage}{close}"#
            ),
            format!(
                r#"{open}"id":"embd-1","object":"list","created":1,"model":"m","data":[{open}"index":0,"object":"embedding","embedding":{numbers}{close}],"usage":{usage}{close}"#
            ),
            format!(
                r#"{open}"model":"m","object":"list","usage":{usage},"data":[{open}"embedding":{numbers},"index":0,"object":"embedding"{close}]{close}"#
            ),
            format!(
                r#"{open}"object":"list","data":[{open}"object":"embedding","embedding":{numbers},"index":0{close}],"model":"m","usage":{usage}{close}"#
            ),
            format!(
                r#"{open}"object":"list","data":[{open}"object":"embedding","embedding":{numbers},"index":0{close}],"usage":{usage},"model":"m"{close}"#
            ),
            format!(
                r#"{open}"data":[{open}"embedding":{numbers},"index":0,"object":"embedding"{close}],"model":"m","object":"list","usage":{usage}{close}"#
            ),
            format!(
                r#"{open}"data":[{open}"embedding":{numbers}{close}],"model":"m","usage":{usage}{close}"#
            ),
        ] {
            assert!(
                crate::adapters::openai::quick::document::<super::OpenAiEmbeddings<'_>>(&body).is_some(),
                "{body}"
            );
            let document = Bytes::from(body.clone().into_bytes());
            let reply = decode(&document, 1).unwrap();
            let place = NumbersInPlace::of(&document, &reply.vectors, EncodingFormat::Float).unwrap();
            let usage = reply.usage.unwrap();
            let anew = write_embeddings(&reply, EncodingFormat::Float, "m", &usage);
            drop(reply);
            let members = |answer: &[u8]| serde_json::from_slice::<serde_json::Value>(answer).unwrap();
            let written = place.write(document, "m", &usage);
            assert_eq!(members(&written), members(&anew), "{body}");
            assert!(written.windows(numbers.len()).any(|part| part == numbers.as_bytes()), "{body}");
        }
    }

    #[test]
    fn vectors_come_in_input_order_with_their_original_text() {
        let body = r#"{"object":"list","data":[
            {"object":"embedding","index":1,"embedding":[ 0.25, -1e-7 ]},
            {"object":"embedding","index":0,"embedding":[1,2]}],
            "model":"m","usage":{"prompt_tokens":4,"total_tokens":4}}"#;
        let reply = decode(body.as_bytes(), 2).unwrap();
        let texts: Vec<_> = reply
            .vectors
            .iter()
            .map(|vector| match vector {
                Vector::Json { text, len } => (*text, *len),
                Vector::Floats(_) | Vector::Packed(_) => panic!("text is kept"),
            })
            .collect();
        assert_eq!(texts, [("[1,2]", 2), ("[ 0.25, -1e-7 ]", 2)]);
        assert_eq!(reply.model.as_deref(), Some("m"));
        assert_eq!(
            reply.usage.map(|usage| (usage.prompt, usage.completion, usage.estimated)),
            Some((4, 0, false))
        );
    }

    #[test]
    fn positions_stand_in_for_missing_indices_and_base64_is_read() {
        let body = r#"{"data":[{"embedding":"AACAPwAAAEA="},{"embedding":"AAAAAAAAgL8="}]}"#;
        let reply = decode(body.as_bytes(), 2).unwrap();
        assert!(
            matches!(&reply.vectors[..], [Vector::Floats(a), Vector::Floats(b)] if a == &[1.0, 2.0] && b == &[0.0, -1.0])
        );
    }

    #[test]
    fn wrong_vectors_are_an_invalid_response() {
        for body in [
            r#"{"data":[{"index":0,"embedding":[1]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[null]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":["1"]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[[1]]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1e999]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":"AAA"}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":"AADAfw=="}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1}]}"#,
            r#"{"data":{}}"#,
            "{}",
            "[]",
            "null",
            "",
            "<html>",
        ] {
            assert_eq!(kind(body, 2), FailureKind::InvalidResponse, "{body}");
        }
        assert_eq!(kind(r#"{"error":{"message":"x","code":429}}"#, 1), FailureKind::RateLimited);
    }
}
