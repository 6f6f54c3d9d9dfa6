//! Seals the signatures of a stream. A signature may come in several pieces, so it is held until it is complete: when
//! another entry, text or a call follows, or when the choice ends.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::Arc;

use gw_wire::event::Event;
use gw_wire::json::{Kind, View};
use serde_json::value::RawValue;

use super::entry::{Entry, signed_member};
use super::{DETAILS, marked, order, plain, sealed_entry, sealed_id};
use crate::adapter::StreamDecoder;
use crate::adapters::sse_adapter::EventSink;
use crate::seal::ReplayTarget;

/// The most bytes of unsigned pieces that are remembered, so that a sealed string holds the whole entry. The signature of
/// a longer entry is sealed without them, and the client's entry provides the text.
const MAX_REMEMBERED_BYTES: usize = 4 << 20;

/// The most entries that are held, and the most choices whose plain reasoning is. Clients ask for fewer choices.
const MAX_CHOICES: usize = 256;

/// A decoder whose answers have sealed signatures.
pub(in crate::adapters) struct SealingStream<D> {
    inner: D,
    seals: StreamSeals,
}

impl<D: StreamDecoder> SealingStream<D> {
    /// `seals_plain`: see [`crate::adapter::Reading::seals_plain`]. With `has_whole_entries` the decoder gives each entry in
    /// one piece, so none is held.
    pub(in crate::adapters) fn new(
        inner: D,
        target: Arc<ReplayTarget>,
        seals_plain: bool,
        has_whole_entries: bool,
    ) -> Self {
        let seals = StreamSeals {
            target,
            has_whole_entries,
            begun: HashMap::new(),
            held: Vec::new(),
            kept_bytes: 0,
            plain: seals_plain.then(PlainReasoning::default),
        };
        Self { inner, seals }
    }
}

impl<D: StreamDecoder> StreamDecoder for SealingStream<D> {
    fn feed(&mut self, chunk: &[u8], sink: EventSink<'_>) {
        let Self { inner, seals } = self;
        inner.feed(chunk, &mut |event| seals.event(event, sink));
    }

    fn eof(&mut self, sink: EventSink<'_>) {
        let Self { inner, seals } = self;
        inner.eof(&mut |event| seals.event(event, sink));
        seals.release(|_| true, sink);
    }

    fn held_bytes(&self) -> usize {
        self.inner.held_bytes().saturating_add(self.seals.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        self.inner.work_bytes(chunk)
    }
}

/// The entries of a stream.
struct StreamSeals {
    target: Arc<ReplayTarget>,
    has_whole_entries: bool,
    /// The entries that began, by choice and `index`.
    begun: HashMap<(u32, u32), BegunEntry>,
    /// The entries whose signature may still grow, at most one of each choice.
    held: Vec<HeldEntry>,
    /// Bytes of the remembered and the held pieces.
    kept_bytes: usize,
    /// Reasoning without a signature; None when it is not sealed.
    plain: Option<PlainReasoning>,
}

/// The reasoning texts that no entry signed so far, by choice.
#[derive(Default)]
struct PlainReasoning {
    texts: Vec<(u32, String)>,
    bytes: usize,
    /// Of each whole entry, its choice and whether it signs reasoning. An order counts them.
    entries: Vec<(u32, bool)>,
}

/// The most whole entries that are remembered. An order has no more blocks.
const MAX_ENTRIES: usize = 4096;

impl PlainReasoning {
    fn add(&mut self, choice: u32, text: &str) {
        if self.bytes.saturating_add(text.len()) > MAX_REMEMBERED_BYTES {
            // An incomplete text is useless, and so is every later one.
            self.texts.clear();
            self.bytes = usize::MAX;
            return;
        }
        self.bytes += text.len();
        let has_room = self.texts.len() < MAX_CHOICES;
        match self.texts.iter_mut().find(|(known, _)| *known == choice) {
            Some((_, known)) => known.push_str(text),
            None if has_room => self.texts.push((choice, text.to_owned())),
            None => self.bytes -= text.len(),
        }
    }

    /// Takes the text of a choice.
    fn take(&mut self, choice: u32) -> Option<String> {
        let at = self.texts.iter().position(|(known, _)| *known == choice)?;
        let (_, text) = self.texts.swap_remove(at);
        self.bytes = self.bytes.saturating_sub(text.len());
        Some(text)
    }

    fn held_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(u32, bool)>();
        entries + self.texts.iter().map(|(_, text)| text.capacity() + 64).sum::<usize>()
    }

    /// Notes a whole entry.
    fn note(&mut self, choice: u32, signs: bool) {
        if self.entries.len() <= MAX_ENTRIES {
            self.entries.push((choice, signs));
        }
    }

