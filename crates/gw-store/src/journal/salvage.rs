//! Reading a segment that may be damaged: every record that is whole is found, and what belongs to none is counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::io::{self, Read, Seek, SeekFrom};

use super::INTERRUPTED;
use crate::ledger::{Entry, read_json, read_prefix};

/// Bytes that are read at one time.
const BLOCK: usize = 64 << 10;
/// What is passed over where the disk gives nothing: what a disk and a page of memory have at one time.
const BAD_BLOCK: u64 = 4 << 10;
/// Bytes of a damaged piece are looked at so often at most, on average.
const LOOKS: usize = 8;

/// What a line is about, from what tells least to what tells most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A request has begun.
    Begun,
    /// What it has used so far.
    Progress,
    /// Its outcome.
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

/// What the journal tells of requests, by their ids.
#[derive(Debug, Default)]
pub(super) struct Requests(HashMap<String, (Kind, Entry)>);

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.0.into_values().map(|(_, entry)| entry)
    }

    /// Keeps of several lines about one request the one that tells most.
    fn add(&mut self, kind: Kind, mut entry: Entry) {
        if kind != Kind::Ended {
            INTERRUPTED.clone_into(&mut entry.status);
        }
        match self.0.entry(entry.request_id.clone()) {
            Place::Vacant(place) => {
                place.insert((kind, entry));
            }
            Place::Occupied(mut place) => {
                let before = place.get_mut();
                if told(kind, &entry) >= told(before.0, &before.1) {
                    *before = (kind, entry);
                }
            }
        }
    }
}

/// How much a line tells.
fn told(kind: Kind, entry: &Entry) -> (Kind, i128, u64) {
    let tokens = entry.tokens.prompt.saturating_add(entry.tokens.completion);
    // Of two outcomes the later is good.
    if kind == Kind::Ended { (kind, 0, 0) } else { (kind, entry.cost, tokens) }
}

/// What of a segment belongs to no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Places: one may reach over several lines.
    pub(super) stretches: u64,
    pub(super) bytes: u64,
    /// What came last belonged to no record.
    is_open: bool,
}

impl Damage {
    fn stretch(&mut self, bytes: u64) {
        if bytes > 0 {
            self.stretches += u64::from(!self.is_open);
            self.bytes += bytes;
            self.is_open = true;
        }
    }
}

/// Reads a segment of this length.
pub(super) fn read(mut segment: impl Read + Seek, length: u64, found: &mut Requests) -> Damage {
    let mut pieces = Pieces { found, carry: Vec::new(), damage: Damage::default() };
    let mut block = vec![0; BLOCK];
    // Beyond a bad place, block by block until one is good.
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
                    pieces.damage.stretch(length.saturating_sub(at));
                    break;
                }
                // What stands on both sides of it is not one line.
                pieces.feed(b"\n");
                pieces.damage.stretch(next - at);
                at = next;
            }
        }
    }
    pieces.feed(b"\n");
    pieces.damage
}

/// The bytes of a segment, cut at its breaks: a break is never inside a record.
struct Pieces<'f> {
    found: &'f mut Requests,
    carry: Vec<u8>,
    damage: Damage,
}

impl Pieces<'_> {
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
        // Nearly always the piece is a record.
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

    /// Looks for records inside a piece: damage may stand before one and behind it, and may have eaten a break.
    fn salvage(&mut self, piece: &[u8]) {
        // Where the last record ends, and where the next is looked for.
        let (mut end, mut from) = (0, 0);
        let mut effort = piece.len().saturating_mul(LOOKS);
        while let Some((start, kind)) = candidate(piece, from) {
            match read_prefix(piece.get(start + 1..).unwrap_or_default()) {
                Ok((entry, length)) => {
                    self.damage.stretch((start - end) as u64);
                    // Records that touch have lost their break.
                    self.damage.stretches += u64::from(end > 0 && start == end);
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
        self.damage.stretch(piece.len().saturating_sub(end) as u64);
    }
}

/// Where the next record may begin, from this place on.
fn candidate(piece: &[u8], from: usize) -> Option<(usize, Kind)> {
    let mut windows = piece.get(from..)?.windows(3).enumerate();
    windows.find_map(|(n, window)| {
        let [letter, b'[' | b'{', b'"'] = window else { return None };
        Kind::of(*letter).map(|kind| (from + n, kind))
    })
}

#[cfg(test)]
mod tests;
