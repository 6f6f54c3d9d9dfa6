//! The cells of CSV reports.

/// A cell of text, quoted as RFC 4180 says. A text that begins like a formula gets an apostrophe in front, because a
/// spreadsheet would run the formula.
pub(crate) fn csv_cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guarded = if is_formula { format!("'{text}") } else { text.to_owned() };
    if guarded.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", guarded.replace('"', "\"\""))
    } else {
        guarded
    }
}

#[cfg(test)]
mod tests {
    use super::csv_cell;

    #[test]
    fn cells_are_quoted_and_formulas_are_text() {
        for (text, written) in [
            ("acme/fast", "acme/fast"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\nb", "\"a\nb\""),
            ("=1+1", "'=1+1"),
            ("+x", "'+x"),
            ("-x", "'-x"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("=HYPERLINK(\"x\",1)", "\"'=HYPERLINK(\"\"x\"\",1)\""),
            ("\tx", "'\tx"),
        ] {
            assert_eq!(csv_cell(text), written, "{text}");
        }
    }
}
