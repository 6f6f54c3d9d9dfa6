//! What comes back, as it is read: whole answers and the events of a stream, lenient in everything that may vary.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::adapters::annotations::{self, Annotations};
use crate::adapters::openai::lenient::{LenientNumber, LenientText, Member, TextOrJson, lenient_members};

/// A thing, or a list of such: in whole answers `content` and `tool_calls` are lists, in a stream one thing at a time.
#[derive(Debug)]
pub(super) enum OneOrMany<T> {
    /// In a stream.
    One(T),
    /// In a whole answer, and at the begin of a stream.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// Each of them.
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
    /// A whole answer. `message` is a text in errors.
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
        /// Which piece of content or which call it belongs to; there is one choice only.
        index: LenientNumber = "index",
        delta: CohereDelta<'de> = "delta",
        logprobs: &'de RawValue = "logprobs",
        /// Of errors.
        message: &'de RawValue = "message",
        /// Of errors.
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// What an event adds.
    CohereDelta<'de> {
        message: CohereMessage<'de> = "message",
        finish_reason: LenientText<'de> = "finish_reason",
        usage: CohereUsage<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// The assistant's message, or what is added to it.
    CohereMessage<'de> {
        content: OneOrMany<CohereContent<'de>> = "content",
        tool_plan: LenientText<'de> = "tool_plan",
        tool_calls: OneOrMany<CohereCall<'de>> = "tool_calls",
        citations: &'de RawValue = "citations",
    }
}

lenient_members! {
    /// Where a piece of the text comes from (docs.cohere.com/docs/rag-citations, November 2026). It is counted in characters.
    CohereCitation<'de> {
        /// `PLAN` and `THINKING_CONTENT` are about other words than the answer's.
        kind: LenientText<'de> = "type",
        start: LenientNumber = "start",
        end: LenientNumber = "end",
        text: LenientText<'de> = "text",
        sources: Vec<CohereSource<'de>> = "sources",
    }
}

lenient_members! {
    /// A document of the request, or what a tool gave.
    CohereSource<'de> {
        id: TextOrJson<'de> = "id",
        document: &'de RawValue = "document",
        tool_output: &'de RawValue = "tool_output",
    }
}

lenient_members! {
    /// What is said of a document; its members are the client's.
    CohereDocument<'de> {
        url: TextOrJson<'de> = "url",
        title: TextOrJson<'de> = "title",
        snippet: TextOrJson<'de> = "snippet",
        text: TextOrJson<'de> = "text",
    }
}

/// Adds the sources that `citations` tells of. What cannot be read never makes an answer fail.
pub(super) fn cite(citations: &RawValue, annotations: &mut Annotations) {
    let Ok(citations) = serde_json::from_str::<OneOrMany<CohereCitation<'_>>>(citations.get()) else {
        return;
    };
    citations.each(|citation| {
        if citation.kind.is_some_and(|kind| matches!(&*kind.0, "PLAN" | "THINKING_CONTENT")) {
            return;
        }
        let place = |number: Option<LenientNumber>| number.and_then(|number| number.0).map_or(0, u64::from);
        let (start, end) = (place(citation.start), place(citation.end));
        for source in citation.sources.unwrap_or_default() {
            let said = source.document.or(source.tool_output);
            let said: CohereDocument<'_> =
                said.and_then(|said| serde_json::from_str(said.get()).ok()).unwrap_or_default();
            let source = annotations::CitedSource {
                url: said.url.map(|url| url.0).unwrap_or_default(),
                title: said.title.map(|title| title.0).unwrap_or_default(),
                quoted: said.snippet.or(said.text).map(|text| text.0),
                id: source.id.map(|id| id.0),
            };
            annotations.add(&source, start, end);
        }
    });
}

lenient_members! {
    /// A piece of content: text or thinking.
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
    /// What is called, and with what.
    CohereFunction<'de> {
        name: LenientText<'de> = "name",
        arguments: TextOrJson<'de> = "arguments",
    }
}

lenient_members! {
    /// `tokens` are those that the model saw and wrote. `billed_units` leave out what Cohere puts into the prompt itself.
    CohereUsage<'de> {
        tokens: CohereTokens<'de> = "tokens",
        billed_units: CohereTokens<'de> = "billed_units",
        cached_tokens: &'de RawValue = "cached_tokens",
    }
}

lenient_members! {
    /// Counts, which Cohere writes as numbers with a fraction at times.
    CohereTokens<'de> {
        input_tokens: &'de RawValue = "input_tokens",
        output_tokens: &'de RawValue = "output_tokens",
    }
}