    /// An order in which the entries of unsigned reasoning are counted.
    fn amended(&self, choice: u32, order: View<'_>) -> Option<Vec<u8>> {
        let of_choice = self.entries.iter().filter(|(of, _)| *of == choice);
        let signs: Vec<bool> = of_choice.map(|(_, signs)| *signs).collect();
        plain::amended_order(order, &signs).filter(|_| self.entries.len() <= MAX_ENTRIES)
    }
}

/// The state of an entry that began.
enum BegunEntry {
    /// Its pieces so far, which had no signature.
    Unsigned(Entry),
    /// Its pieces were too long to be remembered, or its signature is held.
    Forgotten,
    /// Its signature was sealed. A later piece of it cannot be used.
    Sealed,
}

/// Pieces with a signature.
struct HeldEntry {
    choice: u32,
    index: u32,
    entry: Entry,
    /// The unsigned beginning of the entry, which the client has already.
    earlier: Option<Entry>,
    is_first: bool,
}

impl StreamSeals {
    fn held_bytes(&self) -> usize {
        self.begun.capacity() * 3 * size_of::<((u32, u32), BegunEntry)>()
            + self.kept_bytes
            + self.plain.as_ref().map_or(0, PlainReasoning::held_bytes)
    }

    fn event(&mut self, event: Event<'_>, sink: EventSink<'_>) {
        match event {
            Event::Extra { choice, name: DETAILS, value } => self.details(choice, value, sink),
            Event::ToolStart { choice, call, id, name } => {
                self.release(|of| of == choice, sink);
                let id = sealed_id(&id, &self.target).map_or(id, Cow::Owned);
                sink(Event::ToolStart { choice, call, id, name });
            }
            Event::Text { choice, .. }
            | Event::Refusal { choice, .. }
            | Event::FunctionCall { choice, .. }
            | Event::Image { choice, .. }
            | Event::Finish { choice, .. } => {
                self.release(|of| of == choice, sink);
                sink(event);
            }
            Event::End => {
                self.release(|_| true, sink);
                sink(event);
            }
            Event::Reasoning { choice, ref text } => {
                if let Some(plain) = self.plain.as_mut().filter(|_| !text.is_empty()) {
                    plain.add(choice, text);
                }
                sink(event);
            }
            other => sink(other),
        }
    }

    /// Takes a value of `reasoning_details`.
    fn details(&mut self, choice: u32, value: &RawValue, sink: EventSink<'_>) {
        let details = View::new(value.get());
        if details.kind() != Kind::Array {
            return sink(Event::Extra { choice, name: DETAILS, value });
        }
        let mut out = Vec::with_capacity(details.text().len() + 64);
        for entry in details.elements() {
            self.piece(choice, entry, &mut out);
        }
        emit(choice, out, sink);
    }

    /// Takes an entry or a piece of one, and appends the complete ones to the array `out`.
    fn piece(&mut self, choice: u32, entry: View<'_>, out: &mut Vec<u8>) {
        let is_held = entry.kind() == Kind::Object && self.target.seals() && !self.has_whole_entries;
        let Some(index) = super::index(entry).filter(|_| is_held) else {
            self.release_into(|of| of.choice == choice, out);
            if order::is_order(entry)
                && let Some(amended) = self.plain.as_ref().and_then(|plain| plain.amended(choice, entry))
            {
                let amended = String::from_utf8_lossy(&amended);
                return super::push(out, |out| marked(View::new(&amended), &self.target, true, out));
            }
            if !order::is_order(entry) {
                self.end_run(choice, super::signs_reasoning(entry), out);
            }
            let is_first = super::index(entry).is_none_or(|index| self.begin(choice, index));
            return super::push(out, |out| marked(entry, &self.target, is_first, out));
        };
        self.release_into(|of| of.choice == choice && of.index != index, out);
        if let Some(held) = self.held.iter_mut().find(|held| held.choice == choice && held.index == index) {
            held.entry.join(entry);
            self.kept_bytes += entry.text().len();
        } else if signed_member(entry).is_some() {
            self.hold(choice, index, entry, out);
        } else {
            let is_first = self.remember(choice, index, entry);
            super::push(out, |out| marked(entry, &self.target, is_first, out));
        }
    }

    /// Ends the run of unsigned reasoning before an entry, which may sign it. Otherwise the run gets an entry of its own.
    fn end_run(&mut self, choice: u32, signs: bool, out: &mut Vec<u8>) {
        let Some(plain) = &mut self.plain else { return };
        plain.note(choice, signs);
        if let Some(text) = plain.take(choice)
            && !signs
            && let Some(entry) = plain::entry(&text, &self.target)
        {
            super::push(out, |out| out.extend_from_slice(&entry));
        }
    }

