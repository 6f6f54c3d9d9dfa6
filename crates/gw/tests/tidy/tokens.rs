//! A small reader of Rust source: identifiers, punctuation and strings, without comments and test items.

/// A piece of source that is neither a comment, a number nor a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier or a keyword.
    Name(String),
    /// One character of punctuation; `::` is one token with the character `:`.
    Mark(char),
    /// `::`, the separator of paths.
    Path,
    /// A string literal with its quotes, with blanks in place of its escapes.
    Text(String),
}

impl Token {
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Mark(_) | Self::Path | Self::Text(_) => None,
        }
    }

    pub(super) fn is_name(&self, wanted: &str) -> bool {
        self.name() == Some(wanted)
    }

    pub(super) fn is_mark(&self, wanted: char) -> bool {
        *self == Self::Mark(wanted)
    }
}

/// The tokens of a file. Characters, numbers and lifetimes leave nothing behind.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &source[at..];
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest) {
            found.push(Token::Text(rest[..length].to_owned()));
            length
        } else if rest.starts_with('"') {
            let length = quoted(rest);
            found.push(Token::Text(without_escapes(&rest[..length])));
            length
        } else if rest.starts_with('\'') {
            character_or_lifetime(rest)
        } else if is_word(bytes[at]) {
            let length = rest.bytes().take_while(|byte| is_word(*byte)).count();
            let word = &rest[..length];
            // The prefix of a literal (b"…", c"…", b'…') is no name, and neither is a number.
            let is_prefix = matches!(word, "b" | "c") && rest[length..].starts_with(['"', '\'']);
            if !is_prefix && !word.starts_with(|first: char| first.is_ascii_digit()) {
                found.push(Token::Name(word.to_owned()));
            }
            length
        } else if rest.starts_with("::") {
            found.push(Token::Path);
            2
        } else {
            let character = rest.chars().next().unwrap_or(' ');
            if !character.is_whitespace() {
                found.push(Token::Mark(character));
            }
            character.len_utf8()
        };
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(next) = rest[at..].find(['/', '*']) {
        at += next;
        let step = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a raw string that begins here: `r"…"`, `br#"…"#`.
fn raw_string(rest: &str) -> Option<usize> {
    let body =
        rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
    let text = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = text.find(&end).map_or(text.len(), |found| found + end.len());
    Some(rest.len() - text.len() + length)
}

fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A literal with blanks in place of its escapes, so that `\nEventStream` ends with a word of its own.
fn without_escapes(literal: &str) -> String {
    let mut characters = literal.chars();
    let mut text = String::with_capacity(literal.len());
    while let Some(character) = characters.next() {
        if character == '\\' {
            characters.next();
            text.push(' ');
        } else {
            text.push(character);
        }
    }
    text
}

fn character_or_lifetime(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            rest.bytes().skip(3).position(|byte| byte == b'\'').map_or(rest.len(), |at| at + 4)
        }
        Some((_, first)) if characters.next().is_some_and(|(_, next)| next == '\'') => 2 + first.len_utf8(),
        _ => 1 + rest.bytes().skip(1).take_while(|byte| is_word(*byte)).count(),
    }
}

/// The tokens without the items that exist only in tests (`#[cfg(test)]`).
pub(super) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        match attribute(&tokens[at..]) {
            Some(length) if is_for_tests(&tokens[at..at + length]) => {
                at += length + item(&tokens[at + length..])
            }
            Some(length) => {
                kept.extend_from_slice(&tokens[at..at + length]);
                at += length;
            }
            None => {
                kept.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    kept
}

/// The length of an outer attribute that begins here.
fn attribute(tokens: &[Token]) -> Option<usize> {
    let begins = tokens.first()?.is_mark('#') && tokens.get(1)?.is_mark('[');
    begins.then(|| 1 + balanced(&tokens[1..]))
}

fn is_for_tests(attribute: &[Token]) -> bool {
    let has = |wanted: &str| attribute.iter().any(|token| token.is_name(wanted));
    has("cfg") && has("test") && !has("not")
}

/// The length of the item that begins here: to its `;`, or over its braces.
fn item(tokens: &[Token]) -> usize {
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') => return at + balanced(&tokens[at..]),
            Token::Mark('(' | '[') => at += balanced(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// The length of the group of brackets that begins here.
pub(super) fn balanced(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[test]
fn comments_literals_and_lifetimes_are_no_names() {
    let source = r##"
        /* a /* nested */ b */ // c
        fn f<'life>(x: &'life str) { let _ = ("one \" two", r#"raw " text"#, 'q', '\'', b"bytes", b'z', 1_000u64); }
    "##;
    let found = tokens(source);
    let names: Vec<_> = found.iter().filter_map(Token::name).collect();
    assert_eq!(names, ["fn", "f", "x", "str", "let", "_"]);
    let texts = found
        .iter()
        .filter_map(|token| if let Token::Text(text) = token { Some(text.as_str()) } else { None });
    assert_eq!(texts.collect::<Vec<_>>(), ["\"one   two\"", "r#\"raw \" text\"#", "\"bytes\""]);
}

#[test]
fn items_for_tests_are_left_out() {
    let source = "mod a; #[cfg(test)] mod tests; #[derive(Debug)] struct B { c: u8 } #[cfg(test)] fn d() { e() } fn g() {}";
    let found = without_tests(&tokens(source));
    let names: Vec<_> = found.iter().filter_map(Token::name).collect();
    assert_eq!(names, ["mod", "a", "derive", "Debug", "struct", "B", "c", "u8", "fn", "g"]);
}
