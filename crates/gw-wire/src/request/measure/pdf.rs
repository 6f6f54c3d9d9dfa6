//! How many pages a PDF has, by the objects that say they are one.
//!
//! Most PDFs of today pack their objects into compressed streams. These are read, too, as far as the request's share of work
//! goes. Where one cannot be read, nobody knows what is in it, and the file's length counts.

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

/// What may be unpacked of each request, and for each of its bytes besides.
const UNPACKED: u64 = 1024 * 1024;
const UNPACKED_PER_BYTE: u64 = 1;

/// Bytes that a stream counts for besides its own: to begin one is work.
const STREAM: u64 = 4 * 1024;

/// Reads packed objects, for all documents of a request. What it needs is made when there are such objects.
#[derive(Debug)]
pub(in crate::request) struct Unpacker {
    /// Bytes that may still be unpacked.
    budget: u64,
    inflate: Option<Box<Decompress>>,
    out: Vec<u8>,
}

impl Unpacker {
    /// For a request of so many bytes.
    pub(in crate::request) fn of_request(bytes: usize) -> Self {
        let budget = (bytes as u64).saturating_mul(UNPACKED_PER_BYTE).saturating_add(UNPACKED);
        Self { budget, inflate: None, out: Vec::new() }
    }

    /// Begins a stream. False when no more may be unpacked.
    fn begin(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(STREAM);
        if self.budget == 0 {
            return false;
        }
        match &mut self.inflate {
            Some(inflate) => inflate.reset(true),
            None => {
                self.inflate = Some(Box::new(Decompress::new(true)));
                self.out = vec![0; BLOCK + TAIL];
            }
        }
        true
    }
}

/// Pages, 1..=1000.
pub(super) fn pages(data: &str, unpacker: &mut Unpacker) -> u32 {
    let mut bytes = Bytes::of(data);
    let mut scan = Scan { seen: Seen::default(), unpacker, unpacked: None };
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
struct Scan<'u> {
    seen: Seen,
    unpacker: &'u mut Unpacker,
    /// Between the bytes of a stream of packed objects: how much of it is unpacked and comes again with what follows.
    unpacked: Option<usize>,
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

impl Scan<'_> {
    fn pages(mut self, bytes: u64) -> u32 {
        // Nobody knows what a stream that is cut off would have held.
        self.seen.is_hidden |= self.unpacked.is_some();
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
            if let Some(kept) = self.unpacked.take() {
                at += self.unpack(block.get(at..).unwrap_or_default(), kept);
                if self.unpacked.is_some() {
                    return block.len();
                }
            }
            let Some(stream) = self.seen.names(block, at, end) else { return end.max(at) };
            at = stream;
            if self.unpacker.begin() {
                self.unpacked = Some(0);
            } else {
                self.seen.is_hidden = true;
            }
        }
    }

    /// Unpacks what is there of a stream, and tells how many bytes belonged to it.
    fn unpack(&mut self, packed: &[u8], mut kept: usize) -> usize {
        let Unpacker { budget, inflate: Some(inflate), out } = &mut *self.unpacker else { return 0 };
        let mut used = 0;
        loop {
            let input = packed.get(used..).unwrap_or_default();
            let most = usize::try_from(*budget).unwrap_or(BLOCK).min(BLOCK);
            let room = out.get_mut(kept..kept + most).unwrap_or_default();
            let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(input, room, FlushDecompress::None);
            let read = usize::try_from(inflate.total_in() - before_in).unwrap_or(input.len());
            let given = inflate.total_out() - before_out;
            used += read;
            *budget = budget.saturating_sub(given);
            let filled = kept + usize::try_from(given).unwrap_or(0);
            let is_end = matches!(status, Ok(Status::StreamEnd));
            let text = out.get(..filled).unwrap_or_default();
            let done = if is_end { filled } else { filled.saturating_sub(TAIL) };
            self.seen.names_only(text, done);
            out.copy_within(done..filled, 0);
            kept = filled - done;
            if is_end {
                return used;
            }
            if status.is_err() || *budget == 0 {
                self.seen.is_hidden = true;
                return used;
            }
            if read == 0 && given == 0 {
                // It needs more than is here.
                self.unpacked = Some(kept);
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
