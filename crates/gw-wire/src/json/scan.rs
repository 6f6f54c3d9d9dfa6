//! Checks in one linear pass that a text is JSON, how deep it is, and that every string in it decodes.
//!
//! It never recurses and never allocates. A `View` can walk every text that it accepts.

use std::ops::Range;

use super::swar::{checked_prefix, name_prefix, plain_prefix};
use super::view::View;

/// Maximum nesting of arrays and objects.
pub const MAX_DEPTH: u32 = 128;

/// Number of members that most objects do not exceed.
const USUAL_MEMBERS: usize = 16;

/// Why a text is refused, with the byte offset of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Not JSON.
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    /// More than `MAX_DEPTH` levels.
    #[error("nested too deeply at byte {0}")]
    TooDeep(usize),
    /// More members of the outermost object than [`Bounds::members`].
    #[error("too many members at byte {0}")]
    TooManyMembers(usize),
    /// More values than [`Bounds::values`].
    #[error("too many values at byte {0}")]
    TooManyValues(usize),
}

/// Limits on the content of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of members of the outermost object.
    pub members: usize,
    /// Maximum number of values of any kind, except numbers in arrays.
    pub values: usize,
}

impl Bounds {
    /// No limits.
    pub const NONE: Self = Self { members: usize::MAX, values: usize::MAX };
}

/// The size of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Number of values: the value itself and all values inside it.
    pub values: usize,
    /// Levels of arrays and objects; 0 for a plain value.
    pub depth: u32,
}

/// A member of the outermost object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMember<'a> {
    /// The name's literal.
    pub name: View<'a>,
    /// The value.
    pub value: View<'a>,
    /// The size of the value.
    pub extent: Extent,
}

/// Facts about an accepted text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Offset of the first escape that is half of a surrogate pair. JSON's grammar allows it, but it is no Unicode text,
    /// and readers treat it differently.
    pub lone_surrogate: Option<usize>,
}

/// Checks that the text is one JSON value of at most `MAX_DEPTH` levels.
///
/// # Errors
/// The first fault in the text.
pub fn check(text: &str) -> Result<Checked, ScanError> {
    let mut scan = Scanner::new(text.as_bytes(), 0);
    scan.document(&mut |_, _, _| {})?;
    Ok(scan.checked)
}

/// Checks a text as [`check`] does and returns the members of its outermost object in order: none if the text is not an
/// object. The scan stops at the first member or value beyond the bounds.
///
/// # Errors
/// As [`check`], and when the text exceeds `bounds`.
pub fn check_members(text: &str, bounds: Bounds) -> Result<(Checked, Vec<RawMember<'_>>), ScanError> {
    let mut members = Vec::with_capacity(USUAL_MEMBERS);
    let mut scan = Scanner { bounds, ..Scanner::new(text.as_bytes(), 0) };
    let part = |range: Range<usize>| View::exact(text.get(range).unwrap_or_default());
    scan.document(&mut |name, value, extent| {
        members.push(RawMember { name: part(name), value: part(value), extent });
    })?;
    Ok((scan.checked, members))
}

/// The size of a checked text.
pub(super) fn extent(text: &str) -> Extent {
    let mut scan = Scanner::new(text.as_bytes(), 0);
    let mut members = 0;
    // Cannot fail: the text was checked.
    let _ = scan.document(&mut |_, _, extent| members = members.max(extent.depth + 1));
    Extent { values: scan.values + scan.numbers, depth: scan.deepest.max(members) }
}

/// The end of the JSON number that begins at `at`; `None` if no number begins there.
#[must_use]
pub fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut scan = Scanner::new(bytes, at);
    scan.number().ok().map(|()| scan.at)
}

/// A position in a text. Its methods move it past JSON tokens.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    checked: Checked,
    /// The outermost object's member that is being read.
    open: Option<OpenMember>,
    bounds: Bounds,
    /// Members of the outermost object so far.
    members: usize,
    /// Values so far that count against the bound, and numbers in arrays, which do not.
    values: usize,
    numbers: usize,
    /// The deepest level since the outermost member began.
    deepest: u32,
    /// The text was checked before, so its strings hold no control characters.
    pub(super) is_checked: bool,
}

