//! How many pages a PDF has, by the objects that say they are one.
//!
//! Most PDFs of today pack their objects into compressed streams. These are read, too, up to as many bytes as bound the
//! work. Where one cannot be read, nobody knows what is in it, and the file's length counts.

use flate2::{Decompress, FlushDecompress, Status};
use memchr::memchr;
use memchr::memmem;

use super::base64::Bytes;

/// Providers take no more.
const MOST: u64 = 1_000;

/// Bytes of a page of plain text.
const LEAST_PAGE: u64 = 3_000;

/// Bytes that a page hardly ever has more of.
const MOST_PAGE: u64 = 500_000;

/// Bytes that are looked at together.
const BLOCK: usize = 48 * 1024;

/// Bytes of a block that are looked at again with the next one: longer than all that belongs to a name.
const TAIL: usize = 512;

/// Packed objects are read up to so many times the file's bytes.
const UNPACKED: u64 = 3;

/// Streams of packed objects that are read.
const STREAMS: u32 = 2_000;

/// Pages, 1..=1000.
pub(super) fn pages(data: &str) -> u32 {
    let mut bytes = Bytes::of(data);
    let mut scan = Scan::new(super::decoded_len(data));
    let mut block = vec![0; BLOCK.min(data.len()) + TAIL];
    let (mut kept, mut total) = (0, 0_u64);
    loop {
        let read = bytes.fill(block.get_mut(kept..).unwrap_or_default());
        total += read as u64;
        let filled = kept + read;
        let is_last = filled < block.len();
        let taken = scan.take(block.get(..filled).unwrap_or_default(), is_last);
        if is_last {
            return scan.pages(total);
        }
        block.copy_within(taken..filled, 0);
        kept = filled - taken;
    }
}

/// What was seen so far.
struct Scan {
    seen: Seen,
    /// Between the bytes of a stream of packed objects.
    unpacking: Option<Unpacking>,
    /// Bytes that may still be unpacked.
    budget: u64,
    streams: u32,
}

/// What the names told.
#[derive(Default)]
struct Seen {
    /// Objects of the type `Page`.
    pages: u64,
    /// The largest `Count`.
    count: u64,
    /// What a file that is made for the web says at its beginning.
    linearized: u64,
    /// Objects are packed in a way that cannot be read here.
    is_hidden: bool,
}

struct Unpacking {
    inflate: Box<Decompress>,
    out: Vec<u8>,
    filled: usize,
}

impl Scan {
    fn new(bytes: u64) -> Self {
        let budget = bytes.saturating_mul(UNPACKED);
        Self { seen: Seen::default(), unpacking: None, budget, streams: 0 }
    }

    fn pages(mut self, bytes: u64) -> u32 {
        // Nobody knows what a stream that is cut off would have held.
        self.seen.is_hidden |= self.unpacking.is_some();
        let Seen { pages, count, linearized, is_hidden } = self.seen;
        let told = match pages.max(linearized) {
            0 => count,
            told => told,
        };
        let by_length = if told == 0 || is_hidden { bytes.div_ceil(LEAST_PAGE).max(count) } else { 0 };
        let all = told.max(by_length).max(bytes.div_ceil(MOST_PAGE)).clamp(1, MOST);
        u32::try_from(all).unwrap_or(1)
    }

    /// Looks at a block, and tells how much of it is done with. What is left comes again, followed by more.
    fn take(&mut self, block: &[u8], is_last: bool) -> usize {
        let end = if is_last { block.len() } else { block.len().saturating_sub(TAIL) };
        let mut at = 0;
        loop {
            if self.unpacking.is_some() {
                at += self.unpack(block.get(at..).unwrap_or_default());
                if self.unpacking.is_some() {
                    return block.len();
                }
            }
            let Some(stream) = self.seen.names(block, at, end) else { return end.max(at) };
            at = stream;
            self.begin();
        }
    }

    /// A stream of packed objects begins.
    fn begin(&mut self) {
        self.streams += 1;
        if self.streams > STREAMS || self.budget == 0 {
            self.seen.is_hidden = true;
            return;
        }
        let room = usize::try_from(self.budget).unwrap_or(BLOCK).min(BLOCK) + TAIL;
        let inflate = Box::new(Decompress::new(true));
        self.unpacking = Some(Unpacking { inflate, out: vec![0; room], filled: 0 });
    }

