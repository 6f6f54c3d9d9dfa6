//! Writes the values of a line as JSON without a serialiser: every request writes two lines.

use gw_wire::json::is_plain;

/// The text of a line while it is written.
#[derive(Debug)]
pub(super) struct LineText(String);

impl LineText {
    /// An empty text with room for this many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// The number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends JSON text as it is.
    pub(super) fn raw(&mut self, json: &str) {
        self.0.push_str(json);
    }

    /// Appends one ASCII character.
    pub(super) fn character(&mut self, character: char) {
        self.0.push(character);
    }

    /// Appends a string.
    pub(super) fn text(&mut self, text: &str) {
        if !is_plain(text) {
            // Writing a text as JSON cannot fail.
            return self.0.push_str(&serde_json::to_string(text).unwrap_or_default());
        }
        self.0.reserve(text.len() + 3);
        self.0.push('"');
        self.0.push_str(text);
        self.0.push('"');
    }

    /// Appends a comma and a string.
    pub(super) fn next_text(&mut self, text: &str) {
        self.0.push(',');
        self.text(text);
    }

    /// Appends a comma and a string, or null.
    pub(super) fn next_text_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.next_text(text),
            None => self.0.push_str(",null"),
        }
    }

    /// Appends a comma and a number.
    pub(super) fn next_number(&mut self, number: impl itoa::Integer) {
        self.0.push(',');
        self.0.push_str(itoa::Buffer::new().format(number));
    }

    /// Appends a comma and an amount. Nearly all amounts fit into 64 bits, which are written in a fraction of the time.
    pub(super) fn next_amount(&mut self, amount: i128) {
        match i64::try_from(amount) {
            Ok(amount) => self.next_number(amount),
            Err(_) => self.next_number(amount),
        }
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::LineText;

    proptest! {
        #[test]
        fn a_text_is_written_as_by_a_serialiser(text in any::<String>(), number in any::<i64>(), amount in any::<i128>()) {
            let mut line = LineText::with_capacity(0);
            line.raw("[");
            line.text(&text);
            line.next_text(&text);
            line.next_text_or_null(Some(&text));
            line.next_text_or_null(None);
            line.next_number(number);
            line.next_amount(amount);
            line.next_amount(number.into());
            line.character(']');
            let json = line.into_text();
            let expected = (&text, &text, Some(&text), None::<&str>, number, amount, number);
            prop_assert_eq!(json, serde_json::to_string(&expected).unwrap());
        }
    }
}
