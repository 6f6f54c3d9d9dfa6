//! Lenient JSON values for upstreams of OpenAI's dialect: strings that may be numbers, text that may be a list of
//! parts, broken escapes, repeated members.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::adapters::annotations::characters;
use crate::adapters::text::repaired;

/// A JSON string. A lone surrogate becomes U+FFFD instead of an error. Borrowed unless it holds an escape.
#[derive(Debug, Default)]
pub(in crate::adapters) struct LenientText<'a>(pub(in crate::adapters) Cow<'a, str>);

/// The text of a message: a string, or the joined texts of a list of parts. The other fields hold its `thinking` parts
/// (Mistral's reasoning models) and its `reference` parts.
#[derive(Debug, Default)]
pub(in crate::adapters) struct LenientContent<'a>(
    pub(in crate::adapters) Cow<'a, str>,
    pub(in crate::adapters) Option<Box<Thoughts>>,
    pub(in crate::adapters) Option<Box<[Reference]>>,
);

/// The text of all `thinking` parts, and the length of every part in order. True marks a `thinking` part.
#[derive(Debug, Default)]
pub(in crate::adapters) struct Thoughts {
    pub(in crate::adapters) text: String,
    pub(in crate::adapters) parts: Vec<(bool, usize)>,
}

/// A position in a text, in characters, and the id of a source for it (docs.mistral.ai, "Citations and References":
/// `{"type": "reference", "reference_ids": [0, 1]}`, November 2026).
#[derive(Debug, PartialEq, Eq)]
pub(in crate::adapters) struct Reference {
    pub(in crate::adapters) at: u64,
    pub(in crate::adapters) id: Box<str>,
}

/// A string, or the JSON text of another value: ids that are numbers, arguments that are objects.
#[derive(Debug, Default)]
pub(in crate::adapters) struct TextOrJson<'a>(pub(in crate::adapters) Cow<'a, str>);

/// A small count; None for any other value (negative, a fraction, a word).
#[derive(Clone, Copy, Debug)]
pub(in crate::adapters) struct LenientNumber(pub(in crate::adapters) Option<u32>);

/// The JSON text of a value.
#[derive(Clone, Copy, Debug)]
pub(in crate::adapters) struct RawText<'a>(pub(in crate::adapters) &'a str);

struct TextVisitor;
struct ContentVisitor;
struct NumberVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(std::str::from_utf8(bytes).map_or_else(|_| Cow::Owned(repaired(bytes)), Cow::Borrowed))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(std::str::from_utf8(bytes).map_or_else(|_| repaired(bytes), str::to_owned)))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for LenientText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json accepts a lone surrogate only when it reads bytes.
        deserializer.deserialize_bytes(TextVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = LenientContent<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an array of parts")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        TextVisitor.visit_borrowed_bytes(bytes).map(|text| LenientContent(text, None, None))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        TextVisitor.visit_bytes(bytes).map(|text| LenientContent(text, None, None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let (mut joined, mut thoughts) = (Cow::Borrowed(""), Thoughts::default());
        // The characters before the last reference are counted once.
        let (mut references, mut counted, mut at) = (Vec::new(), 0, 0);
        while let Some(part) = parts.next_element::<&RawValue>()? {
            let piece =
                read_part(part).ok_or_else(|| A::Error::custom("a value that is not a content part"))?;
            match &piece {
                PartContent::Text(text) => thoughts.parts.push((false, text.len())),
                PartContent::Thought(thought) => thoughts.parts.push((true, thought.len())),
                PartContent::References(_) => {}
            }
            match piece {
                PartContent::Text(text) if joined.is_empty() => joined = text,
                PartContent::Text(text) => joined.to_mut().push_str(&text),
                PartContent::Thought(thought) => thoughts.text.push_str(&thought),
                PartContent::References(ids) => {
                    at += characters(joined.get(counted..).unwrap_or_default());
                    counted = joined.len();
                    references.extend(ids.into_iter().map(|id| Reference { at, id }));
                }
            }
        }
        let references = (!references.is_empty()).then(|| references.into_boxed_slice());
        Ok(LenientContent(joined, (!thoughts.text.is_empty()).then(|| Box::new(thoughts)), references))
    }
}

