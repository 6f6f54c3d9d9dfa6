//! Decodes query strings, and makes the errors of their parameters.

use std::borrow::Cow;

use gw_wire::hex;

use crate::error::{Error, Kind};

/// A decoded query string.
#[derive(Clone, Debug)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d` with percent escapes and `+`. Text that is no escape stays as it is, so there are no bad
    /// queries.
    #[must_use]
    pub fn parse(query: &str) -> Self {
        let pairs = query.strip_prefix('?').unwrap_or(query).split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// All values of a parameter.
    fn values<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The last value of a parameter.
    #[must_use]
    pub fn last<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.values(name).next_back().map(str::trim)
    }

    /// The first parameter with another name.
    #[must_use]
    pub fn unknown(&self, known: &[&str]) -> Option<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !known.contains(name))
    }

    /// The comma-separated items of a parameter and its repetitions, trimmed and without empty ones.
    #[must_use]
    pub fn items<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        self.values(name)
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .collect()
    }

    /// A whole number of at least `least`. A number beyond the machine's range becomes its largest one.
    ///
    /// # Errors
    /// `invalid_type` for anything but a whole number, `integer_below_min_value` below `least`.
    pub fn whole(&self, name: &'static str, least: usize) -> Result<Option<usize>, Error> {
        let Some(text) = self.last(name) else { return Ok(None) };
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let message =
                format!("Invalid type for '{name}': expected an integer, but got '{}' instead.", shown(text));
            return Err(invalid("invalid_type", message));
        }
        let value = digits.parse().unwrap_or(usize::MAX);
        if value < least || (negative && value > 0) {
            let got = shown(text);
            let message = format!(
                "Invalid '{name}': integer below minimum value. Expected a value >= {least}, but got {got} instead."
            );
            return Err(invalid("integer_below_min_value", message));
        }
        Ok(Some(value))
    }
}

/// A fault of the request.
pub fn invalid(code: &'static str, message: impl Into<Cow<'static, str>>) -> Error {
    Error { code: Some(Cow::Borrowed(code)), ..Error::new(Kind::Invalid, message) }
}

/// The beginning of a client's text, short enough for a message.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

const MAX_SHOWN_CHARS: usize = 200;

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, end @ ..]) => match (hex::digit(*high), hex::digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = end;
                    high << 4 | low
                }
                _ => b'%',
            },
            _ => *first,
        });
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_junk_is_kept() {
        for (text, decoded) in [
            ("a+b%20c", "a b c"),
            ("a%2Fb%2fc", "a/b/c"),
            ("%252F", "%2F"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%ff", "\u{fffd}"),
            ("%E2%82%AC€", "€€"),
            ("%00", "\0"),
        ] {
            assert_eq!(decode(text), decoded, "{text}");
        }
    }

    #[test]
    fn repetitions_join_in_lists_and_the_last_counts_elsewhere() {
        let query = Query::parse("?m=a%2Cb&x=1&m=+c+,,&x=2&flag&=&&");
        assert_eq!(query.items("m"), ["a", "b", "c"]);
        assert_eq!(query.last("x"), Some("2"));
        assert_eq!(query.last("flag"), Some(""));
        assert_eq!(query.last("y"), None);
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        for (text, outcome) in [
            ("n=5", Ok(Some(5))),
            ("n=%205", Ok(Some(5))),
            ("m=5", Ok(None)),
            ("n=99999999999999999999999", Ok(Some(usize::MAX))),
            ("n=0", Err("integer_below_min_value")),
            ("n=-7", Err("integer_below_min_value")),
            ("n=", Err("invalid_type")),
            ("n=1.5", Err("invalid_type")),
            ("n=1e3", Err("invalid_type")),
            ("n=%2B5", Err("invalid_type")),
            ("n=null", Err("invalid_type")),
            ("n=٣", Err("invalid_type")),
        ] {
            let found = Query::parse(text).whole("n", 1);
            let found = found.as_ref().map(|value| *value).map_err(Error::code);
            assert_eq!(found, outcome, "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(shown(&"é".repeat(5000)).chars().count(), MAX_SHOWN_CHARS + 1);
    }
}
