//! The arguments of one call, which the Messages API requires to be a JSON object.

use std::borrow::Cow;

use crate::conversation::PastToolCall;
use crate::json::{ObjectWriter, ScanError, check};

/// The arguments of a call while they arrive.
#[derive(Clone, Debug)]
pub(super) struct CallArguments {
    state: ArgumentState,
}

#[derive(Clone, Debug)]
enum ArgumentState {
    /// Only white space has arrived.
    Empty,
    /// The brace of an object that may be empty, and white space.
    Brace(String),
    /// An empty object, and the text behind it.
    EmptyObject(BehindEmpty),
    /// An object, which is passed on piece by piece, and its text so far.
    Object(ObjectEnd, String),
    /// Another value. It is kept, because it becomes a member of an object.
    Other(String),
    /// The free text of a custom tool, which becomes a member of an object.
    Custom(String),
}

/// Finds the end of a JSON object in pieces, and text behind it.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectEnd {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    is_complete: bool,
    /// Text follows the object.
    has_more: bool,
}

impl ObjectEnd {
    /// Reads a piece; returns its part that belongs to the object.
    fn read<'p>(&mut self, piece: &'p str) -> &'p str {
        let mut end = piece.len();
        for (at, byte) in piece.bytes().enumerate() {
            if self.is_complete {
                end = at;
                break;
            }
            self.step(byte);
        }
        let (object, more) = piece.split_at_checked(end).unwrap_or((piece, ""));
        self.has_more |= !more.trim().is_empty();
        object
    }

    /// Whether the text that was read is one object, which is JSON unless `text`, the same text, shows a fault.
    fn is_json(self, text: &str) -> bool {
        // A text of too many levels may be JSON.
        self.is_complete && !self.has_more && !matches!(check(text), Err(ScanError::Syntax(_)))
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_complete = self.depth == 0;
            }
            _ => {}
        }
    }
}

/// An empty object and the text behind it. Some servers begin a call with `{}` and send its arguments after that
/// (vllm-project/vllm#34887), so the text waits for the end of the call.
#[derive(Clone, Debug)]
struct BehindEmpty {
    /// The object and the text behind it.
    text: String,
    /// The end of the object.
    object: usize,
    behind: Behind,
}

/// The text behind an empty object.
#[derive(Clone, Copy, Debug)]
enum Behind {
    Nothing,
    Object(ObjectEnd),
    Other,
}

impl BehindEmpty {
    /// Reads a text whose first two characters that count are an empty object; None = another text.
    fn of(text: &str) -> Option<Self> {
        let inside = text.strip_prefix('{')?.trim_start();
        let behind = inside.strip_prefix('}')?;
        let object = text.len() - behind.len();
        let mut found = Self { text: text.to_owned(), object, behind: Behind::Nothing };
        found.read(behind);
        Some(found)
    }

    fn push(&mut self, fragment: &str) {
        self.text.push_str(fragment);
        self.read(fragment);
    }

    fn read(&mut self, fragment: &str) {
        if matches!(self.behind, Behind::Nothing) {
            self.behind = match fragment.trim_start().as_bytes().first() {
                None => return,
                Some(b'{') => Behind::Object(ObjectEnd::default()),
                Some(_) => Behind::Other,
            };
        }
        if let Behind::Object(end) = &mut self.behind {
            end.read(fragment);
        }
    }

    fn is_json(&self) -> bool {
        match self.behind {
            // Other text becomes a member of an object.
            Behind::Nothing | Behind::Other => true,
            Behind::Object(end) => end.is_json(self.behind_object()),
        }
    }

    fn is_complete(&self) -> bool {
        match self.behind {
            Behind::Nothing => true,
            Behind::Object(end) => end.is_complete,
            Behind::Other => false,
        }
    }

    fn behind_object(&self) -> &str {
        self.text.get(self.object..).unwrap_or_default().trim()
    }

