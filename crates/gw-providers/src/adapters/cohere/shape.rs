//! What comes back, as it is read: whole answers and the events of a stream, lenient in everything that may vary.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

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
    }
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
