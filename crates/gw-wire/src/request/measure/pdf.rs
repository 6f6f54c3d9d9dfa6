//! Counts the pages of a PDF by its page objects.
//!
//! Most PDFs today pack their objects into compressed streams. These are unpacked too, within a budget for the request. If
//! a stream cannot be read, its content is unknown, and the file's length decides.

use flate2::{Decompress, FlushDecompress, Status};
use memchr::memchr;
use memchr::memmem;

use super::base64::Bytes;

/// Maximum number of pages. Providers accept no more.
const MAX_PAGES: u64 = 1_000;

/// Bytes of a page of plain text.
const MIN_PAGE_BYTES: u64 = 3_000;

/// Bytes that hardly any page exceeds.
const MAX_PAGE_BYTES: u64 = 500_000;

/// Bytes that are scanned at a time.
const BLOCK: usize = 48 * 1024;

/// Bytes at the end of a block that are scanned again with the next block. A name with its value is shorter.
const TAIL: usize = 512;

/// Bytes that may be unpacked for each request, and in addition for each byte of the request.
const UNPACKED: u64 = 1024 * 1024;
const UNPACKED_PER_BYTE: u64 = 1;

/// Bytes of the budget that each stream costs in addition to its content, because starting to unpack it takes time.
const STREAM_COST: u64 = 4 * 1024;

/// Unpacks compressed objects for all documents of a request. Its buffers are allocated when they are needed.
#[derive(Debug)]
pub(in crate::request) struct Unpacker {
    /// Bytes that may still be unpacked.
    budget: u64,
    inflate: Option<Box<Decompress>>,
    out: Vec<u8>,
}

impl Unpacker {
    /// An unpacker for a request of this many bytes.
    pub(in crate::request) fn of_request(bytes: usize) -> Self {
        let budget = (bytes as u64).saturating_mul(UNPACKED_PER_BYTE).saturating_add(UNPACKED);
        Self { budget, inflate: None, out: Vec::new() }
    }

    /// Starts a stream. False if the budget is used up.
    fn begin(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(STREAM_COST);
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

/// The number of pages, 1..=1000.
pub(super) fn pages(data: &str, unpacker: &mut Unpacker) -> u32 {
    let mut bytes = Bytes::of(data);
    let mut scan = PageScanner { found: Found::default(), unpacker, unpacked: None };
    let mut block = vec![0; BLOCK.min(data.len()) + TAIL];
    let (mut kept, mut total) = (0, 0_u64);
    loop {
        let read = bytes.fill(block.get_mut(kept..).unwrap_or_default());
        total += read as u64;
        let filled = kept + read;
        let is_last = filled < block.len();
        let taken = scan.scan(block.get(..filled).unwrap_or_default(), is_last);
        if is_last {
            return scan.pages(total);
        }
        block.copy_within(taken..filled, 0);
        kept = filled - taken;
    }
}

/// Scans a PDF block by block.
struct PageScanner<'u> {
    found: Found,
    unpacker: &'u mut Unpacker,
    /// While a stream is being unpacked: how many unpacked bytes are scanned again with the following ones.
    unpacked: Option<usize>,
}

/// Facts found so far.
#[derive(Default)]
struct Found {
    /// Number of objects of the type `Page`.
    pages: u64,
    /// The largest `Count`.
    count: u64,
    /// The page count at the beginning of a linearized file.
    linearized: u64,
    /// Whether there are packed objects that cannot be read.
    is_hidden: bool,
}

impl PageScanner<'_> {
    fn pages(mut self, bytes: u64) -> u32 {
        // The rest of a truncated stream is unknown.
        self.found.is_hidden |= self.unpacked.is_some();
        let Found { pages, count, linearized, is_hidden } = self.found;
        let stated = match pages.max(linearized) {
            0 => count,
            stated => stated,
        };
        let by_length = if stated == 0 || is_hidden { bytes.div_ceil(MIN_PAGE_BYTES).max(count) } else { 0 };
        let all = stated.max(by_length).max(bytes.div_ceil(MAX_PAGE_BYTES)).clamp(1, MAX_PAGES);
        u32::try_from(all).unwrap_or(1)
    }

    /// Scans a block and returns how many bytes are done. The rest is scanned again, followed by more bytes.
    fn scan(&mut self, block: &[u8], is_last: bool) -> usize {
        let end = if is_last { block.len() } else { block.len().saturating_sub(TAIL) };
        let mut at = 0;
        loop {
            if let Some(kept) = self.unpacked.take() {
                at += self.unpack(block.get(at..).unwrap_or_default(), kept);
                if self.unpacked.is_some() {
                    return block.len();
                }
            }
            let Some(stream) = self.found.names(block, at, end) else { return end.max(at) };
            at = stream;
            if self.unpacker.begin() {
                self.unpacked = Some(0);
            } else {
                self.found.is_hidden = true;
            }
        }
    }

    /// Unpacks the available part of a stream and returns how many bytes belonged to it.
    fn unpack(&mut self, packed: &[u8], mut kept: usize) -> usize {
        let Unpacker { budget, inflate: Some(inflate), out } = &mut *self.unpacker else { return 0 };
        let mut used = 0;
        loop {
            let input = packed.get(used..).unwrap_or_default();
            let max = usize::try_from(*budget).unwrap_or(BLOCK).min(BLOCK);
            let room = out.get_mut(kept..kept + max).unwrap_or_default();
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
            self.found.names_only(text, done);
            out.copy_within(done..filled, 0);
            kept = filled - done;
            if is_end {
                return used;
            }
            if status.is_err() || *budget == 0 {
                self.found.is_hidden = true;
                return used;
            }
            if read == 0 && given == 0 {
                // The stream continues in the next block.
                self.unpacked = Some(kept);
                return packed.len();
            }
        }
    }
}

impl Found {
    /// Reads the names that begin in `from..end`, up to one that announces packed objects; returns where these begin.
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

    /// As [`Found::names`], among unpacked objects, which hold no streams.
    fn names_only(&mut self, text: &[u8], end: usize) {
        let mut at = 0;
        while let Some(found) = text.get(at..end).and_then(|rest| memchr(b'/', rest)) {
            at += found + 1;
            self.name(text.get(at..).unwrap_or_default());
        }
    }

    /// Reads a name and its value. True for packed objects.
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
                let stated = word(text, b"Linearized").and_then(|rest| {
                    let near = rest.get(..TAIL.min(rest.len()) / 2)?;
                    number(word(near.get(memmem::find(near, b"/N")? + 1..)?, b"N")?)
                });
                self.linearized = self.linearized.max(stated.unwrap_or(0));
            }
            Some(b'O') => return word(text, b"ObjStm").is_some(),
            _ => {}
        }
        false
    }
}

/// The text after this word and its following blanks; None if the word continues.
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

/// The offset of a stream's bytes, after its keyword and the end of that line.
fn stream(text: &[u8]) -> Option<usize> {
    let at = memmem::find(text, b"stream")? + b"stream".len();
    match text.get(at..)? {
        [b'\r', b'\n', ..] => Some(at + 2),
        [b'\r' | b'\n', ..] => Some(at + 1),
        _ => None,
    }
}
