//! What comes back, as it is read: whole answers and the events of a stream, lenient in everything that may vary.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::adapters::annotations::{self, Annotations};
use crate::adapters::openai::lenient::{Loose, Member, Number, Text, lenient_members};

/// A thing, or a list of such: in whole answers `content` and `tool_calls` are lists, in a stream one thing at a time.
#[derive(Debug)]
pub(super) enum Pieces<T> {
    /// In a stream.
    One(T),
    /// In a whole answer, and at the begin of a stream.
    Many(Vec<T>),
}

impl<T> Pieces<T> {
    /// Each of them.
    pub(super) fn each(self, mut take: impl FnMut(T)) {
        match self {
            Self::One(piece) => take(piece),
            Self::Many(pieces) => pieces.into_iter().for_each(take),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pieces<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Pieces<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Pieces::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pieces = Vec::new();
                while let Some(piece) = list.next_element()? {
                    pieces.push(piece);
                }
                Ok(Pieces::Many(pieces))
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Member<'de> for Pieces<T> {
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
        *place = Some(Self::deserialize(deserializer)?);
        Ok(())
    }
}

lenient_members! {
    /// A whole answer. `message` is a text in errors.
    Reply<'de> {
        message: &'de RawValue = "message",
        error: &'de RawValue = "error",
        finish_reason: Text<'de> = "finish_reason",
        usage: Usage<'de> = "usage",
        logprobs: &'de RawValue = "logprobs",
    }
}

lenient_members! {
    /// One event of a stream.
    Event<'de> {
        kind: Text<'de> = "type",
        /// Which piece of content or which call it belongs to; there is one choice only.
        index: Number = "index",
        delta: Delta<'de> = "delta",
        logprobs: &'de RawValue = "logprobs",
        /// Of errors.
        message: &'de RawValue = "message",
        /// Of errors.
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// What an event adds.
    Delta<'de> {
        message: Message<'de> = "message",
        finish_reason: Text<'de> = "finish_reason",
        usage: Usage<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// The assistant's message, or what is added to it.
    Message<'de> {
        content: Pieces<Content<'de>> = "content",
        tool_plan: Text<'de> = "tool_plan",
        tool_calls: Pieces<Call<'de>> = "tool_calls",
        citations: &'de RawValue = "citations",
    }
}

lenient_members! {
    /// Where a piece of the text comes from (docs.cohere.com/docs/rag-citations, November 2026). It is counted in characters.
    Citation<'de> {
        /// `PLAN` and `THINKING_CONTENT` are about other words than the answer's.
        kind: Text<'de> = "type",
        start: Number = "start",
        end: Number = "end",
        text: Text<'de> = "text",
        sources: Vec<Source<'de>> = "sources",
    }
}

lenient_members! {
    /// A document of the request, or what a tool gave.
    Source<'de> {
        id: Loose<'de> = "id",
        document: &'de RawValue = "document",
        tool_output: &'de RawValue = "tool_output",
    }
}

lenient_members! {
    /// What is said of a document; its members are the client's.
    Document<'de> {
        url: Loose<'de> = "url",
        title: Loose<'de> = "title",
        snippet: Loose<'de> = "snippet",
        text: Loose<'de> = "text",
    }
}

/// Adds the sources that `citations` tells of. What cannot be read never makes an answer fail.
pub(super) fn cite(citations: &RawValue, annotations: &mut Annotations) {
    let Ok(citations) = serde_json::from_str::<Pieces<Citation<'_>>>(citations.get()) else { return };
    citations.each(|citation| {
        if citation.kind.is_some_and(|kind| matches!(&*kind.0, "PLAN" | "THINKING_CONTENT")) {
            return;
        }
        let place = |number: Option<Number>| number.and_then(|number| number.0).map_or(0, u64::from);
        let (start, end) = (place(citation.start), place(citation.end));
        for source in citation.sources.unwrap_or_default() {
            let said = source.document.or(source.tool_output);
            let said: Document<'_> =
                said.and_then(|said| serde_json::from_str(said.get()).ok()).unwrap_or_default();
            let source = annotations::Source {
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
    Content<'de> {
        text: Text<'de> = "text",
        thinking: Text<'de> = "thinking",
    }
}

lenient_members! {
    /// A call.
    Call<'de> {
        id: Loose<'de> = "id",
        function: Function<'de> = "function",
    }
}

lenient_members! {
    /// What is called, and with what.
    Function<'de> {
        name: Text<'de> = "name",
        arguments: Loose<'de> = "arguments",
    }
}

lenient_members! {
    /// `tokens` are those that the model saw and wrote. `billed_units` leave out what Cohere puts into the prompt itself.
    Usage<'de> {
        tokens: Tokens<'de> = "tokens",
        billed_units: Tokens<'de> = "billed_units",
        cached_tokens: &'de RawValue = "cached_tokens",
    }
}

lenient_members! {
    /// Counts, which Cohere writes as numbers with a fraction at times.
    Tokens<'de> {
        input_tokens: &'de RawValue = "input_tokens",
        output_tokens: &'de RawValue = "output_tokens",
    }
}
