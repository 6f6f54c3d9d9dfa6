//! Reads a segment that may be damaged: finds every intact record and counts the bytes that belong to none.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::INTERRUPTED;
use crate::ledger::{Attempt, Entry, read_json, read_prefix};

/// Bytes per read.
const BLOCK: usize = 64 << 10;
/// Bytes that are skipped where the disk cannot be read: the size of a disk block and of a memory page.
const BAD_BLOCK: u64 = 4 << 10;
/// How often each byte of a damaged piece is examined at most, on average.
const MAX_PASSES: usize = 8;

/// The kind of a line, in ascending order of information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A request has begun.
    Begun,
    /// The usage of a request so far.
    Progress,
    /// The outcome of a request.
    Ended,
}

impl Kind {
    fn of(letter: u8) -> Option<Self> {
        match letter {
            b'B' => Some(Self::Begun),
            b'P' => Some(Self::Progress),
            b'E' => Some(Self::Ended),
            _ => None,
        }
    }
}

/// The most informative line of each request, by request id.
#[derive(Debug, Default)]
pub(super) struct Requests(HashMap<Arc<str>, (Kind, Entry)>);

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.0.into_values().map(|(_, entry)| entry)
    }

    /// Adds a line unless a more informative line about the same request is known.
    fn add(&mut self, kind: Kind, mut entry: Entry) {
        if kind != Kind::Ended {
            entry.status = INTERRUPTED.into();
            add_open_call(&mut entry);
        }
        match self.0.entry(Arc::clone(&entry.request_id)) {
            Place::Vacant(place) => {
                place.insert((kind, entry));
            }
            Place::Occupied(mut place) => {
                let before = place.get_mut();
                if information(kind, &entry) >= information(before.0, &before.1) {
                    *before = (kind, entry);
                }
            }
        }
    }
}

/// Adds the upstream call that was open when the process ended, so that the costs of all calls are the cost of the entry. The
/// lines list the calls before it. A line that lists none is about one call, whose cost is that of the entry.
fn add_open_call(entry: &mut Entry) {
    let ended = entry.attempts.iter().map(Attempt::share_of_cost).fold(0, i128::saturating_add);
    let open = entry.cost.saturating_sub(ended);
    // Where the costs of all ended calls are known, the open one has the unknown price.
    let is_unknown = entry.unpriced && entry.attempts.iter().all(|attempt| attempt.cost.is_some());
    if entry.attempts.is_empty() || (open <= 0 && !is_unknown) {
        return;
    }
    entry.attempts.push(Attempt {
        provider: Arc::clone(&entry.provider),
        model: Arc::clone(&entry.model),
        status: INTERRUPTED.into(),
        latency_ms: 0,
        cost: (!is_unknown).then_some(open),
        started_ms: 0,
        image_fetch_ms: 0,
        known_part: if is_unknown { open.max(0) } else { 0 },
        reason: None,
    });
}

/// The order of lines by their information: later kinds first, then higher costs and token counts.
fn information(kind: Kind, entry: &Entry) -> (Kind, i128, u64) {
    let tokens = entry.tokens.prompt.saturating_add(entry.tokens.completion);
    // Of two outcomes the later one counts.
    if kind == Kind::Ended { (kind, 0, 0) } else { (kind, entry.cost, tokens) }
}

/// The damage of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Number of damaged regions. A region may span several lines.
    pub(super) regions: u64,
    pub(super) bytes: u64,
    /// Whether the last bytes belonged to no record, so that a region is open.
    is_open: bool,
}

impl Damage {
    fn add_region(&mut self, bytes: u64) {
        if bytes > 0 {
            self.regions += u64::from(!self.is_open);
            self.bytes += bytes;
            self.is_open = true;
        }
    }
}

/// Reads a segment of this length.
pub(super) fn read(mut segment: impl Read + Seek, length: u64, found: &mut Requests) -> Damage {
    let mut pieces = RecordReader { found, carry: Vec::new(), damage: Damage::default() };
    let mut block = vec![0; BLOCK];
    // After a bad block, blocks are read one by one until one succeeds.
    let (mut is_careful, mut at) = (false, 0_u64);
    loop {
        let size = if is_careful { BAD_BLOCK - at % BAD_BLOCK } else { BLOCK as u64 };
        let size = usize::try_from(size).unwrap_or(BLOCK);
        match segment.read(block.get_mut(..size).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => {
                is_careful = false;
                at += count as u64;
                pieces.feed(block.get(..count).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if !is_careful => is_careful = true,
            Err(_) => {
                let next = ((at / BAD_BLOCK + 1) * BAD_BLOCK).min(length);
                if next <= at || segment.seek(SeekFrom::Start(next)).is_err() {
                    pieces.damage.add_region(length.saturating_sub(at));
                    break;
                }
                // The bytes before and after the bad block are not one line.
                pieces.feed(b"\n");
                pieces.damage.add_region(next - at);
                at = next;
            }
        }
    }
    pieces.feed(b"\n");
    pieces.damage
}

/// Splits the bytes of a segment at line breaks. A record never contains a line break.
struct RecordReader<'f> {
    found: &'f mut Requests,
    carry: Vec<u8>,
    damage: Damage,
}

impl RecordReader<'_> {
    fn feed(&mut self, bytes: &[u8]) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        self.carry.extend(parts.next().unwrap_or_default());
        for part in parts {
            let piece = std::mem::take(&mut self.carry);
            self.piece(&piece);
            self.carry = piece;
            self.carry.clear();
            self.carry.extend(part);
        }
    }

    fn piece(&mut self, piece: &[u8]) {
        let Some((letter, json)) = piece.split_first() else { return };
        // Nearly every piece is one intact record.
        let whole = Kind::of(*letter).and_then(|kind| {
            let entry = read_json(std::str::from_utf8(json).ok()?).ok()?;
            Some((kind, entry)).filter(|(_, entry)| !entry.request_id.is_empty())
        });
        match whole {
            Some((kind, entry)) => self.record(kind, entry),
            None => self.salvage(piece),
        }
    }

    fn record(&mut self, kind: Kind, entry: Entry) {
        self.damage.is_open = false;
        self.found.add(kind, entry);
    }

    /// Searches for records inside a damaged piece: damage may precede or follow a record, or replace a line break.
    fn salvage(&mut self, piece: &[u8]) {
        // The end of the last record, and the offset at which the search continues.
        let (mut end, mut from) = (0, 0);
        let mut effort = piece.len().saturating_mul(MAX_PASSES);
        while let Some((start, kind)) = candidate(piece, from) {
            match read_prefix(piece.get(start + 1..).unwrap_or_default()) {
                Ok((entry, length)) => {
                    self.damage.add_region((start - end) as u64);
                    // Adjacent records have lost their line break.
                    self.damage.regions += u64::from(end > 0 && start == end);
                    self.record(kind, entry);
                    end = start + 1 + length;
                    from = end;
                }
                Err(looked_at) => {
                    from = start + 1;
                    effort = effort.saturating_sub(looked_at.max(1));
                    if effort == 0 {
                        break;
                    }
                }
            }
        }
        self.damage.add_region(piece.len().saturating_sub(end) as u64);
    }
}

/// The offset and the kind of the next possible record.
fn candidate(piece: &[u8], from: usize) -> Option<(usize, Kind)> {
    let mut windows = piece.get(from..)?.windows(3).enumerate();
    windows.find_map(|(n, window)| {
        let [letter, b'[' | b'{', b'"'] = window else { return None };
        Kind::of(*letter).map(|kind| (from + n, kind))
    })
}

#[cfg(test)]
mod tests;
