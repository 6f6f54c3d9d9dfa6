//! The open message of an upstream that speaks this dialect. If the stream breaks, another upstream continues its text.

use crate::dialects::responses::json_text::{put_one_line, separate, text};
use crate::dialects::responses::snapshot::ItemPlace;
use crate::json::View;

/// A message whose end has not come.
#[derive(Clone, Debug)]
pub(super) struct NativeMessage {
    pub(super) place: ItemPlace,
    /// The ended parts as JSON text, separated by commas, and their number.
    pub(super) parts: Vec<u8>,
    pub(super) count: u32,
    /// The escaped text of the open part.
    pub(super) text: Option<Vec<u8>>,
}

impl NativeMessage {
    /// The message that a frame opens.
    pub(super) fn opened(data: &str) -> Option<Self> {
        let [item, index] = View::new(data).pick(["item", "output_index"]);
        let [kind, id] = item?.pick(["type", "id"]);
        text(kind).filter(|kind| kind == "message")?;
        let place = ItemPlace { id: text(id)?.into_owned(), index: index?.text().parse().ok()? };
        Some(Self { place, parts: Vec::new(), count: 0, text: None })
    }

    /// Follows a frame of the message.
    pub(super) fn follow(&mut self, name: &str, data: &str) {
        match name {
            "response.content_part.added" => self.text = Some(Vec::new()),
            "response.output_text.delta" => {
                let [delta] = View::new(data).pick(["delta"]);
                let inner = delta.and_then(|delta| delta.text().strip_prefix('"')?.strip_suffix('"'));
                if let (Some(text), Some(inner)) = (&mut self.text, inner) {
                    put_one_line(text, inner);
                }
            }
            "response.content_part.done" => {
                let [part] = View::new(data).pick(["part"]);
                if let Some(part) = part {
                    separate(&mut self.parts);
                    put_one_line(&mut self.parts, part.text());
                    self.count += 1;
                }
                self.text = None;
            }
            _ => {}
        }
    }

    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.parts.capacity() + self.text.as_ref().map_or(0, Vec::capacity)
    }
}
