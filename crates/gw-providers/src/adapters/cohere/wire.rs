//! The JSON of complete answers and stream events, read leniently.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::adapters::annotations::{self, Annotations};
use crate::adapters::openai::lenient::{LenientNumber, LenientText, Member, TextOrJson, lenient_members};

/// A value or a list of values. Complete answers have lists in `content` and `tool_calls`, stream events have one
/// value.
#[derive(Debug)]
pub(super) enum OneOrMany<T> {
    /// A single value, in a stream.
    One(T),
    /// A list, in a complete answer and at the beginning of a stream.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// Calls `take` with each value.
    pub(super) fn each(self, mut take: impl FnMut(T)) {
        match self {
            Self::One(piece) => take(piece),
            Self::Many(pieces) => pieces.into_iter().for_each(take),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pieces = Vec::new();
                while let Some(piece) = list.next_element()? {
                    pieces.push(piece);
                }
                Ok(OneOrMany::Many(pieces))
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Member<'de> for OneOrMany<T> {
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
        *place = Some(Self::deserialize(deserializer)?);
        Ok(())
    }
}

lenient_members! {
    /// A complete answer. In errors `message` is a text.
    CohereReply<'de> {
        message: &'de RawValue = "message",
        error: &'de RawValue = "error",
        finish_reason: LenientText<'de> = "finish_reason",
        usage: CohereUsage<'de> = "usage",
        logprobs: &'de RawValue = "logprobs",
    }
}

lenient_members! {
    /// One event of a stream.
    CohereEvent<'de> {
        kind: LenientText<'de> = "type",
        /// The index of the content item or of the call. There is only one choice.
        index: LenientNumber = "index",
        delta: CohereDelta<'de> = "delta",
        logprobs: &'de RawValue = "logprobs",
        /// In errors.
        message: &'de RawValue = "message",
        /// In errors.
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// The new part of an event.
    CohereDelta<'de> {
        message: CohereMessage<'de> = "message",
        finish_reason: LenientText<'de> = "finish_reason",
        usage: CohereUsage<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// The assistant's message, or a part of it.
    CohereMessage<'de> {
        content: OneOrMany<CohereContent<'de>> = "content",
        tool_plan: LenientText<'de> = "tool_plan",
        tool_calls: OneOrMany<CohereCall<'de>> = "tool_calls",
        citations: &'de RawValue = "citations",
    }
}

lenient_members! {
    /// The source of a part of the text (docs.cohere.com/docs/rag-citations, November 2026). Positions count
    /// characters.
    CohereCitation<'de> {
        /// `PLAN` and `THINKING_CONTENT` do not refer to the answer's text.
        kind: LenientText<'de> = "type",
        start: LenientNumber = "start",
        end: LenientNumber = "end",
        text: LenientText<'de> = "text",
        sources: Vec<CohereSource<'de>> = "sources",
    }
}

lenient_members! {
    /// A document of the request, or the output of a tool.
    CohereSource<'de> {
        id: TextOrJson<'de> = "id",
        document: &'de RawValue = "document",
        tool_output: &'de RawValue = "tool_output",
    }
}

lenient_members! {
    /// The members of a document, which the client chose.
    CohereDocument<'de> {
        url: TextOrJson<'de> = "url",
        title: TextOrJson<'de> = "title",
        snippet: TextOrJson<'de> = "snippet",
        text: TextOrJson<'de> = "text",
    }
}

/// Adds the sources of `citations`. Unreadable citations never fail an answer. `shift` is the number of characters in
/// front of the cited text.
pub(super) fn add_citations(citations: &RawValue, shift: u64, annotations: &mut Annotations) {
    let Ok(citations) = serde_json::from_str::<OneOrMany<CohereCitation<'_>>>(citations.get()) else {
        return;
    };
    citations.each(|citation| {
        if citation.kind.is_some_and(|kind| matches!(&*kind.0, "PLAN" | "THINKING_CONTENT")) {
            return;
        }
        let place = |number: Option<LenientNumber>| {
            number.and_then(|number| number.0).map_or(0, u64::from).saturating_add(shift)
        };
        let (start, end) = (place(citation.start), place(citation.end));
        for source in citation.sources.unwrap_or_default() {
            let document = source.document.or(source.tool_output);
            let document: CohereDocument<'_> =
                document.and_then(|document| serde_json::from_str(document.get()).ok()).unwrap_or_default();
            let source = annotations::CitedSource {
                url: document.url.map(|url| url.0).unwrap_or_default(),
                title: document.title.map(|title| title.0).unwrap_or_default(),
                quoted: document.snippet.or(document.text).map(|text| text.0),
                id: source.id.map(|id| id.0),
            };
            annotations.add(&source, start, end);
        }
    });
}

lenient_members! {
    /// An item of content: text or reasoning.
    CohereContent<'de> {
        text: LenientText<'de> = "text",
        thinking: LenientText<'de> = "thinking",
    }
}

lenient_members! {
    /// A call.
    CohereCall<'de> {
        id: TextOrJson<'de> = "id",
        function: CohereFunction<'de> = "function",
    }
}

lenient_members! {
    /// The name and the arguments of a call.
    CohereFunction<'de> {
        name: LenientText<'de> = "name",
        arguments: TextOrJson<'de> = "arguments",
    }
}

lenient_members! {
    /// `tokens` counts all tokens of the model. `billed_units` leaves out the tokens that Cohere adds to the prompt.
    CohereUsage<'de> {
        tokens: CohereTokens<'de> = "tokens",
        billed_units: CohereTokens<'de> = "billed_units",
        cached_tokens: &'de RawValue = "cached_tokens",
    }
}

lenient_members! {
    /// Token counts, which Cohere sometimes writes with a fraction.
    CohereTokens<'de> {
        input_tokens: &'de RawValue = "input_tokens",
        output_tokens: &'de RawValue = "output_tokens",
    }
}
