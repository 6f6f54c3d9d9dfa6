//! Calls of custom tools. Other dialects make them as calls of a function with one parameter, whose text is the input.

use gw_wire::conversation::CUSTOM_INPUT;
use gw_wire::json::{View, check};

/// The most bytes of unexpected arguments that are held until the input is known.
const MAX_HELD_BYTES: usize = 1 << 20;

/// The longest beginning of arguments, before the text of the input.
const MAX_BEGIN_BYTES: usize = 256;

/// The input of a call with these arguments.
pub(super) fn input(arguments: &str) -> String {
    let mut input = CustomInput::default();
    let text = input.push(arguments);
    text + &input.end()
}

/// The input of arguments with an unexpected beginning. Arguments that are not an object with an input are the input
/// themselves.
fn unexpected_input(arguments: &str) -> String {
    if !check(arguments).is_ok_and(|checked| checked.lone_surrogate.is_none()) {
        return arguments.to_owned();
    }
    let arguments = View::new(arguments);
    let [input] = arguments.pick([CUSTOM_INPUT]);
    match input {
        Some(input) => input.string().map_or_else(|| input.text().to_owned(), |text| text.into_owned()),
        None if matches!(arguments.text(), "{}" | "null") => String::new(),
        None => arguments.text().to_owned(),
    }
}

/// Reads the input of arguments that come in pieces, and passes it on at once.
#[derive(Debug, Default)]
pub(super) struct CustomInput {
    state: InputState,
    /// Arguments that were not passed on yet.
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum InputState {
    /// Before the text of the input.
    #[default]
    Begin,
    /// In the text of the input.
    Inside,
    /// After the text of the input.
    Over,
    /// The arguments have an unexpected form. They are read when they are complete.
    Odd,
    /// The arguments are too long to be held and are passed on as they are.
    Passed,
}

impl CustomInput {
    /// Bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Takes a piece and returns its part of the input.
    pub(super) fn push(&mut self, piece: &str) -> String {
        match self.state {
            InputState::Over => return String::new(),
            InputState::Passed => return piece.to_owned(),
            InputState::Begin | InputState::Inside | InputState::Odd => self.held.push_str(piece),
        }
        if self.state == InputState::Begin {
            match begin(&self.held) {
                InputBegin::At(at) => {
                    self.state = InputState::Inside;
                    self.held.drain(..at);
                }
                // Without this bound, endless blanks would be read again with each piece.
                InputBegin::Incomplete if self.held.len() > MAX_BEGIN_BYTES => self.state = InputState::Odd,
                InputBegin::Incomplete => {}
                InputBegin::Never => self.state = InputState::Odd,
            }
        }
        if self.state == InputState::Inside {
            return self.decode();
        }
        if self.held.len() > MAX_HELD_BYTES {
            self.state = InputState::Passed;
            return std::mem::take(&mut self.held);
        }
        String::new()
    }

    /// The rest of the input when the call is complete.
    pub(super) fn end(self) -> String {
        match self.state {
            InputState::Begin | InputState::Odd if self.held.trim().is_empty() => String::new(),
            InputState::Begin | InputState::Odd => unexpected_input(&self.held),
            InputState::Inside | InputState::Over | InputState::Passed => String::new(),
        }
    }

    /// Decodes the held text up to the closing quote or to an incomplete escape.
    fn decode(&mut self) -> String {
        let mut out = String::with_capacity(self.held.len());
        let mut unfinished = 0;
        let mut rest = self.held.as_str();
        while let Some(at) = rest.find(['"', '\\']) {
            let (plain, from) = rest.split_at(at);
            out.push_str(plain);
            if from.starts_with('"') {
                self.state = InputState::Over;
                rest = "";
                break;
            }
            let Some((letter, len)) = escape(from) else {
                unfinished = from.len();
                rest = "";
                break;
            };
            out.push(letter);
            rest = from.get(len..).unwrap_or_default();
        }
        out.push_str(rest);
        self.held.drain(..self.held.len().saturating_sub(unfinished));
        if self.held.capacity() > MAX_BEGIN_BYTES {
            // Only the beginning of an escape is left.
            self.held.shrink_to_fit();
        }
        out
    }
}

enum InputBegin {
    /// The text of the input begins here.
    At(usize),
    Incomplete,
    Never,
}

/// Finds the beginning of the input after `{"input":"`, with optional blanks.
fn begin(text: &str) -> InputBegin {
    let mut rest = text;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return InputBegin::Incomplete,
            None => return InputBegin::Never,
        }
    }
    InputBegin::At(text.len() - rest.len())
}

