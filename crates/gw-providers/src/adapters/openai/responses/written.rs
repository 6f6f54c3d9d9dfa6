//! The code, commands, patches and searches that the model writes for the provider's tools. They stand in items of a response, and no
//! other event counts them. Servers that send no pieces of an item have its text in the item alone.

use std::collections::{HashMap, HashSet};

use gw_wire::event::AUDIO_CHARS_PER_TEXT_BYTE;
use gw_wire::json::View;
use gw_wire::usage::text_bytes;

use super::item::OutputItem;
use crate::adapters::sse_adapter::EventSink;
use crate::adapters::written::{WrittenPart, report, texts_in};

/// The most items of a stream that are remembered. A text in further ones counts by its pieces.
const MAX_ITEMS: usize = 4096;

/// The members with the text of a part that is complete.
const TEXTS: [&str; 7] = ["arguments", "code", "command", "diff", "input", "refusal", "text"];

/// The texts that a model has written into the items of a stream so far.
#[derive(Debug, Default)]
pub(super) struct WrittenItems {
    parts: HashMap<u32, WrittenPart>,
    /// The items whose pieces have events that count.
    shown: HashSet<u32>,
    last_shown: Option<u32>,
}

impl WrittenItems {
    /// Notes that a piece of the item has an event that counts.
    pub(super) fn show(&mut self, index: u32) {
        if self.last_shown != Some(index) && self.shown.len() < MAX_ITEMS {
            self.last_shown = Some(index);
            self.shown.insert(index);
        }
    }

    /// Takes a piece without an event of its own. Pieces of audio belong to no item.
    pub(super) fn piece(&mut self, kind: &str, index: Option<u32>, piece: &str, sink: EventSink<'_>) {
        let bytes = text_bytes(piece);
        if kind.contains("audio.delta") {
            return report(bytes.div_ceil(AUDIO_CHARS_PER_TEXT_BYTE), sink);
        }
        match index.and_then(|index| self.part(index)) {
            Some(part) => part.piece(bytes, sink),
            None => report(bytes, sink),
        }
    }

    /// Takes the event of a complete part, which repeats its pieces.
    pub(super) fn part_done(&mut self, index: Option<u32>, event: &str, sink: EventSink<'_>) {
        let Some(index) = index.filter(|index| !self.shown.contains(index)) else { return };
        let texts = View::new(event).pick(TEXTS).into_iter().flatten();
        let bytes = texts.filter_map(View::string).map(|text| text_bytes(&text)).sum();
        if let Some(part) = self.part(index) {
            part.whole(bytes, sink);
        }
    }

    /// Takes the item of an event, or of the last event, where it may be complete.
    pub(super) fn item(&mut self, index: u32, item: View<'_>, sink: EventSink<'_>) {
        let [kind] = item.pick(["type"]);
        let is_shown = self.shown.contains(&index);
        // Tools write their results, not the model.
        let is_other = |kind: &str| kind.ends_with("_output") || kind == "mcp_list_tools";
        if is_shown || kind.and_then(View::string).is_some_and(|kind| is_other(&kind)) {
            return;
        }
        if let Some(part) = self.part(index) {
            part.whole(texts_in(item), sink);
        }
    }

    fn part(&mut self, index: u32) -> Option<&mut WrittenPart> {
        let has_room = self.parts.len() < MAX_ITEMS || self.parts.contains_key(&index);
        has_room.then(|| self.parts.entry(index).or_default())
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.parts.capacity() * 2 * size_of::<(u32, WrittenPart)>()
            + self.shown.capacity() * 3 * size_of::<u32>()
    }
}

impl OutputItem<'_> {
    /// Whether the pieces of the item usually have events of their own, so that its beginning holds none of its text.
    pub(super) fn is_shown_in_pieces(&self) -> bool {
        self.is_call() || matches!(&*self.kind, "message" | "reasoning")
    }
}