/// The content of one part.
enum PartContent<'a> {
    Text(Cow<'a, str>),
    Thought(Cow<'a, str>),
    References(Vec<Box<str>>),
}

/// Reads one content part. Unknown parts give an empty text; None when the value is not a part.
fn read_part(part: &RawValue) -> Option<PartContent<'_>> {
    match part.get().as_bytes().first() {
        Some(b'"') => {
            serde_json::from_str::<LenientText<'_>>(part.get()).ok().map(|text| PartContent::Text(text.0))
        }
        Some(b'{') => {
            let part: ContentPart<'_> = serde_json::from_str(part.get()).ok()?;
            let kind = part.kind.map_or(Cow::Borrowed("text"), |kind| kind.0);
            Some(match (&*kind, part.thinking) {
                ("text" | "output_text", _) => PartContent::Text(part.text.unwrap_or_default().0),
                // The value is a list of text parts, or the text itself.
                ("thinking", Some(thinking)) => {
                    let thought =
                        serde_json::from_str::<LenientContent<'_>>(thinking.get()).unwrap_or_default();
                    PartContent::Thought(thought.0)
                }
                ("reference", _) => {
                    let ids: Vec<&RawValue> = part
                        .reference_ids
                        .and_then(|ids| serde_json::from_str(ids.get()).ok())
                        .unwrap_or_default();
                    PartContent::References(
                        ids.into_iter().map(|id| id.get().trim_matches('"').into()).collect(),
                    )
                }
                _ => PartContent::Text(Cow::Borrowed("")),
            })
        }
        _ => None,
    }
}

impl<'de> Deserialize<'de> for LenientContent<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(ContentVisitor)
    }
}

impl<'de> Deserialize<'de> for TextOrJson<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw.starts_with('"') {
            return serde_json::from_str(raw)
                .map(|text: LenientText<'de>| Self(text.0))
                .map_err(D::Error::custom);
        }
        Ok(Self(Cow::Borrowed(raw)))
    }
}

impl<'de> Deserialize<'de> for RawText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(<&RawValue>::deserialize(deserializer)?.get()))
    }
}

impl Visitor<'_> for NumberVisitor {
    type Value = LenientNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<LenientNumber, E> {
        Ok(LenientNumber(u32::try_from(value).ok()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<LenientNumber, E> {
        Ok(LenientNumber(u32::try_from(value).ok()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<LenientNumber, E> {
        Ok(LenientNumber(None))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LenientNumber, E> {
        Ok(LenientNumber(text.parse().ok()))
    }
}

impl<'de> Deserialize<'de> for LenientNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

/// A member that is read directly into its field. A struct of this dialect has some hundred bytes. Moving it at every
/// level would cost as much as reading it.
pub(in crate::adapters) trait Member<'de>: Sized {
    /// Reads a value that is not null.
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error>;
}

macro_rules! plain_member {
    ($($plain:ty,)+) => {
        $(impl<'de> Member<'de> for $plain {
            fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
                *place = Some(Self::deserialize(deserializer)?);
                Ok(())
            }
        })+
    };
}

plain_member! { LenientText<'de>, LenientContent<'de>, TextOrJson<'de>, LenientNumber, IgnoredAny, RawText<'de>, &'de RawValue, }

impl<'de, T: Deserialize<'de>> Member<'de> for Vec<T> {
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
        *place = Some(Self::deserialize(deserializer)?);
        Ok(())
    }
}

impl<'de, T: Deserialize<'de>> Member<'de> for Box<T> {
    fn read<D: Deserializer<'de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
        *place = Some(Self::deserialize(deserializer)?);
        Ok(())
    }
}

/// The field of a member. A null leaves it unchanged.
pub(in crate::adapters) struct MemberSlot<'p, T>(pub(in crate::adapters) &'p mut Option<T>);

impl<'de, T: Member<'de>> DeserializeSeed<'de> for MemberSlot<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: Member<'de>> Visitor<'de> for MemberSlot<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        T::read(self.0, deserializer)
    }
}

/// A member's name. It is compared as bytes, so the names in a stream are not checked for UTF-8.
pub(in crate::adapters) struct Name<'a>(pub(in crate::adapters) Cow<'a, [u8]>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(bytes.to_vec())))
            }
        }

        deserializer.deserialize_bytes(NameVisitor)
    }
}

impl<'a> Name<'a> {
    /// The name as text.
    pub(in crate::adapters) fn text(self) -> Cow<'a, str> {
        match self.0 {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(repaired(&bytes)),
        }
    }
}