/// The character of an escape and the length of the escape; None when the escape is incomplete.
fn escape(text: &str) -> Option<(char, usize)> {
    // None: more digits may come. Some(None): the characters are not digits.
    let unit = |at: usize| {
        let digits: Vec<u8> = text.bytes().skip(at).take(4).collect();
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Some(None);
        }
        let number = || u32::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok();
        (digits.len() == 4).then(number)
    };
    let letter = match text.chars().nth(1)? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            // An invalid escape becomes U+FFFD, and the text continues after it.
            let Some(first) = unit(2)? else { return Some((char::REPLACEMENT_CHARACTER, 2)) };
            if !(0xd800..0xdc00).contains(&first) {
                return Some((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6));
            }
            // The second half of the pair follows, or the half is alone.
            let mark = text.get(6..).unwrap_or_default();
            if !mark.starts_with("\\u") {
                let is_cut = "\\u".starts_with(mark);
                return (!is_cut).then_some((char::REPLACEMENT_CHARACTER, 6));
            }
            let Some(second) = unit(8)?.filter(|second| (0xdc00..0xe000).contains(second)) else {
                return Some((char::REPLACEMENT_CHARACTER, 6));
            };
            let pair = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Some((char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER), 12));
        }
        other => other,
    };
    Some((letter, 1 + letter_len(text)))
}

/// Bytes of the character after the backslash.
fn letter_len(text: &str) -> usize {
    text.chars().nth(1).map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CustomInput, input};

    /// The input of arguments that come in pieces of `size` bytes, rounded up to a character.
    fn streamed(arguments: &str, size: usize) -> String {
        let (mut text, mut read) = (String::new(), CustomInput::default());
        let mut rest = arguments;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
            text.push_str(&read.push(piece));
            rest = after;
        }
        text + &read.end()
    }

    #[test]
    fn a_custom_tools_input_is_read_whole_and_in_pieces() {
        for (arguments, expected) in [
            (r#"{"input":"a \"b\" \n\u6771\ud83d\ude00/\/"}"#, "a \"b\" \n\u{6771}\u{1f600}//"),
            (r#" { "input" : "x" , "more": 1 } "#, "x"),
            (r#"{"input":""}"#, ""),
            ("{}", ""),
            ("", ""),
            (r#"{"other":"x","input":"y"}"#, "y"),
            (r#"{"other":"x"}"#, r#"{"other":"x"}"#),
            (r#"{"input":{"a":1}}"#, r#"{"a":1}"#),
            ("print(1)", "print(1)"),
            (r#""text""#, r#""text""#),
            // Half a pair before a letter, half a pair before a pair, and a lone second half.
            (r#"{"input":"\ud83d\u0041"}"#, "\u{fffd}A"),
            (r#"{"input":"\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
            (r#"{"input":"\ude00x"}"#, "\u{fffd}x"),
            // Characters that are not digits.
            (r#"{"input":"x\u12東 rest"}"#, "x\u{fffd}12東 rest"),
        ] {
            assert_eq!(input(arguments), expected, "{arguments}");
            for size in 1..=arguments.len().max(1) {
                assert_eq!(streamed(arguments, size), expected, "{arguments} by {size}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_round_trips_as_input(text in any::<String>(), size in 1..9usize) {
            let arguments = serde_json::json!({"input": text}).to_string();
            prop_assert_eq!(&input(&arguments), &text);
            prop_assert_eq!(&streamed(&arguments, size), &text);
        }

        #[test]
        fn reading_any_arguments_never_panics(arguments in r#"[{}":\\ud83a input]{0,24}"#, size in 1..5usize) {
            let _any = streamed(&arguments, size);
        }
    }
}
