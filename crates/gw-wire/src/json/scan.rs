//! One linear pass over a text that answers: is this JSON, how deep, and does every string in it decode?
//!
//! No recursion and no allocation, whatever the text holds; what is accepted here can be walked with `View`.

/// Levels of arrays and objects that a text may have.
pub const MAX_DEPTH: u32 = 128;

/// Why a text is refused, with the byte where that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not JSON.
    Syntax(usize),
    /// More than `MAX_DEPTH` levels.
    TooDeep(usize),
}

/// What is known of a text that is JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Where the first escape stands that is half of a surrogate pair. JSON's grammar allows it, Unicode has no such
    /// text: every reader makes something else of it.
    pub lone_surrogate: Option<usize>,
}

/// Checks that the text is one JSON value of at most `MAX_DEPTH` levels.
///
/// # Errors
/// The first fault in the text.
pub fn check(text: &str) -> Result<Checked, Fault> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, checked: Checked::default() };
    scan.document()?;
    Ok(scan.checked)
}

/// Where the JSON number that begins at `at` ends, `None` when there is no number.
#[must_use]
pub fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut scan = Scan { bytes, at, checked: Checked::default() };
    scan.number().ok().map(|()| scan.at)
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    checked: Checked,
}

impl Scan<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        // One bit per open level, set for an object: as wide as the text may be deep.
        let mut objects: u128 = 0;
        let mut depth = 0;
        loop {
            self.space();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth == MAX_DEPTH {
                        return Err(Fault::TooDeep(self.at));
                    }
                    depth += 1;
                    objects = objects << 1 | u128::from(open == b'{');
                    self.at += 1;
                    self.space();
                    if self.peek() != Some(open + 2) {
                        if open == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    depth -= 1;
                    objects >>= 1;
                }
                Some(b'"') => self.string()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => self.number()?,
            }
            // A value just ended: close what ends with it, then go on with the next value.
            loop {
                self.space();
                if depth == 0 {
                    return if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault()) };
                }
                let in_object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if in_object {
                            self.space();
                            self.name()?;
                        }
                        break;
                    }
                    Some(b'}') if in_object => {}
                    Some(b']') if !in_object => {}
                    _ => return Err(self.fault()),
                }
                self.at += 1;
                depth -= 1;
                objects >>= 1;
            }
        }
    }

    fn name(&mut self) -> Result<(), Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault());
        }
        self.string()?;
        self.space();
        self.literal(b":")
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.at += plain_prefix(self.bytes.get(self.at..).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.fault()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let start = self.at;
        match self.bytes.get(start + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let unit = self.unit(start).ok_or(Fault::Syntax(start))?;
                self.at += 6;
                let pairs = match unit {
                    0xd800..=0xdbff => matches!(self.unit(self.at), Some(0xdc00..=0xdfff)),
                    0xdc00..=0xdfff => false,
                    _ => return Ok(()),
                };
                if pairs {
                    self.at += 6;
                } else if self.checked.lone_surrogate.is_none() {
                    self.checked.lone_surrogate = Some(start);
                }
            }
            _ => return Err(self.fault()),
        }
        Ok(())
    }

    /// The UTF-16 unit of a `\uXXXX` at this place.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault()) } else { Ok(()) }
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Fault> {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(literal)) {
            self.at += literal.len();
            return Ok(());
        }
        Err(self.fault())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault(&self) -> Fault {
        Fault::Syntax(self.at)
    }
}

/// How many bytes can stand in a string as they are: up to a quote, a backslash or a control character.
fn plain_prefix(bytes: &[u8]) -> usize {
    let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    // Whole blocks without branches inside: images and long prompts go through here, and this becomes vector code.
    let (blocks, _) = bytes.as_chunks::<16>();
    let clean = blocks
        .iter()
        .take_while(|block| !block.iter().fold(false, |found, byte| found | special(*byte)))
        .count()
        * 16;
    let tail = bytes.get(clean..).unwrap_or_default();
    clean + tail.iter().take_while(|byte| !special(**byte)).count()
}

#[cfg(test)]
mod tests;