    /// The arguments: the object behind the empty one, if there is one and no other text. A fault in it stays to be seen.
    fn end(self) -> String {
        match self.behind {
            Behind::Nothing => "{}".to_owned(),
            Behind::Object(_) if self.is_json() => self.behind_object().to_owned(),
            Behind::Object(_) => self.text,
            Behind::Other => input_object(&self.text).into_owned(),
        }
    }
}

impl CallArguments {
    /// No arguments so far.
    pub(super) fn new(is_custom: bool) -> Self {
        Self { state: if is_custom { ArgumentState::Custom(String::new()) } else { ArgumentState::Empty } }
    }

    /// Takes a fragment and returns the part that can be written now. Text behind the object is written, too: the arguments are no
    /// JSON then.
    pub(super) fn push<'f>(&mut self, fragment: &'f str) -> Cow<'f, str> {
        match &mut self.state {
            ArgumentState::Custom(text) | ArgumentState::Other(text) => text.push_str(fragment),
            ArgumentState::EmptyObject(object) => object.push(fragment),
            ArgumentState::Empty => {
                let fragment = fragment.trim_start();
                match fragment.as_bytes().first() {
                    None => {}
                    Some(b'{') => return self.begin(Cow::Borrowed(fragment)),
                    Some(_) => self.state = ArgumentState::Other(fragment.to_owned()),
                }
            }
            ArgumentState::Brace(text) => {
                let text = std::mem::take(text) + fragment;
                return self.begin(Cow::Owned(text));
            }
            ArgumentState::Object(end, text) => {
                let piece = end.read(fragment);
                let piece = if end.has_more { fragment } else { piece };
                text.push_str(piece);
                return Cow::Borrowed(piece);
            }
        }
        Cow::Borrowed("")
    }

    /// Begins an object with the text so far. The text waits while the object may be empty.
    fn begin<'f>(&mut self, text: Cow<'f, str>) -> Cow<'f, str> {
        let is_brace = text.get(1..).is_none_or(|inside| inside.trim_start().is_empty());
        if is_brace {
            self.state = ArgumentState::Brace(text.into_owned());
            return Cow::Borrowed("");
        }
        if let Some(object) = BehindEmpty::of(&text) {
            self.state = ArgumentState::EmptyObject(object);
            return Cow::Borrowed("");
        }
        let mut end = ObjectEnd::default();
        let object = end.read(&text).len();
        let piece = match text {
            text if end.has_more => text,
            Cow::Borrowed(text) => Cow::Borrowed(text.get(..object).unwrap_or(text)),
            Cow::Owned(mut text) => {
                text.truncate(object);
                Cow::Owned(text)
            }
        };
        self.state = ArgumentState::Object(end, piece.clone().into_owned());
        piece
    }

    /// Whether the arguments so far are written as JSON. An object is not while its end is missing.
    pub(super) fn is_json(&self) -> bool {
        match &self.state {
            ArgumentState::Brace(_) => false,
            ArgumentState::EmptyObject(object) => object.is_json(),
            ArgumentState::Object(end, text) => end.is_json(text),
            ArgumentState::Empty | ArgumentState::Other(_) | ArgumentState::Custom(_) => true,
        }
    }

    /// Whether the call may end here. An empty object can still be followed by the arguments.
    pub(super) fn is_complete(&self) -> bool {
        match &self.state {
            ArgumentState::EmptyObject(object) => object.is_complete(),
            ArgumentState::Object(end, _) => end.is_complete,
            _ => false,
        }
    }

    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.state {
            ArgumentState::Custom(text)
            | ArgumentState::Other(text)
            | ArgumentState::Brace(text)
            | ArgumentState::Object(_, text) => text.capacity(),
            ArgumentState::EmptyObject(object) => object.text.capacity(),
            ArgumentState::Empty => 0,
        }
    }

    /// Ends the arguments; returns the text that is left to write.
    pub(super) fn end(self) -> String {
        match self.state {
            ArgumentState::Empty | ArgumentState::Object(..) => String::new(),
            ArgumentState::Brace(text) => text,
            ArgumentState::EmptyObject(object) => object.end(),
            ArgumentState::Other(text) => input_object(&text).into_owned(),
            ArgumentState::Custom(text) => {
                let mut out = Vec::with_capacity(text.len() + 16);
                let mut object = ObjectWriter::begin(&mut out);
                object.string(crate::conversation::CUSTOM_INPUT, &text);
                object.finish();
                String::from_utf8(out).unwrap_or_default()
            }
        }
    }
}