    /// Notes that an entry began. Returns false if it is known.
    fn begin(&mut self, choice: u32, index: u32) -> bool {
        self.begun.insert((choice, index), BegunEntry::Forgotten).is_none()
    }

    /// Remembers a piece without a signature. Returns true for the first piece of its entry.
    fn remember(&mut self, choice: u32, index: u32, piece: View<'_>) -> bool {
        let has_room = self.kept_bytes.saturating_add(piece.text().len()) <= MAX_REMEMBERED_BYTES;
        match self.begun.entry((choice, index)) {
            MapEntry::Vacant(place) => {
                let entry = Entry::read(piece);
                self.kept_bytes += if has_room { entry.held_bytes() } else { 0 };
                place.insert(if has_room { BegunEntry::Unsigned(entry) } else { BegunEntry::Forgotten });
                true
            }
            MapEntry::Occupied(mut known) => {
                if let BegunEntry::Unsigned(entry) = known.get_mut() {
                    self.kept_bytes = self.kept_bytes.saturating_sub(entry.held_bytes());
                    if has_room {
                        entry.join(piece);
                        self.kept_bytes += entry.held_bytes();
                    } else {
                        known.insert(BegunEntry::Forgotten);
                    }
                }
                false
            }
        }
    }

    /// Holds a piece with a signature.
    fn hold(&mut self, choice: u32, index: u32, piece: View<'_>, out: &mut Vec<u8>) {
        let before = self.begun.insert((choice, index), BegunEntry::Forgotten);
        let is_first = before.is_none();
        let entry = Entry::read(piece);
        self.end_run(choice, entry.signs_reasoning(), out);
        let earlier = match before {
            Some(BegunEntry::Sealed) => {
                self.begun.insert((choice, index), BegunEntry::Sealed);
                let rest = entry.without_signature();
                if rest.has_content() {
                    super::push(out, |out| rest.write(None, None, out));
                }
                return;
            }
            Some(BegunEntry::Unsigned(earlier)) => Some(earlier),
            Some(BegunEntry::Forgotten) | None => None,
        };
        self.kept_bytes += entry.held_bytes();
        self.held.push(HeldEntry { choice, index, entry, earlier, is_first });
        if self.held.len() > MAX_CHOICES {
            self.release_into(|held| held.choice == choice, out);
        }
    }

    /// Emits the held entries of these choices.
    fn release(&mut self, of: impl Fn(u32) -> bool, sink: EventSink<'_>) {
        // Nearly every event finds nothing held.
        while let Some(choice) = self.held.iter().map(|held| held.choice).find(|choice| of(*choice)) {
            let mut out = Vec::new();
            self.release_into(|held| held.choice == choice, &mut out);
            emit(choice, out, sink);
        }
        while let Some(plain) = &mut self.plain
            && let Some(choice) = plain.texts.iter().map(|(choice, _)| *choice).find(|choice| of(*choice))
        {
            let mut out = Vec::new();
            let text = plain.take(choice);
            if let Some(entry) = text.and_then(|text| plain::entry(&text, &self.target)) {
                super::push(&mut out, |out| out.extend_from_slice(&entry));
            }
            emit(choice, out, sink);
        }
    }

    /// Appends the held entries of these places to the array `out`.
    fn release_into(&mut self, is_due: impl Fn(&HeldEntry) -> bool, out: &mut Vec<u8>) {
        while let Some(at) = self.held.iter().position(&is_due) {
            let held = self.held.remove(at);
            let earlier_bytes = held.earlier.as_ref().map_or(0, Entry::held_bytes);
            self.kept_bytes = self.kept_bytes.saturating_sub(earlier_bytes + held.entry.held_bytes());
            self.begun.insert((held.choice, held.index), BegunEntry::Sealed);
            let origin = held.is_first.then(|| self.target.name());
            super::push(out, |out| {
                sealed_entry(&held.entry, held.earlier.as_ref(), &self.target, origin, out)
            });
        }
    }
}

/// Emits an array whose end is missing, unless it is empty.
fn emit(choice: u32, mut out: Vec<u8>, sink: EventSink<'_>) {
    if out.is_empty() {
        return;
    }
    out.push(b']');
    if let Some(value) = String::from_utf8(out).ok().and_then(|text| RawValue::from_string(text).ok()) {
        sink(Event::Extra { choice, name: DETAILS, value: &value });
    }
}

#[cfg(test)]
mod tests;
