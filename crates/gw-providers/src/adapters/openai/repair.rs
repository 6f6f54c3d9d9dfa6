//! JSON with Python's bare `NaN` and `Infinity` in place of numbers.

/// The text with `null` for bare `NaN`, `Infinity` and `-Infinity`; None when it has none of them.
///
/// The input did not parse, and the result is parsed again, so this function need not check the JSON.
pub(super) fn without_bare_words(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    let mut in_string = false;
    while let Some(at) = rest.find(['"', '\\', 'N', 'I', '-']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let bare =
            ["NaN", "Infinity", "-Infinity"].iter().find(|word| !in_string && from.starts_with(**word));
        let width = match (bare, from.as_bytes().first()) {
            (Some(word), _) => {
                out.push_str("null");
                found = true;
                rest = from.get(word.len()..).unwrap_or_default();
                continue;
            }
            // The escaped character is copied too, because it may be a quote.
            (None, Some(b'\\')) => 1 + from.chars().nth(1).map_or(0, char::len_utf8),
            (None, first) => {
                in_string ^= first == Some(&b'"');
                1
            }
        };
        let (kept, after) = from.split_at(width.min(from.len()));
        out.push_str(kept);
        rest = after;
    }
    out.push_str(rest);
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::without_bare_words as repaired;

    #[test]
    fn bare_nan_and_infinity_become_null() {
        let text = r#"{"a":NaN,"b":[-Infinity,Infinity,-1],"c":"NaN \" Infinity","\\":NaN}"#;
        let fixed = r#"{"a":null,"b":[null,null,-1],"c":"NaN \" Infinity","\\":null}"#;
        assert_eq!(repaired(text).as_deref(), Some(fixed));
        assert_eq!(repaired(r#"{"a":"NaN"}"#), None);
        assert_eq!(repaired("\"\\"), None);
    }
}