/// Arguments as a JSON object. Text that is none becomes the member `input` of an object.
pub(in crate::dialects) fn input_object(arguments: &str) -> Cow<'_, str> {
    let call =
        PastToolCall { id: Cow::Borrowed(""), name: Cow::Borrowed(""), arguments: Cow::Borrowed(arguments) };
    Cow::Owned(call.arguments_object().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(is_custom: bool, pieces: &[&str]) -> String {
        let mut arguments = CallArguments::new(is_custom);
        let mut out: String = pieces.iter().map(|piece| arguments.push(piece)).collect();
        out.push_str(&arguments.end());
        out
    }

    #[test]
    fn arguments_become_an_object() {
        assert_eq!(run(false, &[" ", " {\"a\":\"}\\\"", "\",\"b\":[{}]", "} "]), r#"{"a":"}\"","b":[{}]}"#);
        assert_eq!(run(false, &["{\"a\":1", "} x"]), r#"{"a":1} x"#);
        assert_eq!(run(false, &["", "  "]), "");
        assert_eq!(run(false, &["[1", ",2]"]), r#"{"input":[1,2]}"#);
        assert_eq!(run(false, &["null"]), "{}");
        assert_eq!(run(false, &["oh ", "no"]), r#"{"input":"oh no"}"#);
        assert_eq!(run(true, &["{}", "\n"]), r#"{"input":"{}\n"}"#);
    }

    #[test]
    fn arguments_that_are_written_as_they_come_must_be_json() {
        let is_json = |is_custom, pieces: &[&str]| {
            let mut arguments = CallArguments::new(is_custom);
            pieces.iter().for_each(|piece| {
                arguments.push(piece);
            });
            arguments.is_json()
        };
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(300), "]".repeat(300));
        for (pieces, expected) in [
            (&["{\"city\":", "\"Os"][..], false),
            (&["{\"city\":\"Oslo\"", "} "], true),
            (&["{\"city\":\"Oslo\"", "} x"], false),
            (&["{\"city\":\"Oslo\"", "}", " ", "x"], false),
            (&["{"], false),
            (&["{", "}"], true),
            (&["{}", "{\"a\":"], false),
            (&["{}", "{\"a\":", "1}"], true),
            (&["{}{\"a\":1}", "{}"], false),
            (&["{}", " and more"], true),
            (&["{city: Oslo}"], false),
            (&["{\"a\":1,}"], false),
            (&[deep.as_str()], true),
            (&["[1"], true),
            (&[], true),
        ] {
            assert_eq!(is_json(false, pieces), expected, "{pieces:?}");
        }
        assert!(is_json(true, &["{"]));
    }

    #[test]
    fn the_object_behind_an_empty_one_is_the_arguments() {
        for (text, expected) in [
            ("{}", "{}"),
            ("{ }", "{}"),
            ("{}{}", "{}"),
            (r#"{}{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#),
            ("{ } \n {\"a\":1} ", r#"{"a":1}"#),
            (r#"{}{"a":1}x"#, r#"{}{"a":1}x"#),
            (r#"{}{"a":1,}"#, r#"{}{"a":1,}"#),
            ("{} x", r#"{"input":"{} x"}"#),
            ("{", "{"),
        ] {
            assert_eq!(run(false, &[text]), expected, "{text}");
            let pieces: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(run(false, &pieces), expected, "{text} in pieces");
        }
    }

    #[test]
    fn an_object_is_complete_at_its_last_brace() {
        let mut arguments = CallArguments::new(false);
        for (piece, is_complete) in [("{\"a\":{", false), ("}", false), ("}", true)] {
            arguments.push(piece);
            assert_eq!(arguments.is_complete(), is_complete, "{piece}");
        }
    }
}
