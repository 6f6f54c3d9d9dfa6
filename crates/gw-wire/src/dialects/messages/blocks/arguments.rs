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
    /// An object, which is passed on piece by piece, and its text so far.
    Object(ObjectEnd, String),
    /// Another value. It is kept, because it becomes a member of an object.
    Other(String),
    /// The free text of a custom tool, which becomes a member of an object.
    Custom(String),
}

/// Finds the end of a JSON object in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectEnd {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    is_complete: bool,
}

impl ObjectEnd {
    /// Reads a piece; returns the bytes of it that belong to the object.
    fn read(&mut self, piece: &str) -> usize {
        for (at, byte) in piece.bytes().enumerate() {
            if self.is_complete {
                return at;
            }
            self.step(byte);
        }
        piece.len()
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

impl CallArguments {
    /// No arguments so far.
    pub(super) fn new(is_custom: bool) -> Self {
        Self { state: if is_custom { ArgumentState::Custom(String::new()) } else { ArgumentState::Empty } }
    }

    /// Takes a fragment and returns the part that can be written now. Text after the end of the object is dropped.
    pub(super) fn push<'f>(&mut self, fragment: &'f str) -> &'f str {
        let fragment = match &mut self.state {
            ArgumentState::Custom(text) | ArgumentState::Other(text) => {
                text.push_str(fragment);
                return "";
            }
            ArgumentState::Empty => fragment.trim_start(),
            ArgumentState::Object(..) => fragment,
        };
        if matches!(self.state, ArgumentState::Empty) {
            match fragment.as_bytes().first() {
                None => return "",
                Some(b'{') => self.state = ArgumentState::Object(ObjectEnd::default(), String::new()),
                Some(_) => {
                    self.state = ArgumentState::Other(fragment.to_owned());
                    return "";
                }
            }
        }
        match &mut self.state {
            ArgumentState::Object(end, text) => {
                let piece = fragment.get(..end.read(fragment)).unwrap_or_default();
                text.push_str(piece);
                piece
            }
            _ => "",
        }
    }

    /// Whether the arguments so far are written as JSON. An object is not while its end is missing.
    pub(super) fn is_json(&self) -> bool {
        let ArgumentState::Object(end, text) = &self.state else { return true };
        // A text of too many levels may be JSON.
        end.is_complete && !matches!(check(text), Err(ScanError::Syntax(_)))
    }

    /// Whether nothing can follow.
    pub(super) fn is_complete(&self) -> bool {
        matches!(&self.state, ArgumentState::Object(end, _) if end.is_complete)
    }

    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.state {
            ArgumentState::Custom(text) | ArgumentState::Other(text) | ArgumentState::Object(_, text) => {
                text.capacity()
            }
            ArgumentState::Empty => 0,
        }
    }

    /// Ends the arguments; returns the text that is left to write.
    pub(super) fn end(self) -> String {
        match self.state {
            ArgumentState::Empty | ArgumentState::Object(..) => String::new(),
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
        assert_eq!(run(false, &[" ", " {\"a\":\"}\\\"", "\",\"b\":[{}]", "} x"]), r#"{"a":"}\"","b":[{}]}"#);
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
            (&["{\"city\":\"Oslo\"", "} x"], true),
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
    fn an_object_is_complete_at_its_last_brace() {
        let mut arguments = CallArguments::new(false);
        for (piece, is_complete) in [("{\"a\":{", false), ("}", false), ("}", true)] {
            arguments.push(piece);
            assert_eq!(arguments.is_complete(), is_complete, "{piece}");
        }
    }
}