/// Defines a struct of optional members of a JSON object. Null means absent. Unknown members are skipped, or kept with
/// `+ extras`. Of a repeated member the last one counts, which serde's derive would refuse.
macro_rules! lenient_members {
    (@other $map:ident $name:ident $found:ident) => {
        $map.next_value::<serde::de::IgnoredAny>()?
    };
    (@other $map:ident $name:ident $found:ident $extras:ident) => {
        if let Some(value) = $map.next_value::<Option<&serde_json::value::RawValue>>()? {
            $found.$extras.push(($name.text(), value));
        }
    };
    ($(#[$meta:meta])* $object:ident<$de:lifetime> $(+ $extras:ident)? { $($(#[$about:meta])* $field:ident: $kind:ty = $member:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(super) struct $object<$de> {
            $($(#[$about])* pub(super) $field: Option<$kind>,)+
            $(pub(super) $extras: Vec<(std::borrow::Cow<$de, str>, &$de serde_json::value::RawValue)>,)?
        }

        const _: () = {
            use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
            use $crate::adapters::openai::lenient::{Member, Name, MemberSlot};

            struct Members<'m, $de>(&'m mut $object<$de>);

            impl<$de> Visitor<$de> for Members<'_, $de> {
                type Value = ();

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<$de>>(self, mut map: A) -> Result<(), A::Error> {
                    let found = self.0;
                    while let Some(name) = map.next_key::<Name<$de>>()? {
                        $(if *name.0 == *$member.as_bytes() {
                            map.next_value_seed(MemberSlot(&mut found.$field))?;
                            continue;
                        })+
                        $crate::adapters::openai::lenient::lenient_members!(@other map name found $($extras)?);
                    }
                    Ok(())
                }
            }

            impl<$de> Member<$de> for $object<$de> {
                fn read<D: Deserializer<$de>>(place: &mut Option<Self>, deserializer: D) -> Result<(), D::Error> {
                    deserializer.deserialize_map(Members(place.insert(Self::default())))
                }
            }

            impl<$de> Deserialize<$de> for $object<$de> {
                fn deserialize<D: Deserializer<$de>>(deserializer: D) -> Result<Self, D::Error> {
                    let mut found = Self::default();
                    deserializer.deserialize_map(Members(&mut found))?;
                    Ok(found)
                }
            }
        };
    };
}
pub(in crate::adapters) use lenient_members;

/// Like `lenient_members!`, and also readable by [`super::quick`].
macro_rules! members {
    ($(#[$meta:meta])* $object:ident<$de:lifetime> $(+ $extras:ident)? { $($(#[$about:meta])* $field:ident: $kind:ty = $member:literal,)+ }) => {
        $crate::adapters::openai::lenient::lenient_members! {
            $(#[$meta])* $object<$de> $(+ $extras)? { $($(#[$about])* $field: $kind = $member,)+ }
        }
        $crate::adapters::openai::quick::quick_members! { $object<$de> $(+ $extras)? { $($field = $member,)+ } }
    };
}
pub(super) use members;

members! {
    /// One part of a list of content parts.
    ContentPart<'de> {
        kind: LenientText<'de> = "type",
        text: LenientText<'de> = "text",
        thinking: &'de RawValue = "thinking",
        reference_ids: &'de RawValue = "reference_ids",
    }
}

#[cfg(test)]
mod tests {
    use super::{LenientContent, LenientNumber, LenientText, TextOrJson};

    #[test]
    fn u25_a_lone_surrogate_escape_becomes_the_replacement_character() {
        let text = |json: &str| serde_json::from_str::<LenientText<'_>>(json).unwrap().0.into_owned();
        assert_eq!(text(r#""a\ud83db""#), "a\u{fffd}b");
        assert_eq!(text(r#""\udc00\ud83d\ude00\ud800""#), "\u{fffd}\u{1f600}\u{fffd}");
        assert_eq!(text(r#""\u0000\n\u2028""#), "\0\n\u{2028}");
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        let json = "\"漢字\"";
        let text: LenientText<'_> = serde_json::from_str(json).unwrap();
        assert!(matches!(text.0, std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn content_may_be_parts() {
        let content = |json: &str| {
            serde_json::from_str::<LenientContent<'_>>(json).map(|content| content.0.into_owned())
        };
        assert_eq!(content(r#""a""#).unwrap(), "a");
        assert_eq!(content("[]").unwrap(), "");
        let parts = r#"[{"type":"text","text":"a"},{"type":"thinking","text":"no"},{"text":"b"},"c",{"type":"text"}]"#;
        assert_eq!(content(parts).unwrap(), "abc");
        let thinking = r#"[{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"m"}],"closed":true},{"type":"text","text":"a"},{"type":"thinking","thinking":"!"}]"#;
        let read: LenientContent<'_> = serde_json::from_str(thinking).unwrap();
        assert_eq!((&*read.0, read.1.as_ref().map(|thoughts| &*thoughts.text)), ("a", Some("hm!")));
        assert!(content("5").is_err() && content("{}").is_err() && content("[5]").is_err());
    }

    #[test]
    fn values_of_other_kinds_keep_their_text() {
        let loose = |json: &str| serde_json::from_str::<TextOrJson<'_>>(json).unwrap().0.into_owned();
        assert_eq!(loose(r#""a\"b""#), "a\"b");
        assert_eq!(loose(r#"{"a": 1}"#), r#"{"a": 1}"#);
        assert_eq!(loose("17"), "17");
        for (json, number) in
            [("3", Some(3)), ("-1", None), ("\"4\"", Some(4)), ("1.5", None), ("99999999999", None)]
        {
            assert_eq!(serde_json::from_str::<LenientNumber>(json).unwrap().0, number, "{json}");
        }
    }
}