    /// Unpacks what is there of a stream, and tells how many bytes belonged to it.
    fn unpack(&mut self, packed: &[u8]) -> usize {
        let Some(mut unpacking) = self.unpacking.take() else { return 0 };
        let Unpacking { inflate, out, filled } = &mut unpacking;
        let before = inflate.total_in();
        loop {
            let done = inflate.total_in() - before;
            let input = packed.get(usize::try_from(done).unwrap_or(packed.len())..).unwrap_or_default();
            let given = inflate.total_out();
            let room = out.get_mut(*filled..).unwrap_or_default();
            let status = inflate.decompress(input, room, FlushDecompress::None);
            let given = inflate.total_out() - given;
            let used = usize::try_from(inflate.total_in() - before).unwrap_or(packed.len());
            *filled += usize::try_from(given).unwrap_or(0);
            let is_end = matches!(status, Ok(Status::StreamEnd));
            let text = out.get(..*filled).unwrap_or_default();
            let end = if is_end { text.len() } else { text.len().saturating_sub(TAIL) };
            self.seen.names_only(text, end);
            out.copy_within(end..*filled, 0);
            *filled -= end;
            self.budget = self.budget.saturating_sub(given);
            if is_end {
                return used;
            }
            if status.is_err() || self.budget == 0 {
                self.seen.is_hidden = true;
                return used;
            }
            let is_stuck = given == 0 && inflate.total_in() - before == done;
            if used >= packed.len() && given == 0 || is_stuck {
                self.unpacking = Some(unpacking);
                return packed.len();
            }
        }
    }
}

impl Seen {
    /// Reads the names that begin in `from..end`, up to one that tells of packed objects: where these begin.
    fn names(&mut self, block: &[u8], from: usize, end: usize) -> Option<usize> {
        let mut at = from;
        while let Some(found) = block.get(at..end).and_then(|rest| memchr(b'/', rest)) {
            at += found + 1;
            let rest = block.get(at..).unwrap_or_default();
            if !self.name(rest) {
                continue;
            }
            let near = rest.get(..TAIL.min(rest.len())).unwrap_or_default();
            match stream(near) {
                Some(start) => return Some(at + start),
                None => self.is_hidden = true,
            }
        }
        None
    }

    /// The same among objects that were packed: these hold no streams.
    fn names_only(&mut self, text: &[u8], end: usize) {
        let mut at = 0;
        while let Some(found) = text.get(at..end).and_then(|rest| memchr(b'/', rest)) {
            at += found + 1;
            self.name(text.get(at..).unwrap_or_default());
        }
    }

    /// A name and what follows it. True for packed objects.
    fn name(&mut self, text: &[u8]) -> bool {
        match text.first() {
            Some(b'T') => {
                let is_page = word(text, b"Type").and_then(|rest| word(rest.strip_prefix(b"/")?, b"Page"));
                self.pages += u64::from(is_page.is_some());
            }
            Some(b'C') => {
                let count = word(text, b"Count").and_then(number).unwrap_or(0);
                self.count = self.count.max(count);
            }
            Some(b'L') => {
                let said = word(text, b"Linearized").and_then(|rest| {
                    let near = rest.get(..TAIL.min(rest.len()) / 2)?;
                    number(word(near.get(memmem::find(near, b"/N")? + 1..)?, b"N")?)
                });
                self.linearized = self.linearized.max(said.unwrap_or(0));
            }
            Some(b'O') => return word(text, b"ObjStm").is_some(),
            _ => {}
        }
        false
    }
}

/// What follows this word and the blanks behind it; None when another word begins like that.
fn word<'t>(text: &'t [u8], word: &[u8]) -> Option<&'t [u8]> {
    let rest = text.strip_prefix(word)?;
    let is_more = rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-.#+".contains(byte));
    if is_more {
        return None;
    }
    let near = rest.get(..rest.len().min(TAIL / 8))?;
    let blanks = near.iter().take_while(|byte| b" \t\r\n\x0c\0".contains(byte)).count();
    rest.get(blanks..)
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take(7).map_while(|byte| char::from(*byte).to_digit(10));
    digits.fold(None, |number, digit| Some(number.unwrap_or(0) * 10 + u64::from(digit)))
}

/// Where the bytes of a stream begin, after its word and the end of that line.
fn stream(text: &[u8]) -> Option<usize> {
    let at = memmem::find(text, b"stream")? + b"stream".len();
    match text.get(at..)? {
        [b'\r', b'\n', ..] => Some(at + 2),
        [b'\r' | b'\n', ..] => Some(at + 1),
        _ => None,
    }
}