/// A member whose value is being scanned.
struct OpenMember {
    name: Range<usize>,
    /// Offset of the value.
    start: usize,
    /// Number of values before it.
    values: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at,
            checked: Checked::default(),
            open: None,
            bounds: Bounds::NONE,
            members: 0,
            values: 0,
            numbers: 0,
            deepest: 0,
            is_checked: false,
        }
    }

    /// Scans one value and nothing else; for `member` see [`Scanner::value`].
    fn document(
        &mut self,
        member: &mut impl FnMut(Range<usize>, Range<usize>, Extent),
    ) -> Result<(), ScanError> {
        self.value(member)?;
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault()) }
    }

    /// Scans one value. `member` gets the name, the value and the extent of each member of the outermost object.
    pub(super) fn value(
        &mut self,
        member: &mut impl FnMut(Range<usize>, Range<usize>, Extent),
    ) -> Result<(), ScanError> {
        // One bit per open level, set for an object. 128 bits suffice for the maximum depth.
        let mut objects: u128 = 0;
        let mut depth = 0;
        loop {
            self.space();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth == MAX_DEPTH {
                        return Err(ScanError::TooDeep(self.at));
                    }
                    self.count()?;
                    depth += 1;
                    self.deepest = self.deepest.max(depth);
                    objects = objects << 1 | u128::from(open == b'{');
                    self.at += 1;
                    self.space();
                    if self.peek() != Some(open + 2) {
                        if open == b'{' {
                            self.name(depth)?;
                        }
                        continue;
                    }
                    self.at += 1;
                    depth -= 1;
                    objects >>= 1;
                }
                first => {
                    let is_number = matches!(first, Some(b'-' | b'0'..=b'9'));
                    if is_number && objects & 1 == 0 {
                        self.numbers += 1;
                    } else {
                        self.count()?;
                    }
                    self.scalar(first)?;
                }
            }
            // A value has ended: close the containers that end with it, then continue with the next value.
            loop {
                if depth == 1
                    && let Some(OpenMember { name, start, values }) = self.open.take()
                {
                    let extent = Extent {
                        values: self.values + self.numbers - values,
                        depth: self.deepest.saturating_sub(1),
                    };
                    member(name, start..self.at, extent);
                }
                if depth == 0 {
                    return Ok(());
                }
                self.space();
                let in_object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if in_object {
                            self.space();
                            self.name(depth)?;
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

    /// Scans an object that begins here, as [`Scanner::value`] does. This takes less for an object of plain values, like a usage.
    /// So many levels of objects in it are scanned in the same way.
    pub(super) fn object(&mut self, levels: u32) -> Result<(), ScanError> {
        self.at += 1;
        self.space();
        if self.byte(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fault());
            }
            self.string()?;
            self.space();
            if !self.byte(b':') {
                return Err(self.fault());
            }
            self.space();
            match self.peek() {
                Some(b'{') if levels > 0 => self.object(levels - 1)?,
                Some(b'{' | b'[') => self.value(&mut |_, _, _| {})?,
                first => self.scalar(first)?,
            }
            self.space();
            if self.byte(b'}') {
                return Ok(());
            }
            if !self.byte(b',') {
                return Err(self.fault());
            }
            self.space();
        }
    }

    pub(super) fn scalar(&mut self, first: Option<u8>) -> Result<(), ScanError> {
        match first {
            Some(b'"') => self.string().map(|_| ()),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn name(&mut self, depth: u32) -> Result<(), ScanError> {
        if self.peek() != Some(b'"') {
            return Err(self.fault());
        }
        let start = self.at;
        self.string()?;
        let name = start..self.at;
        self.space();
        if !self.byte(b':') {
            return Err(self.fault());
        }
        if depth == 1 {
            self.space();
            self.members += 1;
            if self.members > self.bounds.members {
                return Err(ScanError::TooManyMembers(start));
            }
            self.deepest = 1;
            self.open = Some(OpenMember { name, start: self.at, values: self.values + self.numbers });
        }
        Ok(())
    }

    /// Counts a value against the bound.
    fn count(&mut self) -> Result<(), ScanError> {
        self.values += 1;
        if self.values > self.bounds.values { Err(ScanError::TooManyValues(self.at)) } else { Ok(()) }
    }

    /// Scans a string; true if it holds an escape.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        // Names are short and have no escapes.
        self.at += name_prefix(self.bytes.get(self.at..).unwrap_or_default());
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(false);
        }
        self.string_end()
    }

    #[inline(never)]
    fn string_end(&mut self) -> Result<bool, ScanError> {
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += if self.is_checked { checked_prefix(rest) } else { plain_prefix(rest) };
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.fault()),
            }
            escaped = true;
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        match self.bytes.get(start + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let unit = self.unit(start).ok_or(ScanError::Syntax(start))?;
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

    /// The UTF-16 unit of the `\uXXXX` at this offset.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    }

    pub(super) fn number(&mut self) -> Result<(), ScanError> {
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

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault()) } else { Ok(()) }
    }

    pub(super) fn literal(&mut self, literal: &[u8]) -> Result<(), ScanError> {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(literal)) {
            self.at += literal.len();
            return Ok(());
        }
        Err(self.fault())
    }

    /// Moves past this byte if it comes next.
    #[inline(always)]
    pub(super) fn byte(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// The bytes from here on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault(&self) -> ScanError {
        ScanError::Syntax(self.at)
    }
}

#[cfg(test)]
mod tests;
